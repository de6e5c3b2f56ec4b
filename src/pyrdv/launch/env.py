"""Who this process is: rank and size from its environment, or a world of one.

Asked in this order (`ORDER`), the first that answers decides:

1. ``pyrdv run``: PYRDV_RANK and its companions.
2. PMI-1, of MPICH's Hydra (``mpiexec``) and Slurm (``srun --mpi=pmi2``): PMI_RANK, PMI_SIZE and
   PMI_FD, a socket that this process has, or PMI_PORT and PMI_ID. The connection is taken out of
   the environment, for it belongs to this process and not to its children.
3. As torchrun has it: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
4. Otherwise it is alone. If variables of a launcher say that there are several processes, a
   warning names it.

A rank is the process that its launcher started, not whatever descends from it: a child that
`multiprocessing` spawns inherits the variables but is a single process of its own. `pyrdv run`
therefore writes the process id of the rank into the rank's own environment (``PYRDV_PID``, between
fork and exec), and `detect` compares. Where the program is not Python (a shell script, ``uv run``),
or says so (``pyrdv run --wrapped``), or an agent starts it, the launcher sets ``PYRDV_WRAPPED`` and
the first descendant that asks becomes the rank; should two ask, the launcher refuses the second.

Other launchers write no such thing. There a process is a child if a Python program above it was
started with the same variables (`ancestors`), or has joined, which sets ``PYRDV_PID``. Whoever sets
``PYRDV_WRAPPED=1`` says that the first that asks is the rank all the same.
"""

import os
import sys
from socket import AF_INET6, SOCK_STREAM, getaddrinfo
from stat import S_ISSOCK

from pyrdv.errors import ConfigError
from pyrdv.foreign import shown
from pyrdv.launch.ancestors import inherited

# How to reach the process manager: of no use to children of the rank.
PMI_CONNECTION = ("PMI_FD", "PMI_PORT", "PMI_ID")
_RANK_VARIABLES = ("PYRDV_RANK", "PYRDV_SIZE", "PYRDV_ADDRESS", "PYRDV_JOB", "PYRDV_SECRET",
                   "PYRDV_SECRET_FD", "PYRDV_PID")
#: For people: who is asked, in order.
ORDER = (
    ("pyrdv run", "PYRDV_RANK"),
    ("PMI-1 (MPICH's mpiexec, Slurm's srun --mpi=pmi2)",
     "PMI_RANK, PMI_SIZE and PMI_FD, or PMI_PORT and PMI_ID"),
    ("torchrun and its like", "RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT"),
)
MARKED = (*_RANK_VARIABLES, "PYRDV_WRAPPED", "PYRDV_HOST", "PYRDV_DOOR")

