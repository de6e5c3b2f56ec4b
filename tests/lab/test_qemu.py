"""The lab on a stock Debian kernel in QEMU: it boots, its devices work, jobs run, nothing stays."""

import json
import os
import subprocess
import sys

import pytest

from . import kernel, machine, qemu, qemu_image, ranks
from .test_lab import gone, marked

# The limits count inside the guest; the first test may have to get a kernel and compile a driver.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

PLAIN = {"machine": "qemu", "nodes": 1, "devices": (), "cpus": 1, "limit": 120}
ON_1 = "nsenter --net=/run/netns/node1"
# A server is up when its port of rdma_cm is bound; until then the client tries again.
RPING = (f"rping -s -a %s -C 3 & for i in 1 2 3 4 5 6 7 8 9; do {ON_1} timeout 9 rping -c -v "
         "-a %s -C 3 && break; sleep 1; done; wait")
RING = ["examples/ring.py"]
RING_SAYS = ["rank 0 of 2 got 1", "rank 1 of 2 got 0"]


def test_what_goes_in_and_what_comes_back(lab, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("kept")
    # The second way in is one that only a guest's root user can take.
    result = lab(f"""
        uname -rv
        python -c 'import sys; sys.stdout.buffer.write(bytes(range(256)) * 1200)' | cksum
        seq 100000
        echo changed >{victim} && cat {victim}
        host=/proc/1/cwd/host
        mount -o remount,rw $host && cat $host{victim}
        echo changed >$host{victim} || echo refused
        echo result >$LAB_OUT/file
        kill -KILL $$
    """, out=tmp_path / "out", **PLAIN)
    assert result.status == 137, result.report()
    version, check, *numbers, changed, refused = result.stdout.splitlines()
    assert "Debian" in version
    assert check.split()[1] == str(256 * 1200)
    assert numbers == [str(number) for number in range(1, 100001)]
    assert (changed, refused) == ("changed", "keptrefused")
    assert "Read-only file system" in result.stderr
    assert victim.read_text() == "kept"
    assert (tmp_path / "out" / "file").read_text() == "result\n"


def test_two_nodes_with_rxe(lab):
    commands = {
        "rdma -j link": "links",
        RPING.replace("%s", "10.77.0.1"): "rping",
        RPING.replace("%s", "fd77::1"): "rping6",
        # Only what came over the cable counts.
        "cat /sys/class/net/v0/statistics/rx_packets": "before",
        f"ib_write_lat -x 1 -n 100 -d rxe0 >/dev/null & sleep 4; "
        f"{ON_1} ib_write_lat -x 1 -n 100 -d rxe1 node0": "perftest",
        "cat /sys/class/net/v0/statistics/rx_packets #": "after",
        "pyrdv run -n 2 examples/ring.py": "shm",
        ranks.job(RING, 2, "rxe"): "verbs",
        "cat /sys/class/net/v0/statistics/rx_bytes": "bytes",
    }
    told, result = _told(lab, commands, devices=("rxe",))
    assert {link["ifname"]: link["state"] for link in json.loads(told["links"])} == {
        "rxe0": "ACTIVE", "rxe1": "ACTIVE"}
    for name in ("rping", "rping6"):
        assert "ping data: rdma-ping-2" in told[name], result.report()
    assert "t_typical" in told["perftest"]
    assert int(told["after"]) >= int(told["before"]) + 100
    for name in ("shm", "verbs"):
        assert sorted(told[name].splitlines()) == RING_SAYS, result.report()
    assert int(told["bytes"]) > 8_000_000


def test_two_nodes_with_siw(lab):
    commands = {
        "rdma -j link": "links",
        RPING.replace("%s", "10.77.0.1"): "rping",
        ranks.job(RING, 2, "siw"): "verbs",
    }
    told, result = _told(lab, commands, devices=("siw",))
    assert {link["ifname"]: link["state"] for link in json.loads(told["links"])} == {
        "siw0": "ACTIVE", "siw1": "ACTIVE"}
    assert "ping data: rdma-ping-2" in told["rping"], result.report()
    assert sorted(told["verbs"].splitlines()) == RING_SAYS, result.report()


def _told(lab, commands, **options):
    """What each of the commands printed, by their names; they run in one boot."""
    result = lab(machine.sequence(commands), machine="qemu", limit=240, **options)
    assert result.status == 0, result.report()
    parts = ("\n" + result.stdout).split("\n=== ")[1:]
    return {name: part.split("\n", 1)[1]
            for name, part in zip(commands.values(), parts, strict=True)}, result


def test_the_time_limit_ends_a_command_and_says_what_hung(lab):
    result = lab("echo before; sleep 1234", **{**PLAIN, "limit": 2})
    assert (result.status, result.stdout) == (machine.TIMED_OUT, "before\n"), result.report()
    assert "sleep 1234" in result.console and "limit of 2 s" in result.report()


def test_a_panic_is_reported_with_the_console(lab):
    result = lab("echo before; echo c >/proc/sysrq-trigger; sleep 1000", **PLAIN)
    assert (result.status, result.stdout) == (125, "before\n"), result.report()
    assert "Kernel panic" in result.console


@pytest.fixture
def built(lab, monkeypatch):
    """Build what is missing, or end the test as `lab` does, and boot nothing."""
    class Ready(Exception):
        pass

    def start(job, streams):
        raise Ready

    with monkeypatch.context() as patch:
        patch.setattr(qemu, "start", start)
        with pytest.raises(Ready):
            lab("true", **PLAIN)


def test_the_guest_ends_with_its_runner(built, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.lab", "--machine", "qemu", "--nodes", "1", "--cpus", "1",
         "--device", "rxe", "--", "echo up; sleep 1000"],
        cwd=machine.ROOT, text=True, stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)})
    try:
        assert process.stdout.readline() == "up\n"
        folder, = tmp_path.glob("pyrdv-lab-*")
        assert marked(folder)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert gone(folder)


