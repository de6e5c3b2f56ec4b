"""``pyrdv doctor``: what it says of devices, limits and settings, and its exit status."""

import json
import os
import re
import subprocess
import sys

import pytest

from pyrdv import algorithms, config
from pyrdv.fabrics.verbs import choice
from pyrdv.tools import doctor, doctor_facts, doctor_protocols
from tests.fabrics.verbstools import RXE0, SIW0, device, gid, port
from tests.house import reading
from tests.support.figures import SOFT_ROCE

SECTIONS = ["Will be used", "Shared memory", "Limits", "RDMA", "Settings in the environment"]


def run(*words, prefix=(), **variables):
    """The command itself: status, stdout, stderr."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYRDV_")}
    command = [*prefix, sys.executable, "-m", "pyrdv.tools.cli", "doctor", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120,
                          env={**environ, **variables})
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def machine(monkeypatch):
    """Set the devices that this machine seems to have, and what a queue pair on them tells."""
    from pyrdv.fabrics.verbs import device as binding

    def make(*devices, in_order=False, queue_pair=None, manager=None, connection=None):
        def read(found):
            found["source"] = "a fake"
            found["devices"] = [doctor_facts._device_facts(one) for one in devices]
            return devices

        def tried(name):
            if queue_pair is not None:
                raise queue_pair
            return in_order

        def connected(device, port, gid):
            if connection is not None:
                raise connection

        monkeypatch.setattr(doctor_facts, "_devices", read)
        monkeypatch.setattr(doctor_facts, "try_connection", connected)
        monkeypatch.setattr(binding, "try_queue_pair", tried)
        monkeypatch.setattr(binding, "manager_problem", lambda: manager)

    return make


def look(**settings):
    """Facts and page under the settings given."""
    facts = doctor_facts.collect(settings)
    json.dumps(facts)
    return facts, "\n".join(doctor.page(facts))


# --------------------------------------------------------------- the command itself


def test_page_of_this_machine():
    status, stdout, stderr = run()
    assert (status, stderr) == (0, "")
    for section in SECTIONS:
        assert re.search(rf"^{section}$", stdout, re.M), section
    assert re.match(r"pyrdv \S+, built with", stdout)
    assert "ulimit -l" in stdout and "cores" in stdout and "single copy" in stdout


def test_json_of_this_machine():
    status, stdout, stderr = run("--json", PYRDV_RDMA_RING="off")
    facts = json.loads(stdout)
    assert (status, stderr, facts["usable"]) == (0, "", True)
    assert facts["system"]["cores_allowed"] == len(os.sched_getaffinity(0))
    assert {"variable": "PYRDV_RDMA_RING", "value": "off", "set": True} in facts["settings"]
    assert set(facts) == {"pyrdv", "system", "launch", "settings", "shared_memory", "limits",
                          "rdma", "use", "problems", "usable"}


def test_help_explains_the_exit_status():
    status, stdout, _ = run("--help")
    assert status == 0
    for word in ("exit status", "PYRDV_RDMA_DEVICE", "bug report", "--json", "ip netns exec"):
        assert word in stdout
    assert run("--nosuch")[0] == 2


def test_setting_that_is_not_allowed():
    status, stdout, stderr = run(PYRDV_FABRIC="pigeon")
    assert (status, stderr) == (1, "")
    assert "PYRDV_FABRIC=pigeon" in stdout and "auto, shm, verbs" in stdout
    status, stdout, stderr = run(PYRDV_FABRICK="shm")
    assert (status, stderr) == (0, "")
    assert "did you mean PYRDV_FABRIC?" in " ".join(stdout.split())


def test_device_that_is_asked_for_and_absent():
    """Whatever devices this machine has, it has none of that name."""
    status, stdout, stderr = run(PYRDV_RDMA_DEVICE="nosuch0")
    assert (status, stderr) == (1, "")
    assert "'nosuch0'" in stdout and "[asked for by a setting]" in stdout


def test_limits_of_this_process_are_shown():
    limited = ["sh", "-c", 'ulimit -n 128; ulimit -l 64; exec "$@"', "sh"]
    status, stdout, _ = run(prefix=limited)
    assert status == 0
    assert re.search(r"locked memory .*: 64 KiB, hard 64 KiB", stdout)
    assert re.search(r"open files .*: +128, hard 128", stdout)
    assert "the limit of open files is 128" in stdout and "`ulimit -n 4096`" in stdout


def test_algorithms_of_collective_calls():
    """Which, from how many bytes on, and why; by the table and by the knob."""
    status, stdout, stderr = run("--collectives", "4")
    assert (status, stderr) == (0, "")
    assert "of 4 ranks within one host" in stdout
    assert re.search(r"^  allreduce +up to 16 KiB of the vector +doubling +up to", stdout, re.M)
    assert re.search(r"^  allreduce +more +halving ", stdout, re.M)
    assert re.search(r"^  allreduce +any, in order +doubling ", stdout, re.M)
    assert re.search(r"^  allgather +each block another length +ring ", stdout, re.M)
    status, stdout, stderr = run("--collectives", "8", "--across",
                                 PYRDV_COLLECTIVES="allreduce=ring")
    assert (status, stderr) == (0, "") and "of 8 ranks across hosts" in stdout
    assert re.search(r"^  allreduce +any +ring +PYRDV_COLLECTIVES$", stdout, re.M)
    assert re.search(r"^  bcast +more +scatter ", stdout, re.M)


def test_algorithms_for_programs():
    status, stdout, stderr = run("--collectives", "2", "--json", PYRDV_COLLECTIVES="bcast=chain")
    rows = json.loads(stdout)
    assert (status, stderr) == (0, "")
    assert rows[0] == {"kind": "bcast", "name": "chain", "why": "PYRDV_COLLECTIVES", "most": None,
                       "uneven": False, "ordered": False}
    assert {row["kind"] for row in rows} == set(algorithms.MEASURES)


def test_algorithms_that_cannot_be_asked_for():
    status, stdout, stderr = run("--collectives", "0")
    assert (status, stdout) == (2, "") and "1 at least" in stderr
    status, stdout, stderr = run("--collectives", "4", PYRDV_COLLECTIVES="bcast=flood")
    assert (status, stdout) == (1, "")
    assert "PYRDV_COLLECTIVES='bcast=flood'" in stderr and "bcast=binomial|scatter|chain" in stderr


def test_what_the_documentation_shows_is_what_is_printed():
    text = (reading.ROOT / "docs" / "collectives.md").read_text(encoding="utf-8")
    shown = re.search(r"```text\n\$ pyrdv doctor --collectives 4\n(.*?)```", text, re.S)
    assert shown[1] == run("--collectives", "4")[1]


# ------------------------------------------------------------------- faked machines


def test_machine_without_devices(machine):
    machine()
    facts, page = look()
    assert facts["usable"] and facts["rdma"]["choice"] is None
    assert "no devices" in page and "rdma link add rxe0 type rxe netdev eth0" in page
    assert "refuse the interface lo" in " ".join(page.split())
    assert facts["use"]["other_hosts"].startswith("nothing")
    assert facts["use"]["this_host"].startswith("shared memory")
    facts, page = look(PYRDV_FABRIC="verbs")
    assert not facts["usable"] and facts["use"]["this_host"].startswith("nothing")
    facts, _ = look(PYRDV_FABRIC="shm")
    assert facts["usable"] and "PYRDV_FABRIC=shm" in facts["use"]["other_hosts"]


def test_machine_with_devices(machine):
    there = device("rxe1", port(gid(0, "10.0.0.2", problem="not set here")))
    machine(RXE0, SIW0, there)
    facts, page = look()
    assert facts["usable"] and facts["problems"] == []
    assert facts["rdma"]["choice"]["device"] == "rxe0"
    use = facts["use"]["other_hosts"]
    assert "verbs on rxe0:1, RoCE v2 at 10.0.0.1 (GID 1) or 2 more" in use
    assert "send and receive, as the device does not promise" in use
    for line in ("GID 1: 10.0.0.1, RoCE v2, eth0: 10.0.0.1/24", "soft RoCE (rxe)", "max_qp 1000",
                 "port 1: ACTIVE, Ethernet, MTU 4096", "siw0 port 1: usable, not chosen",
                 "GID 0: 10.0.0.2, RoCE v2, eth0: not set here", "order of data: not promised",
                 "rxe1 port 1: no usable address (10.0.0.2: not set here)", "No problems found."):
        assert line in page, line
    assert all(len(line) <= 110 for line in page.splitlines())


@pytest.mark.parametrize("in_order, ring, words", [
    (True, "auto", "a ring polled in memory, as the device promises"),
    (False, "auto", "send and receive, as the device does not promise"),
    (None, "auto", "send and receive, as the library does not tell"),
    (False, "on", "a ring polled in memory, checked by a CRC"),
    (True, "off", "send and receive (PYRDV_RDMA_RING=off)"),
])
def test_way_of_small_messages(machine, in_order, ring, words):
    machine(RXE0, in_order=in_order)
    facts, page = look(PYRDV_RDMA_RING=ring)
    assert words in facts["use"]["other_hosts"]
    assert "order of data: " + {True: "promised", False: "not promised",
                                None: "unknown"}[in_order] in page


def test_settings_change_the_choice(machine):
    machine(RXE0, SIW0)
    facts, page = look(PYRDV_RDMA_DEVICE="siw0:1", PYRDV_FABRIC="verbs")
    assert facts["use"]["this_host"].startswith("verbs on siw0:1, iWARP at 10.0.0.1")
    assert "as PYRDV_RDMA_DEVICE says" in page and "PYRDV_RDMA_DEVICE=siw0:1" in page
    facts, _ = look(PYRDV_RDMA_DEVICE="rxe0", PYRDV_RDMA_GID="2")
    assert [one["gid_index"] for one in facts["rdma"]["choice"]["candidates"]] == [2]


@pytest.mark.parametrize("settings, words", [
    ({"PYRDV_RDMA_DEVICE": "rxe7"}, "there are: rxe0, siw0"),
    ({"PYRDV_RDMA_DEVICE": "rxe0:x"}, "not NAME or NAME:PORT"),
    ({"PYRDV_RDMA_DEVICE": "rxe0:9"}, "has no port 9"),
    ({"PYRDV_RDMA_DEVICE": "rxe0", "PYRDV_RDMA_GID": "9"}, "GID 9 of rxe0 port 1 is empty"),
])
def test_settings_that_cannot_be_met(machine, settings, words):
    machine(RXE0, SIW0)
    facts, page = look(**settings)
    assert not facts["usable"] and words in " ".join(page.split())


def test_down_port_with_the_remedy(machine):
    down = device("mlx5_0", port(gid(0, "10.0.0.1"), state="DOWN"))
    machine(down)
    facts, page = look()
    text = " ".join(page.split())
    assert facts["usable"] and "the port is DOWN" in text and "Connect the cable" in text
    assert choice.DETAILS not in text, "the reader is already looking at doctor's page"


def test_missing_connection_manager(machine):
    machine(RXE0, manager="no manager here: load the module rdma_ucm")
    facts, page = look(PYRDV_FABRIC="verbs")
    assert not facts["usable"] and "rdma_ucm" in page


LOW = {"memlock": {"soft": 65536, "hard": 65536, "exempt": False},
       "nofile": {"soft": 1024, "hard": None}}
REMEDIES = ("ulimit -l unlimited", "/etc/security/limits.conf", "LimitMEMLOCK=infinity",
            "--ulimit memlock=-1")


def test_low_memlock_is_explained(machine, monkeypatch):
    monkeypatch.setattr(doctor_facts, "limits", lambda: LOW)
    machine(RXE0)
    facts, page = look()
    assert facts["usable"]
    text = " ".join(page.split())
    assert "locked memory is 64 KiB" in text and all(word in text for word in REMEDIES)
    # Where the kernel does not apply it, and where nothing would be pinned, it is no problem.
    exempt = {**LOW, "memlock": {**LOW["memlock"], "exempt": True}}
    monkeypatch.setattr(doctor_facts, "limits", lambda: exempt)
    facts, page = look()
    assert facts["problems"] == [] and "not applied to this process (CAP_IPC_LOCK)" in page
    monkeypatch.setattr(doctor_facts, "limits", lambda: LOW)
    machine()
    assert "locked memory is" not in look()[1]


def test_queue_pair_that_is_refused(machine):
    machine(RXE0, queue_pair=OSError(12, "rxe0 refuses a completion queue"))
    facts, page = look()
    text = " ".join(page.split())
    assert "rxe0 refuses a completion queue" in text and all(word in text for word in REMEDIES)
    assert facts["use"]["other_hosts"].startswith("nothing") and facts["usable"]
    assert not look(PYRDV_FABRIC="verbs")[0]["usable"]
    machine(RXE0, queue_pair=OSError(22, "rxe0 refuses a queue pair"))
    assert "dmesg" in look()[1]


def test_connection_that_nobody_answers(machine):
    """N08: soft-RoCE whose queue pair for connections is in the error state, with the remedy."""
    machine(RXE0, connection=TimeoutError("no answer"))
    facts, page = look()
    text = " ".join(page.split())
    assert "rxe0 cannot connect to itself: no answer" in text
    assert "rdma link delete rxe0; rdma link add rxe0 type rxe" in text
    assert facts["use"]["other_hosts"].startswith("nothing") and facts["usable"]
    assert not look(PYRDV_FABRIC="verbs")[0]["usable"]
    machine(RXE0, connection=OSError(12, "no memory"))
    assert "ulimit -l unlimited" in look()[1]


def test_single_copy_refused(machine, monkeypatch):
    machine()
    monkeypatch.setattr(doctor_facts, "try_single_copy", lambda: False)
    facts, page = look()
    assert facts["usable"] and "two copies" in facts["use"]["this_host"]
    assert "ptrace_scope" in page and "SYS_PTRACE" in page
    assert not look(PYRDV_SINGLE_COPY="on")[0]["usable"]
    facts, _ = look(PYRDV_SINGLE_COPY="off")
    assert facts["usable"] and facts["shared_memory"]["reason"] == "PYRDV_SINGLE_COPY=off"

    def broken():
        raise OSError("no sockets here")

    monkeypatch.setattr(doctor_facts, "try_single_copy", broken)
    facts, page = look()
    assert not facts["usable"] and "no sockets here" in page


def test_single_copy_is_really_tried(monkeypatch):
    """The two children end and leave no descriptor; their failure is told, not waited for."""
    from pyrdv.fabrics.shm import fabric

    before = sorted(os.listdir("/proc/self/fd"))
    assert doctor_facts.try_single_copy() in (True, False)
    real = fabric.ShmFabric
    for broken_rank, words in ((0, "rank 0 has 0 bytes"), (1, "no sockets here")):
        def broken(rank, size, token, broken_rank=broken_rank):
            if rank == broken_rank:
                raise OSError("no sockets here")
            return real(rank, size, token)

        monkeypatch.setattr(fabric, "ShmFabric", broken)
        with pytest.raises(OSError, match=words):
            doctor_facts.try_single_copy()
    assert sorted(os.listdir("/proc/self/fd")) == before


# ------------------------------------------------------------------ on a real device


@pytest.mark.verbs
def test_page_on_a_real_device(rdma_device):
    status, stdout, stderr = run("--json", PYRDV_FABRIC="verbs",
                                 PYRDV_RDMA_DEVICE=f"{rdma_device.name}:{rdma_device.port}")
    facts = json.loads(stdout)
    assert (status, stderr, facts["problems"]) == (0, "", [])
    rdma = facts["rdma"]
    assert (rdma["choice"]["device"], rdma["choice"]["port"]) == rdma_device
    assert rdma["queue_pair"] is None and "verbs on" in facts["use"]["this_host"]
    assert rdma["connection"] is None
    assert rdma["source"].startswith(("pyverbs", "pyrdv's own binding"))
    (own,) = [one for one in rdma["devices"] if one["name"] == rdma_device.name]
    if own["soft"]:
        assert rdma["data_in_order"] is False
    status, stdout, _ = run()
    assert status == 0 and rdma_device.name in stdout and "order of data" in stdout
    assert "connection to itself: made" in stdout


@pytest.mark.verbs
def test_memlock_on_a_real_device(rdma_device):
    """Without CAP_IPC_LOCK and with 64 KiB, the remedy is on the page."""
    prefix = ["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock",
              "sh", "-c", 'ulimit -l 64; exec "$@"', "sh"]
    status, stdout, stderr = run(prefix=prefix)
    assert (status, stderr) == (0, "")
    text = " ".join(stdout.split())
    assert "the limit of locked memory is 64 KiB" in text
    assert all(word in text for word in REMEDIES)


@pytest.mark.verbs
def test_namespace_without_the_interface(rdma_device):
    status, stdout, _ = run(prefix=["unshare", "--net"], PYRDV_RDMA_DEVICE=rdma_device.name)
    assert status == 1
    assert "in this network namespace" in " ".join(stdout.split())


def test_names_from_outside_write_no_lines_of_their_own(capsys):
    """The ends of a profile are whatever its file says."""
    profile = dict(SOFT_ROCE, ends=["verbs a:1\n\x1b[2Jfine", "verbs b:1"])
    doctor._print(doctor_protocols.page(profile, config.load({})))
    shown = capsys.readouterr().out
    assert "\x1b" not in shown and "\\n\\x1b[2Jfine" in shown
