# cython: language_level=3
"""Start one rank: what must happen between fork and exec, in C.

Python's `subprocess` could run a function there, but only Python code, which would need ctypes for
prctl; and it costs 5 ms to import. Invariants:

P1. The child is killed by the kernel when the launcher's thread that called `spawn` ends, however
    it ends (PR_SET_PDEATHSIG), also if it ended before that was set (parent check).
P2. Only async-signal-safe calls between fork and exec; all memory is prepared before.
P3. The child starts with default signal dispositions for what Python ignores (SIGPIPE, SIGXFSZ),
    no blocked signals, the descriptor limit that the launcher itself was given, its own process
    group, and no descriptors but 0, 1, 2 and the one to keep (everything else is close-on-exec).
P4. If exec fails the caller gets OSError with the reason, and the child is reaped.
"""

import os

from libc.errno cimport EINTR, errno
from libc.signal cimport SIG_DFL, SIGKILL, SIGPIPE, signal
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc
from posix.resource cimport RLIMIT_NOFILE, rlimit, setrlimit
from posix.signal cimport sigset_t
from posix.types cimport pid_t
from posix.unistd cimport _exit, dup2, execve, fork, getpid, getppid, read, setpgid, write


cdef extern from "<signal.h>" nogil:
    int SIGXFSZ
    int SIG_SETMASK
    int sigfillset(sigset_t *)
    int sigemptyset(sigset_t *)
    int pthread_sigmask(int, const sigset_t *, sigset_t *)

cdef extern from "<fcntl.h>" nogil:
    int F_SETFD
    int fcntl(int, int, ...)

cdef extern from "<sys/prctl.h>" nogil:
    int PR_SET_PDEATHSIG
    int prctl(int, unsigned long, ...)

cdef extern from "<sys/wait.h>" nogil:
    pid_t waitpid(pid_t, int *, int)

# Room for "PYRDV_PID=" and a number.
cdef enum:
    PID_ROOM = 32


cdef struct plan:
    const char *path
    char **argv
    char **env
    char *pid_entry     # the element of env that the child fills in
    int fds[3]
    int keep            # a further one, under its own number; -1: none
    int report          # write end of the pipe that tells about a failed exec
    rlimit nofile
    pid_t parent


cdef void in_child(plan *p) noexcept nogil:
    """Runs in the child; does not return."""
    cdef sigset_t none
    cdef int code, i
    setpgid(0, 0)
    signal(SIGPIPE, SIG_DFL)
    signal(SIGXFSZ, SIG_DFL)
    if prctl(PR_SET_PDEATHSIG, <unsigned long>SIGKILL) == 0 and getppid() == p.parent:
        # The caller keeps these above 2, so that no dup2 overwrites one still needed.
        for i in range(3):
            if dup2(p.fds[i], i) < 0:
                break
        else:
            if setrlimit(RLIMIT_NOFILE, &p.nofile) == 0 \
                    and (p.keep < 0 or fcntl(p.keep, F_SETFD, 0) == 0):
                snprintf(p.pid_entry, PID_ROOM, "PYRDV_PID=%d", <int>getpid())
                sigemptyset(&none)
                pthread_sigmask(SIG_SETMASK, &none, NULL)
                execve(p.path, p.argv, p.env)
    code = errno
    write(p.report, &code, sizeof(code))
    _exit(127)


cdef char **pointers(list strings, Py_ssize_t spare) except NULL:
    """A NULL-terminated array of pointers into `strings`, with room for `spare` more."""
    cdef char **array = <char **>malloc((len(strings) + spare + 1) * sizeof(char *))
    cdef Py_ssize_t i
    if array is NULL:
        raise MemoryError
    for i in range(len(strings)):
        array[i] = strings[i]
    for i in range(len(strings), len(strings) + spare + 1):
        array[i] = NULL
    return array


def spawn(bytes path, list argv, list env, int stdin, int stdout, int stderr, nofile,
          int keep=-1):
    """Start a program as a rank.

    Parameters
    ----------
    path : bytes
        The file to execute.
    argv, env : list of bytes
        Arguments, and entries ``NAME=value``; ``PYRDV_PID`` is added.
    stdin, stdout, stderr : int
        Descriptors, each above 2.
    nofile : (int, int)
        Soft and hard limit of descriptors for the child.
    keep : int
        A descriptor that the child has as well, under the same number.

    Returns
    -------
    int
        Process id, also the id of its process group.

    Raises
    ------
    OSError
        The program cannot be executed, or no process can be made.
    """
    cdef plan p
    cdef char pid_entry[PID_ROOM]
    cdef sigset_t every, before
    cdef pid_t child
    cdef int failed, reader, writer, code = 0
    cdef Py_ssize_t got
    if min(stdin, stdout, stderr) <= 2:
        raise ValueError(f"descriptors {stdin}, {stdout}, {stderr} must be above 2")
    reader, writer = os.pipe()
    p.path = path
    p.argv = NULL
    p.env = NULL
    try:
        p.argv = pointers(argv, 0)
        p.env = pointers(env, 1)
        p.pid_entry = pid_entry
        p.env[len(env)] = pid_entry
        p.fds[0] = stdin
        p.fds[1] = stdout
        p.fds[2] = stderr
        p.keep = keep
        p.report = writer
        p.nofile.rlim_cur = nofile[0]
        p.nofile.rlim_max = nofile[1]
        with nogil:
            p.parent = getpid()
            # No handler of the launcher may run in the child.
            sigfillset(&every)
            pthread_sigmask(SIG_SETMASK, &every, &before)
            child = fork()
            if child == 0:
                in_child(&p)
            failed = errno
            pthread_sigmask(SIG_SETMASK, &before, NULL)
        if child < 0:
            raise OSError(failed, os.strerror(failed))
        # Also here, so that the group exists when spawn returns, whoever runs first.
        setpgid(child, child)
        os.close(writer)
        writer = -1
        with nogil:
            while True:
                got = read(reader, &code, sizeof(code))
                if got >= 0 or errno != EINTR:
                    break
        if got == sizeof(code):
            waitpid(child, NULL, 0)
            raise OSError(code, os.strerror(code), os.fsdecode(path))
        return child
    finally:
        free(p.argv)
        free(p.env)
        os.close(reader)
        if writer >= 0:
            os.close(writer)
