"""What `pyrdv doctor` finds out about this machine, as plain data.

D1  Nothing is changed, no job is joined, and everything opened is closed again.
D2  What cannot be found out is said to be unknown, never guessed.
D3  A problem comes with its remedy, and says whether a setting asked for what fails.
"""

import errno
import os
import platform
import resource
import sys
import threading
from dataclasses import asdict
from importlib import metadata

from pyrdv import __version__, config
from pyrdv.errors import ConfigError
from pyrdv.fabrics import verbs
from pyrdv.fabrics.verbs.choice import DETAILS
from pyrdv.foreign import shown
from pyrdv.launch import env
from pyrdv.tools.doctor_figures import in_force

#: Below this much lockable memory a job of a few ranks may fail.
MEMLOCK_LOW = 64 << 20
NOFILE_LOW = 256
MEMLOCK_REMEDY = (
    "raise it: `ulimit -l unlimited` in the shell if the hard limit allows; for good a line "
    "`* - memlock unlimited` in /etc/security/limits.conf (then log in anew), "
    "LimitMEMLOCK=infinity in a systemd unit, `docker run --ulimit memlock=-1`, or the setting of "
    "the batch system")

#: Seconds for the connection of a device to itself.
CONNECTING = 3.0
STUCK_REMEDY = (
    "if `rdma resource show qp` shows its queue pair of type GSI in state ERR, soft-RoCE makes no "
    "connections any more (after its link was down, or its queue was changed under traffic): "
    "remove the device and add it again, `rdma link delete {0}; rdma link add {0} type rxe netdev "
    "DEV`; else look for a firewall (UDP port 4791 for RoCE) and a missing route")

_CAP_IPC_LOCK = 1 << 14
_CAP_SINGLE_COPY = 1  # CAP_SINGLE_COPY of the fabrics' contract


def collect(environ=os.environ):
    """Look at everything.

    Parameters
    ----------
    environ : mapping, optional
        Environment with the settings.

    Returns
    -------
    dict
        Only dicts, lists, strings, numbers, booleans and None.
    """
    problems = []
    settings = _settings(environ, problems)
    facts = {
        "pyrdv": {"version": __version__, "verbs_built": verbs.built()},
        "system": _system(),
        "launch": _launch(environ, problems),
        "settings": [{"variable": variable, "value": value, "set": source == "environment"}
                     for variable, value, _, source, _ in _rows(environ)],
        "shared_memory": _shared_memory(settings, problems),
        "limits": limits(),
        "rdma": _rdma(settings, problems),
    }
    _judge_limits(facts, problems)
    facts["use"] = _use(settings, facts)
    chosen = facts["rdma"]["choice"]
    facts["use"]["figures"] = in_force(
        settings, f"{chosen['device']}:{chosen['port']}" if chosen is not None else "")[1]
    facts["use"]["progress"] = _between_calls(settings, facts["rdma"])
    facts["problems"] = problems
    facts["usable"] = not any(problem["asked"] for problem in problems)
    return facts


def _launch(environ, problems):
    """Who started this process, and who is asked in which order; nobody is joined."""
    launch = None
    try:
        launch = env.detect(environ, lambda text: _problem(problems, text))
    except ConfigError as error:
        _problem(problems, str(error), asked=True)
    return {"how": launch.how if launch is not None else "unclear",
            "order": [{"who": who, "variables": variables} for who, variables in env.ORDER]}


def _problem(problems, text, remedy="", asked=False):
    problems.append({"text": text, "remedy": remedy, "asked": asked})


def _settings(environ, problems):
    try:
        return config.load(environ, warn=lambda text: _problem(problems, text))
    except ConfigError as error:
        _problem(problems, str(error), asked=True)
        return config.Config()


def _rows(environ):
    """The settings to show; a value that is not allowed is shown as it is."""
    rows = []
    for knob in config.KNOBS:
        text = environ.get(knob.variable, "").strip()
        try:
            value = knob.show(knob.parse(text) if text else knob.default)
        except ConfigError:
            value = text
        rows.append((knob.variable, value, knob.unit, "environment" if text else "default", ""))
    return rows