# What needs no guest.

@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("PYRDV_LAB_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache" / "qemu").mkdir(parents=True)
    return kernel.cache()


IMAGE = qemu_image.Image("kernel", "initrd")


@pytest.mark.parametrize("flags, works, chosen", [
    ("vmx sse2", True, "kvm"), ("svm", True, "kvm"), ("vmx", False, "tcg"), ("sse2", True, "tcg"),
])
def test_kvm_is_used_where_a_trial_boot_passes(home, monkeypatch, flags, works, chosen):
    tried = []
    monkeypatch.delenv(qemu.ACCELERATOR_KNOB, raising=False)
    monkeypatch.setattr(qemu, "trial", lambda accel, image: tried.append(accel) or works)
    monkeypatch.setattr(qemu, "processor_flags", lambda: set(flags.split()))
    monkeypatch.setattr(qemu, "may_use_kvm", lambda: True)
    for _ in range(2):
        assert qemu.accelerator(IMAGE) == chosen
    # Once for each start of the host.
    assert tried == ([] if flags == "sse2" else ["kvm"])


def test_the_knob_chooses_the_accelerator(monkeypatch):
    monkeypatch.setenv(qemu.ACCELERATOR_KNOB, "kvm")
    assert qemu.accelerator(IMAGE) == "kvm"
    monkeypatch.setenv(qemu.ACCELERATOR_KNOB, "hax")
    with pytest.raises(ValueError, match=f"{qemu.ACCELERATOR_KNOB}.*hax"):
        qemu.accelerator(IMAGE)


def test_a_trial_boots_or_fails_in_time(built, tmp_path):
    image = qemu_image.image((), print)
    assert qemu.trial("tcg", image, limit=100)
    # Too short a limit is what a guest that hangs looks like.
    assert not qemu.trial("tcg", image, limit=0.5)
    (tmp_path / "kernel").write_bytes(b"\x7fELF no kernel")
    image = qemu_image.Image(tmp_path / "kernel", tmp_path / "kernel")
    assert not qemu.trial("tcg", image, limit=10)


def test_packages_in_a_folder(home, tmp_path, monkeypatch):
    monkeypatch.setenv(qemu_image.PACKAGES_KNOB, str(tmp_path))
    with pytest.raises(machine.LabUnavailable, match=f"{qemu_image.PACKAGES_KNOB}={tmp_path}"):
        qemu_image.image((), print)


def test_without_qemu_the_lab_says_so(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(machine.LabUnavailable, match="install qemu-system-x86"):
        qemu.ensure(print)


def test_the_first_file_system_is_an_archive_that_others_can_read(tmp_path):
    archive = qemu_image.cpio(["a"], {"a/b": b"odd", "c": b""})
    told = subprocess.run(["busybox", "cpio", "-t"], input=archive, capture_output=True, check=True)
    assert told.stdout.split() == [b"a", b"a/b", b"c"]
    subprocess.run(["busybox", "cpio", "-i"], input=archive, cwd=tmp_path, check=True,
                   capture_output=True)
    assert (tmp_path / "a" / "b").read_bytes() == b"odd"
