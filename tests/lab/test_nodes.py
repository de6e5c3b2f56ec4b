"""Inside the lab: the nodes, their cable, the devices, and what a command finds there."""

import errno
import json

import pytest

from . import __main__, machine

# The first test may have to build a kernel.
pytestmark = pytest.mark.timeout(3600)

ON_1 = "nsenter --net=/run/netns/node1"
# A server is up when its port of rdma_cm is bound; until then the client tries again.  One that was
# refused now and then stays for ever.
RPING = (f"rping -s -a 10.77.0.1 -C 3 & for i in 1 2 3 4 5 6 7 8 9; do {ON_1} timeout 4 rping -c "
         "-v -a 10.77.0.1 -C 3 && break; sleep 0.3; done")


def test_two_nodes_have_working_devices_and_a_cable(lab):
    commands = {
        "rdma -j link": "links",
        "ibv_devices": "devices",
        "busybox ping -c 1 -W 5 node1": "out",
        f"{ON_1} busybox ping -c 1 -W 5 10.77.0.1": "back",
        f"{ON_1} busybox ping6 -c 1 -W 5 fd77::1": "six",
        RPING: "rping rxe",
        f"ib_write_lat -x 1 -n 100 -d rxe0 >/dev/null & sleep 1; "
        f"{ON_1} ib_write_lat -x 1 -n 100 -d rxe1 node0": "perftest rxe",
        # One kind of device a link, so that rdma_cm has no choice.
        "rdma link del rxe0; rdma link del rxe1": "del",
        f"{RPING} # siw": "rping siw",
    }
    result = lab(machine.sequence(commands), limit=60)
    assert result.status == 0, result.report()
    parts = result.stdout.split("=== ")[1:]
    told = {name: part.split("\n", 1)[1]
            for name, part in zip(commands.values(), parts, strict=True)}
    links = {link["ifname"]: link["state"] for link in json.loads(told["links"])}
    assert links == dict.fromkeys(["rxe0", "rxe1", "siw0", "siw1"], "ACTIVE")
    assert all(name in told["devices"] for name in links)
    for name in ("out", "back", "six"):
        assert " 0% packet loss" in told[name]
    for name in ("rping rxe", "rping siw"):
        assert "ping data: rdma-ping-2" in told[name], result.report()
    assert "t_typical" in told["perftest rxe"]


@pytest.mark.parametrize("device", machine.DEVICES)
def test_one_node_has_one_device(lab, device):
    result = lab("rdma -j link; ls /run/netns; echo $LAB_NODES $LAB_DEVICES", nodes=1,
                 devices=(device,), limit=60)
    assert result.status == 0, result.report()
    links, rest = result.stdout.split("\n", 1)
    assert [link["ifname"] for link in json.loads(links)] == [f"{device}0"]
    assert rest.split() == ["node0", "wire", "1", device]


def test_the_cable_is_as_slow_as_asked(lab):
    # Nobody listens there: the answer is a refusal, which takes the cable twice all the same.
    program = "import socket, time; begin = time.perf_counter(); " \
              "print(socket.socket().connect_ex(('node1', 7)), time.perf_counter() - begin)"
    result = lab(f'tc qdisc show dev v0; {ON_1} tc qdisc show dev v1; python -c "{program}"',
                 devices=(), limit=60, rate="50mbit", delay="20ms", loss="0%")
    assert result.status == 0, result.report()
    near, far, answer = result.stdout.splitlines()
    number, seconds = answer.split()
    for line in (near, far):
        assert "netem" in line and "delay 20ms" in line and "rate 50Mbit" in line
    # There and back; the tick of the guest may take a millisecond of each way.
    assert int(number) == errno.ECONNREFUSED and float(seconds) >= 0.038


def test_a_command_finds_what_it_needs(lab):
    result = lab("""
        pwd
        ulimit -l; ulimit -n
        grep -c 'cpu MHz' /proc/cpuinfo
        python -c 'import pyrdv; print(pyrdv.__file__)'
        python -c 'from multiprocessing.shared_memory import SharedMemory as S
s = S(None, True, 9); print(s.size); s.close(); s.unlink()'
        python -c 'import tempfile; tempfile.TemporaryFile().write(b"x"); print("temp")'
        setpriv --reuid 4321 --regid 4321 --clear-groups sh -c '
            ulimit -l 64; python -c "import os; print(os.getuid())"; ulimit -l'
        echo $PYRDV_OF_THE_TEST
    """, nodes=1, devices=("rxe",), limit=60, env={"PYRDV_OF_THE_TEST": "it's here"})
    assert result.status == 0, result.report()
    told = result.stdout.splitlines()
    assert told[0] == str(machine.ROOT)
    assert told[1:3] == ["unlimited", "65536"]
    assert int(told[3]) > 0
    assert told[4].endswith("pyrdv/__init__.py")
    assert int(told[5]) >= 9
    assert told[6:] == ["temp", "4321", "64", "it's here"]


def test_pinned_processors(lab):
    result = lab("nproc; for k in 0 1; do taskset -c $k sh -c 'echo on $(taskset -p $$)'; done",
                 nodes=1, devices=(), limit=60, pinned=True, cpus=2)
    assert result.status == 0, result.report()
    assert result.stdout.splitlines()[0] == "2"
    assert "mask: 1" in result.stdout and "mask: 2" in result.stdout


@pytest.mark.parametrize("options", [
    ("--ranks", "4", "--device", "siw", "--", "examples/ring.py"),
    ("--ranks", "2", "--nodes", "1", "--pinned", "--", "examples/ring.py"),
], ids=["two nodes", "one node, pinned"])
def test_ranks_on_the_nodes(lab, capfd, options):
    """`make lab ARGS="--ranks N ..."`, as typed."""
    lab("true", nodes=1, devices=(), limit=60)  # a lab that is not available says so here
    assert __main__.main([*options[:2], "--limit", "60", *options[2:]]) == 0
    n = int(options[1])
    assert sorted(capfd.readouterr().out.splitlines()) == [
        f"rank {rank} of {n} got {(rank - 1) % n}" for rank in range(n)]


@pytest.mark.parametrize("words", [("--ranks", "2"), ("--ranks", "0", "--", "examples/ring.py")])
def test_ranks_need_a_program(capsys, words):
    with pytest.raises(SystemExit):
        __main__.main(words)
    assert "needs a program" in capsys.readouterr().err