# (name for people, variable with the number of processes, variable with this one's number).
# Slurm sets SLURM_NTASKS in batch scripts too, which run once: only the step's variables count.
_FOREIGN = (
    ("Open MPI's mpiexec", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    ("MPICH's or Intel MPI's mpiexec (PMI)", "PMI_SIZE", "PMI_RANK"),
    ("MVAPICH's launcher", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"),
    ("Microsoft MPI's or Intel MPI's mpiexec", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"),
    ("Slurm's srun without --mpi=pmi2", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
    ("PALS or ALPS (aprun)", "PALS_SIZE", "PALS_RANKID"),
    ("torchrun", "WORLD_SIZE", "RANK"),
)


class Launch:
    """How this process was started.

    Attributes
    ----------
    rank, size : int
        Place in the job; 0 of 1 without a launcher.
    address : str or None
        Where the launcher listens (HOST:PORT), None in a world of one.
    door : str
        Path of the launcher's private door on its machine, and the name behind it; may be empty.
    secret : bytes
        Shared by the processes of the job only; may be read from a descriptor when it is first
        asked for.
    job : str
        Random name of the job.
    pid : int
        This process. After a fork `os.getpid` differs, and the child is no rank.
    host : str
        Name of this machine, for people: the one that `pyrdv run --hosts` gave it, or its own.
    manager : str or None
        How to reach the process manager under PMI: ``fd N`` or ``HOST:PORT ID``.
    how : str
        ``pyrdv run``, ``PMI``, ``torchrun``, ``alone``, or ``child of a rank``.
    """

    __slots__ = ("rank", "size", "address", "_secret", "job", "pid", "host", "how", "manager",
                 "door")

    def __init__(self, rank, size, address, secret, job, how, host="", manager=None, door=""):
        self.rank = rank
        self.size = size
        self.address = address
        self.door = door
        self._secret = secret   # or where it comes from: arguments of `secrets.take`
        self.job = job
        self.pid = os.getpid()
        self.host = host or os.uname().nodename
        self.how = how
        self.manager = manager

    @property
    def secret(self):
        """See above."""
        if isinstance(self._secret, tuple):
            from pyrdv.launch import secrets

            self._secret = secrets.take(*self._secret)
        return self._secret

    @secret.setter
    def secret(self, value):
        self._secret = value

    @property
    def launched(self):
        """Whether there is a launcher to talk to."""
        return self.address is not None or self.manager is not None

    def __repr__(self):
        # Never the secret.
        return (f"Launch(rank={self.rank}, size={self.size}, address={self.address!r}, "
                f"job={self.job!r}, pid={self.pid}, how={self.how!r})")


# What tells a worker of torchrun from others, and from a launcher that has some of it itself.
_TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK",
             "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")

_known = None


def detect(environ=None, warn=None):
    """Find out the rank and size of this process.

    Without `environ` the answer for this process is found once, the secret is taken out of
    `os.environ` so that child processes and dumps of the environment do not show it, and later
    calls return the same object.

    Parameters
    ----------
    environ : mapping, optional
        Another environment than this process's; it is not changed and nothing is remembered.
    warn : callable, optional
        Called with the text of a warning; the default is `warnings.warn`.

    Returns
    -------
    Launch

    Raises
    ------
    ConfigError
        A variable that the launcher sets is missing or broken.
    """
    global _known
    if environ is not None:
        return _detect(environ, warn)
    if _known is None or _known.pid != os.getpid():
        forked = _known is not None and _known.launched
        _known = _alone("child of a rank") if forked else _detect(os.environ, warn)
        if _known.launched:
            os.environ.pop("PYRDV_SECRET", None)
            # Taken before anything can start a child that would inherit the descriptor.
            if _known.secret is not None:
                os.environ.pop("PYRDV_SECRET_FD", None)
            os.environ.pop("PYRDV_WRAPPED", None)
            os.environ["PYRDV_PID"] = str(_known.pid)
            if _known.manager is not None:
                for name in PMI_CONNECTION:
                    os.environ.pop(name, None)
    return _known


def _alone(how):
    return Launch(0, 1, None, b"", "", how)


def _detect(environ, warn):
    if "PYRDV_RANK" in environ:
        pid = _number(environ, "PYRDV_PID", 1, 1 << 31)
        if pid != os.getpid() and environ.get("PYRDV_WRAPPED") != "1":
            return _alone("child of a rank")
        return _from_launcher(environ)
    found = _from_manager(environ, warn) or _from_torchrun(environ, warn)
    if found is not None:
        return found
    if _is_child(environ):
        return _alone("child of a rank")
    _check_foreign(environ, warn)
    return _alone("alone")


def _from_launcher(environ):
    size = _number(environ, "PYRDV_SIZE", 1, 1 << 20)
    rank = _number(environ, "PYRDV_RANK", 0, size - 1)
    address = _text(environ, "PYRDV_ADDRESS")
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise _broken("PYRDV_ADDRESS", address, "HOST:PORT")
    job = _text(environ, "PYRDV_JOB")
    if len(job.encode()) > 64:
        raise _broken("PYRDV_JOB", job, "at most 64 characters")
    return Launch(rank, size, address, _given(environ), job, "pyrdv run",
                  shown(environ.get("PYRDV_HOST", "")), door=environ.get("PYRDV_DOOR", ""))


def _is_child(environ):
    """Whether a rank that another launcher started noted another process than this one."""
    return environ.get("PYRDV_PID", str(os.getpid())) != str(os.getpid())


def _whole(environ, name, most):
    """A variable of another launcher as a number; None if it is none."""
    text = environ.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and int(text) < most else None


def _is_helper(environ, names, warn):
    """Whether variables of another launcher were meant for a program above this one."""
    if _is_child(environ):
        return True
    if environ.get("PYRDV_WRAPPED") == "1":
        return False
    above = inherited(environ, names)
    if above:
        shown = ", ".join(f"{name}={environ[name]}" for name in names[:2])
        _warn(f"process {above} above this one, a Python program, was started with the same "
              f"{shown}: that is the rank, and this process is a single one. If it is only a "
              "wrapper of this program, set PYRDV_WRAPPED=1 to make this one the rank", warn)
    return above != 0


def _from_manager(environ, warn):
    size, rank = _whole(environ, "PMI_SIZE", 1 << 20), _whole(environ, "PMI_RANK", 1 << 20)
    fd, number = _whole(environ, "PMI_FD", 1 << 20), _whole(environ, "PMI_ID", 1 << 20)
    if size is not None and rank is not None and rank < size and fd is not None and _is_socket(fd):
        return Launch(rank, size, None, b"", "", "PMI", manager=f"fd {fd}")
    if ":" in environ.get("PMI_PORT", "") and number is not None \
            and not _is_helper(environ, ("PMI_ID", "PMI_PORT"), warn):
        # Rank and size are what the manager answers.
        return Launch(0, 1, None, b"", "", "PMI", manager=f"{environ['PMI_PORT']} {number}")
    return None


def _is_socket(fd):
    """Whether this process has a socket of that number; a child may have the variable only."""
    try:
        return S_ISSOCK(os.fstat(fd).st_mode)
    except OSError:
        return False


def _from_torchrun(environ, warn):
    """RANK of WORLD_SIZE; rank 0 opens the port behind MASTER_PORT (see `meeting`).

    A secret that only this job knows has to be given in PYRDV_SECRET: without it one is made of
    the variables, which keeps jobs apart but whoever knows them could join.
    """
    size, rank = _whole(environ, "WORLD_SIZE", 1 << 20), _whole(environ, "RANK", 1 << 20)
    port, host = _whole(environ, "MASTER_PORT", 65535), environ.get("MASTER_ADDR", "")
    if None in (size, rank, port) or not host or rank >= size or size == 1:
        return None
    if _is_helper(environ, _TORCHRUN, warn):
        return _alone("child of a rank")
    job = ".".join(environ.get(name, "") for name in
                   ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"))[:64]
    given = environ.get("PYRDV_SECRET")
    if given is None:
        from hashlib import blake2b

        from pyrdv.launch.frames import SECRET_BYTES

        text = f"{host} {port} {size} {job} {os.getuid()}"
        secret = blake2b(text.encode(), digest_size=SECRET_BYTES).digest()
    else:
        secret = _secret(environ)
    return Launch(rank, size, f"{_address_of(host)}:{port + 1}", secret, job, "torchrun")


def _address_of(host):
    """The IP address of a host; IPv6 in brackets."""
    try:
        family, *_, where = getaddrinfo(host, None, 0, SOCK_STREAM)[0]
    except OSError as error:
        raise ConfigError(f"MASTER_ADDR={host!r} is no address: {error.strerror}; correct it, or "
                          "unset RANK for a single process") from None
    return f"[{where[0]}]" if family == AF_INET6 else where[0]


def _given(environ):
    """The secret, or by which descriptor it comes and which process the launcher gave that to."""
    if "PYRDV_SECRET_FD" in environ:
        return (_number(environ, "PYRDV_SECRET_FD", 3, (1 << 31) - 1),
                _number(environ, "PYRDV_PID", 1, 1 << 31), _text(environ, "PYRDV_JOB"))
    return _secret(environ)


def _secret(environ):
    try:
        secret = bytes.fromhex(_text(environ, "PYRDV_SECRET"))
    except ValueError:
        secret = b""
    if len(secret) != 32:
        # The value stays out of the text: error texts end up in logs.
        raise ConfigError("PYRDV_SECRET is not 64 hexadecimal digits; these variables are set by "
                          "`pyrdv run`, start the program with it or unset PYRDV_RANK")
    return secret


def _text(environ, name):
    try:
        return environ[name]
    except KeyError:
        if name == "PYRDV_SECRET":
            raise ConfigError(
                "this process took the place of a rank that had joined its job already (exec), or "
                "PYRDV_SECRET_FD was removed: a job can be joined once per rank; start the program "
                "with `pyrdv run`, or unset PYRDV_RANK for a single process"
            ) from None
        raise ConfigError(
            f"PYRDV_RANK is set but {name} is not; these variables are set by `pyrdv run`: start "
            "the program with it, or unset PYRDV_RANK for a single process"
        ) from None


def _broken(name, value, allowed):
    return ConfigError(
        f"{name}={value!r} is not {allowed}; these variables are set by `pyrdv run`: start the "
        "program with it, or unset PYRDV_RANK for a single process", variable=name, value=value)


def _number(environ, name, low, high):
    text = _text(environ, name)
    if not (text.isascii() and text.isdecimal()) or not low <= int(text) <= high:
        raise _broken(name, text, f"a whole number from {low} to {high}")
    return int(text)


def _check_foreign(environ, warn):
    """Another launcher with several processes: say so, each would be rank 0 of 1 (field L05)."""
    for launcher, size, rank in _FOREIGN:
        count = environ.get(size, "")
        if rank in environ and count.isdecimal() and int(count) > 1:
            text = (f"this process is {shown(environ[rank])} of {count} started by {launcher} "
                    f"({size}={count}), which pyrdv does not join: every one of them is rank 0 of "
                    f"a world of one. Start the program with `pyrdv run -n {count}`, or unset "
                    f"{size} if single processes are meant")
            _warn(text, warn)
            return


def _warn(text, warn):
    if warn is None:
        import warnings

        warnings.warn(text, stacklevel=5)
    else:
        warn(text)


def line_buffer_output(launch):
    """Make the standard output of a launched rank line-buffered.

    A rank's standard output is a pipe, which Python would buffer by blocks: lines would come late,
    and be lost when the rank is ended by a signal. (PYTHONUNBUFFERED is no remedy: it writes to
    the bare descriptor, where a signal can cut a write short, and costs a system call per piece.)
    """
    out = sys.stdout
    if launch.launched and out is sys.__stdout__ and out is not None:
        try:
            if not out.line_buffering and not out.isatty():
                out.reconfigure(line_buffering=True)
        except (AttributeError, ValueError):
            pass  # replaced by something of the user's, or closed
