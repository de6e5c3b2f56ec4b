"""Is the package that will be tested instrumented, and would a fault end the run?

    selftest.py memory|threads LIB FOLDER CC

Each planted fault runs in a process of its own and must end it with a report of
the right kind and status 99 (run.sh sets it).
"""

import importlib
import os
import subprocess
import sys
from pathlib import Path

MODE, LIB, FOLDER, CC = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]

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
static int count, inside;
void add(void) {
    /* Both at once: one behind the other is ordered by the GIL.  Relaxed orders nothing.
       Many times: two accesses of the same instant can miss each other in the shadow memory. */
    __atomic_add_fetch(&inside, 1, __ATOMIC_RELAXED);
    while (__atomic_load_n(&inside, __ATOMIC_RELAXED) < 2) {
    }
    for (int time = 0; time < 1000; time++)
        count++;
}
"""

TWO_THREADS = """
import threading
def at_once(*calls):
    threads = [threading.Thread(target=call) for call in calls]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
"""

# name: (what the report must say, the program)
MEMORY_FAULTS = {
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
THREAD_FAULTS = {
    "a race in C": (
        "data race", TWO_THREADS + "import ctypes; add = ctypes.CDLL({so!r}).add; "
        "at_once(add, add)"),
    "a race in the package": (
        # The simulated network has no lock: one thread at a time may drive it.
        "pyrdv/instruments/sim/", TWO_THREADS + """
import sys
sys.path.insert(0, '.')
from tests.conformance.worlds import SimWorld
w = SimWorld(2)
def turns(engine, comm):
    for number in range(300):
        comm.Isend(bytes(100), 1 - comm.rank, 0)
        engine.turn()
    room = bytearray(100)
    for number in range(300):
        comm.Recv(room, 1 - comm.rank, 0)
at_once(*[lambda i=i: turns(w.engines[i], w.comms[i]) for i in range(2)])
"""),
}
if MODE == "threads":
    FAULTS, KIND, LIBRARIES = THREAD_FAULTS, "thread", (b"libtsan.so",)
    OPTIONS = ("TSAN_OPTIONS",)
else:
    FAULTS, KIND, LIBRARIES = MEMORY_FAULTS, "address,undefined", (b"libasan.so", b"libubsan.so")
    OPTIONS = ("ASAN_OPTIONS", "UBSAN_OPTIONS")


def check_package():
    """Everything compiled comes from LIB and needs the run-time library."""
    import pyrdv

    assert Path(pyrdv.__file__).is_relative_to(LIB), f"{pyrdv.__file__} is not in {LIB}"
    compiled = sorted((LIB / "pyrdv").rglob("*.so"))
    assert len(compiled) > 20, f"only {len(compiled)} compiled modules in {LIB}"
    for path in compiled:
        text = path.read_bytes()
        assert all(name in text for name in LIBRARIES), f"{path} is not instrumented"
        name = ".".join(path.relative_to(LIB).parts).partition(".cpython")[0].partition(".abi3")[0]
        module = importlib.import_module(name)
        assert Path(module.__file__) == path, f"{name} comes from {module.__file__}"
    print(f"sanitize: {len(compiled)} instrumented modules from {LIB}")


def run(program):
    """Run it; its status, and what the sanitizers reported."""
    log = f":halt_on_error=1:log_path={FOLDER}/planted"
    env = os.environ | {name: os.environ[name] + log for name in OPTIONS}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env,
                          timeout=120)
    reports = list(FOLDER.glob("planted.[0-9]*"))
    text = "".join([done.stderr, *(path.read_text() for path in reports)])
    for path in reports:
        path.unlink()
    return done.returncode, text


def check_faults():
    so = FOLDER / "planted.so"
    (FOLDER / "planted.c").write_text(PLANTED_C)
    subprocess.run([CC, "-shared", "-fPIC", "-g", "-O0", f"-fsanitize={KIND}",
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