def _system():
    try:
        numpy = metadata.version("numpy")
    except metadata.PackageNotFoundError:
        numpy = None
    return {
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
        "numpy": numpy,
        "kernel": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "cores_allowed": len(os.sched_getaffinity(0)),
    }


# ----------------------------------------------------------------------- limits


def limits():
    """Limits that RDMA and shared memory run into; None stands for unlimited."""
    def pair(which):
        return [None if value == resource.RLIM_INFINITY else value
                for value in resource.getrlimit(which)]

    memlock, nofile = pair(resource.RLIMIT_MEMLOCK), pair(resource.RLIMIT_NOFILE)
    return {
        "memlock": {"soft": memlock[0], "hard": memlock[1], "exempt": _exempt()},
        "nofile": {"soft": nofile[0], "hard": nofile[1]},
    }


def _exempt():
    """Whether the kernel does not apply RLIMIT_MEMLOCK to this process."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        lines = dict(line.split(":", 1) for line in file if ":" in line)
    capable = int(lines["CapEff"], 16) & _CAP_IPC_LOCK
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            # A capability of another user namespace does not count for locked memory.
            initial = file.read().split() == ["0", "0", "4294967295"]
    except OSError:
        initial = True  # a kernel without user namespaces
    return bool(capable and initial)


def _judge_limits(facts, problems):
    memlock, nofile = facts["limits"]["memlock"], facts["limits"]["nofile"]
    rdma = facts["rdma"]
    low = memlock["soft"] is not None and memlock["soft"] < MEMLOCK_LOW and not memlock["exempt"]
    if low and rdma["devices"]:
        _problem(problems, f"the limit of locked memory is {memlock['soft'] >> 10} KiB: RDMA pins "
                 "the memory it uses, so queue pairs or buffers may be refused", MEMLOCK_REMEDY)
    if nofile["soft"] is not None and nofile["soft"] < NOFILE_LOW:
        _problem(problems, f"the limit of open files is {nofile['soft']}: each peer on this host "
                 "takes two", "raise it: `ulimit -n 4096`")


# ---------------------------------------------------------------- shared memory


def _shared_memory(settings, problems):
    found = {"usable": False, "single_copy": None, "reason": ""}
    if settings.single_copy == "off":
        found.update(usable=True, single_copy=False, reason="PYRDV_SINGLE_COPY=off")
        return found
    try:
        allowed = try_single_copy()
    except OSError as error:
        found["reason"] = str(error)
        _problem(problems, f"shared memory cannot be used: {error}", asked=True)
        return found
    found.update(usable=True, single_copy=allowed)
    if not allowed:
        found["reason"] = _why_no_copy()
        asked = settings.single_copy == "on"
        _problem(
            problems, f"one process may not copy from another ({found['reason']}): large messages "
            "within this host are copied twice",
            "permit process_vm_readv between processes of one user: kernel.yama.ptrace_scope 0 or "
            "1, and in a container a seccomp profile that allows it (docker: "
            "--cap-add=SYS_PTRACE)" + ("; or unset PYRDV_SINGLE_COPY" if asked else ""), asked)
    return found


def try_single_copy():
    """Try whether two ranks, siblings, may copy from each other.

    Returns
    -------
    bool

    Raises
    ------
    OSError
        If a rank cannot open its end of shared memory at all.
    """
    address, answer, hold = os.pipe(), os.pipe(), os.pipe()
    # Each child keeps only its own ends: a read of the other's ends when the writer does.
    one = _child(lambda: _offer(address[1], hold[0]), (address[0], *answer, hold[1]))
    two = _child(lambda: _judge(address[0], answer[1]), (address[1], answer[0], *hold))
    for fd in (*address, answer[1]):
        os.close(fd)
    with open(answer[0], "rb") as file:
        said = file.read()
    for fd in hold:
        os.close(fd)  # lets the first one go
    for pid in (one, two):
        os.waitpid(pid, 0)
    if said not in (b"yes", b"no"):
        raise OSError(shown(said) or "a process that tried it ended early")
    return said == b"yes"


def _child(work, unused):
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            for fd in unused:
                os.close(fd)
            work()
            status = 0
        finally:
            os._exit(status)
    return pid


def _offer(out, hold):
    from pyrdv.fabrics.shm.fabric import ShmFabric

    fabric = ShmFabric(0, 2, b"doctor")
    os.write(out, fabric.address)
    os.close(out)
    os.read(hold, 1)
    fabric.close()


def _judge(address, out):
    from pyrdv.fabrics.shm.fabric import ShmFabric

    try:
        fabric = ShmFabric(1, 2, b"doctor")
        with open(address, "rb") as file:
            fabric.set_peers([file.read(), None])
        os.write(out, b"yes" if fabric.capabilities & _CAP_SINGLE_COPY else b"no")
        fabric.close()
    except (OSError, ValueError) as error:
        os.write(out, str(error).encode())


def _why_no_copy():
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", encoding="ascii") as file:
            scope = file.read().strip()
    except OSError:
        scope = ""
    if scope in ("2", "3"):
        return f"kernel.yama.ptrace_scope is {scope}"
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        filtered = any(line.split() == ["Seccomp:", "2"] for line in file)
    if filtered:
        return "a seccomp filter, as of a container"
    return "the kernel refuses process_vm_readv"


# ------------------------------------------------------------------------- RDMA


def _rdma(settings, problems):
    """Devices, what would be chosen of them, and what one queue pair tells."""
    found = {"source": None, "devices": [], "choice": None, "why_not": None, "manager": None,
             "queue_pair": None, "data_in_order": None, "connection": None}
    asked = bool(settings.fabric == "verbs" or settings.rdma_device or settings.rdma_gid >= 0)
    try:
        devices = _devices(found)
        device, port = split_device(settings.rdma_device)
        if not verbs.built():
            raise OSError(verbs.NOT_BUILT)
        chosen = _choose(devices, device, port, settings.rdma_gid, found)
    except (OSError, ValueError) as error:
        found["why_not"] = str(error).removesuffix(DETAILS).rstrip("; ")
        _problem(problems, f"RDMA verbs cannot be used: {found['why_not']}", asked=asked)
        return found
    found["choice"] = {**asdict(chosen), "explanation": list(chosen.explanation)}
    _try_queue_pair(chosen.device, found, problems, asked)
    if found["queue_pair"] is None:
        _try_connection(chosen, settings.rdma_gid, found, problems, asked)
    return found


def split_device(text):
    """Name and port (0 if not named) of PYRDV_RDMA_DEVICE; ValueError if it is neither."""
    name, colon, port = text.partition(":")
    if colon and not (port.isascii() and port.isdecimal()):
        raise ValueError(f"PYRDV_RDMA_DEVICE={text!r} is not NAME or NAME:PORT; correct it or "
                         "unset it")
    return name, int(port or 0)


def _devices(found):
    """Read the devices, by pyverbs where it is, and note them in `found`."""
    from pyrdv.fabrics.verbs import pyverbs_devices

    devices = []
    here = None
    if verbs.built():
        from pyrdv.fabrics.verbs import device as binding

        here = binding.interfaces()
    if pyverbs_devices.importable():
        found["source"] = "pyverbs"
        devices = pyverbs_devices.read(here)
    elif verbs.built():
        found["source"] = "pyrdv's own binding (pyverbs is not importable here)"
        devices = binding.devices()
    found["devices"] = [_device_facts(one) for one in devices]
    return devices


def _device_facts(device):
    facts = asdict(device)
    facts["soft"] = device.soft
    for port, described in zip(device.ports, facts["ports"], strict=True):
        for gid, row in zip(port.gids, described["gids"], strict=True):
            row["raw"] = gid.raw.hex()
            row["gid"] = gid.text
    return facts


def _choose(devices, device, port, gid, found):
    from pyrdv.fabrics.verbs import choice, device as binding

    chosen = choice.choose(devices, device, port, gid)
    found["manager"] = binding.manager_problem()
    if found["manager"] is not None:
        raise OSError(found["manager"])
    return chosen


def _try_queue_pair(name, found, problems, asked):
    from pyrdv.fabrics.verbs import device as binding

    try:
        found["data_in_order"] = binding.try_queue_pair(name)
    except OSError as error:
        found["queue_pair"] = str(error)
        memory = error.errno in (errno.ENOMEM, errno.EAGAIN)
        remedy = MEMLOCK_REMEDY if memory else f"`dmesg | tail` may say why {name} refused it"
        _problem(problems, f"a queue pair cannot be made: {error}", remedy, asked=asked)


def _try_connection(chosen, gid, found, problems, asked):
    try:
        try_connection(chosen.device, chosen.port, gid)
    except (OSError, ValueError) as error:
        found["connection"] = str(error)
        remedy = ""
        if isinstance(error, TimeoutError):
            remedy = STUCK_REMEDY.format(chosen.device)
        elif getattr(error, "errno", None) == errno.ENOMEM:
            remedy = MEMLOCK_REMEDY
        _problem(problems, f"{chosen.device} cannot connect to itself: {error}", remedy,
                 asked=asked)


def try_connection(device, port, gid, limit=CONNECTING):
    """Connect two ends in this process over a device; both are closed again.

    Parameters
    ----------
    device : str
    port : int
    gid : int
        Index of a GID; -1 to choose.
    limit : float, optional
        Seconds.

    Raises
    ------
    TimeoutError
        If nothing comes of it within the limit.
    OSError, ValueError
        If an end cannot be made, or is refused.
    """
    from pyrdv.fabrics.verbs.fabric import VerbsFabric

    token = os.urandom(32)
    ends, problems = [], []

    def connect(end):
        try:
            end.connect_all(limit)
        except TimeoutError:
            problems.append(TimeoutError(f"no answer for {limit:g} s"))
        except OSError as error:
            problems.append(error)

    try:
        for rank in range(2):
            ends.append(VerbsFabric(rank, 2, token, device=device, port=port, gid=gid,
                                    peer_timeout=limit))
        threads = [threading.Thread(target=connect, args=(end,)) for end in ends]
        for end in ends:
            end.set_peers([one.address for one in ends])
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        for end in ends:
            end.close()
    if problems:
        raise problems[0]


# --------------------------------------------------------------- what will be used


def _use(settings, facts):
    """How peers will be reached, in words: those on this host, and those elsewhere."""
    if settings.fabric == "verbs":
        text = _verbs_text(settings, facts["rdma"])
        return {"this_host": text, "other_hosts": text}
    shared = facts["shared_memory"]
    here = "shared memory, " + ("single copy" if shared["single_copy"] else "two copies")
    if not shared["usable"]:
        here = "nothing: shared memory cannot be used"
    if settings.fabric == "shm":
        return {"this_host": here, "other_hosts": "nothing: PYRDV_FABRIC=shm refuses them"}
    return {"this_host": here, "other_hosts": _verbs_text(settings, facts["rdma"])}


def _between_calls(settings, rdma):
    """Who makes progress between calls, in words."""
    found = rdma["choice"] is not None and settings.fabric != "shm"
    near, far = (config.between_calls(settings.progress, over) for over in (False, found))
    words = [f"parasite, by {settings.parasite_trigger}" if how == "parasite" else how
             for how in (near, far)]
    if settings.fabric == "verbs" or words[0] == words[1]:
        return words[1]
    return f"{words[1]}; if all peers are on this host, {words[0]}"


def _verbs_text(settings, rdma):
    chosen = rdma["choice"]
    if chosen is None:
        return "nothing: RDMA verbs cannot be used"
    if rdma["queue_pair"] is not None:
        return "nothing: a queue pair cannot be made"
    if rdma["connection"] is not None:
        return "nothing: a connection cannot be made"
    first = chosen["candidates"][0]
    text = (f"verbs on {chosen['device']}:{chosen['port']}, {first['kind']} at {first['address']} "
            f"(GID {first['gid_index']})")
    more = len(chosen["candidates"]) - 1
    text += f" or {more} more" if more else ""
    return f"{text}; small messages by {_channel(settings.rdma_ring, rdma['data_in_order'])}"


def _channel(ring, in_order):
    if ring == "off":
        return "send and receive (PYRDV_RDMA_RING=off)"
    if in_order:
        return "a ring polled in memory, as the device promises the order of data"
    unknown = ("the library does not tell whether" if in_order is None
               else "the device does not promise that")
    if ring == "on":
        return (f"a ring polled in memory, checked by a CRC as {unknown} data arrives in order "
                "(PYRDV_RDMA_RING=on)")
    return f"send and receive, as {unknown} data arrives in order"
