"""Is the package that will be tested instrumented, and would a fault end the run?

    selftest.py LIB FOLDER CC

Each planted fault runs in a process of its own and must end it with a report of
the right kind and status 99 (run.sh sets it).
"""

import importlib
import os
import subprocess
import sys
from pathlib import Path

LIB, FOLDER, CC = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]

PLANTED_C = r"""
#include <stdlib.h>
int overrun(int at) {
    volatile char *block = malloc(10);
    block[at] = 1;
    int seen = block[0];
    free((void *) block);
    return seen;
}
int shift(int by) { return 1 << by; }
"""

# name: (what the report must say, the program)
FAULTS = {
    "write behind a block, in C": (
        "heap-buffer-overflow", "import ctypes; ctypes.CDLL({so!r}).overrun(10)"),
    "undefined shift, in C": (
        "shift exponent", "import ctypes; ctypes.CDLL({so!r}).shift(77)"),
    "write behind an array of numpy": (
        "heap-buffer-overflow",
        "import ctypes, numpy; a = numpy.zeros(5000, 'u1'); ctypes.memset(a.ctypes.data, 1, 5001)"),
    "write behind a bytes object": (
        "heap-buffer-overflow",
        "import ctypes; a = bytes(100); ctypes.memset(id(a), 1, a.__sizeof__() + 1)"),
    "read behind a buffer, in the package": (
        "heap-buffer-overflow", """
import sys
sys.path.insert(0, '.')
from tests.fabrics.shmtools import pair
a, b = pair('off')
source, sink = a.register(bytearray(5000)), b.register(bytearray(20000))
a.write(1, source, sink.address, sink.key, 9000)
for _ in range(100):
    a.poll(), b.poll()
"""),
    "a fault in a test that pytest runs": (
        "shift exponent",
        "import pytest, sys; sys.exit(pytest.main(['-q', '-p', 'no:faulthandler', '-p', "
        "'no:cacheprovider', '--capture=sys', {test!r}]))"),
}


def check_package():
    """Everything compiled comes from LIB and needs the run-time library."""
    import pyrdv

    assert Path(pyrdv.__file__).is_relative_to(LIB), f"{pyrdv.__file__} is not in {LIB}"
    compiled = sorted((LIB / "pyrdv").rglob("*.so"))
    assert len(compiled) > 20, f"only {len(compiled)} compiled modules in {LIB}"
    for path in compiled:
        text = path.read_bytes()
        assert b"libasan.so" in text and b"libubsan.so" in text, f"{path} is not instrumented"
        name = ".".join(path.relative_to(LIB).parts).partition(".cpython")[0].partition(".abi3")[0]
        module = importlib.import_module(name)
        assert Path(module.__file__) == path, f"{name} comes from {module.__file__}"
    print(f"sanitize: {len(compiled)} instrumented modules from {LIB}")


def run(program):
    """Run it; its status, and what the sanitizers reported."""
    log = f":log_path={FOLDER}/planted"
    env = os.environ | {name: os.environ[name] + log for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS")}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    reports = list(FOLDER.glob("planted.[0-9]*"))
    text = "".join([done.stderr, *(path.read_text() for path in reports)])
    for path in reports:
        path.unlink()
    return done.returncode, text


def check_faults():
    so = FOLDER / "planted.so"
    (FOLDER / "planted.c").write_text(PLANTED_C)
    subprocess.run([CC, "-shared", "-fPIC", "-g", "-O0", "-fsanitize=address,undefined",
                    "-fno-sanitize-recover=all", "-o", so, FOLDER / "planted.c"], check=True)
    test = FOLDER / "test_planted.py"
    test.write_text("import ctypes\n\n\ndef test_planted():\n"
                    f"    ctypes.CDLL({str(so)!r}).shift(77)\n")
    for name, (report, program) in FAULTS.items():
        program = program.format(so=str(so), test=str(test))
        status, text = run(program)
        assert status == 99 and report in text, (
            f"planted fault not seen: {name}: status {status}\n{text[-3000:]}")
    status, text = run("import pyrdv.engine.engine")
    assert status == 0 and not text, f"a program without a fault: status {status}\n{text}"
    print(f"sanitize: {len(FAULTS)} planted faults were all reported")


check_package()
check_faults()
