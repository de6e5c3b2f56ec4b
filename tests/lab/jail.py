"""Runs a User-Mode Linux where it cannot harm the host, and ends with it.

Started as process 1 of new mount and pid namespaces, as ``jail.py JSON``, by `uml.py`.

1. Everything of the host is mounted read-only here, but the job's folder.  The guest's root user
   may mount the host's file system as often as it likes: the host's kernel refuses to write.
2. The guest's memory lies on a tmpfs that exists in this mount namespace only, so it is gone, and
   nothing is left mounted, as soon as the last process here ends.
3. This process outlives the guest and is the last to end; the kernel then kills whatever the guest
   left behind.  The one who started it needs to kill only its parent, `unshare --kill-child`.
4. A guest process is a process of the host, and each piece of its memory that is not contiguous in
   the guest's is a mapping there.  The host allows a process so many (vm.max_map_count).  A guest
   process that needs one more faults on the same page for ever, and its kernel does not say so
   (seen on 7.3 with ``seccomp=on``).  Then the guest is ended, and `status` says why.
"""

import ctypes
import json
import os
import resource
import select
import signal
import sys
import time

_libc = ctypes.CDLL(None, use_errno=True)

MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 0x2, 0x4, 0x1000, 0x4000, 0x40000
MOUNT_ATTR_RDONLY = 0x1
SYS_MOUNT_SETATTR = 442  # the same number on every architecture
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
LOOK = 2.0  # seconds between two looks at the mappings of all processes


class _MountAttr(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns")]


def _check(result, what):
    if result:
        number = ctypes.get_errno()
        sys.exit(f"lab: {what}: {os.strerror(number)}")


def mount(source, target, kind, flags, data=""):
    """mount(2); ends the process with a text where the kernel refuses."""
    result = _libc.mount(
        source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()
    )
    _check(result, f"mount {kind or 'bind'} on {target}")


def writable(path, allowed, recursive=False):
    """Make the mount at `path` read-only or writable (mount_setattr(2), Linux 5.12)."""
    attr = _MountAttr(set=0 if allowed else MOUNT_ATTR_RDONLY,
                      clear=MOUNT_ATTR_RDONLY if allowed else 0)
    result = _libc.syscall(
        SYS_MOUNT_SETATTR, AT_FDCWD, path.encode(), AT_RECURSIVE if recursive else 0,
        ctypes.byref(attr), ctypes.sizeof(attr),
    )
    _check(result, f"mount_setattr {path} (needs Linux 5.12 or newer)")


def close_the_door(job, memory, size):
    """Leave only `job` writable, and put a tmpfs of `size` bytes at `memory`."""
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    mount(job, job, "", MS_BIND)
    writable("/", False, recursive=True)
    writable(job, True)
    mount("tmpfs", memory, "tmpfs", MS_NOSUID | MS_NODEV, f"size={size},mode=700")
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV)
    writable("/proc", False)


def pin(pid, cpus):
    """Put the guest's processor k, which is the k-th thread of `pid`, on cpus[k].

    The threads start one by one during the first tenths of a second; thread numbers grow, because
    the pid namespace is new.
    """
    done = 0
    for _ in range(500):
        try:
            threads = sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))
            while done < min(len(threads), len(cpus)):
                os.sched_setaffinity(threads[done], {cpus[done]})
                done += 1
        except (FileNotFoundError, ProcessLookupError):
            return
        if done == len(cpus):
            return
        time.sleep(0.01)


def crowded(most):
    """Whether some process has `most` mappings.

    To count those of a process that is stuck took 17 to 63 s, for it changes them all the time.
    """
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            # A mapping is a page at least, so few processes need be counted.
            with open(f"/proc/{name}/statm") as file:
                if int(file.read().split()[0]) < most:
                    continue
            with open(f"/proc/{name}/maps", "rb") as file:
                if sum(1 for _line in file) >= most:
                    return True
        except OSError:
            pass    # it has ended
    return False


def watch(pid, most, job):
    """Wait for `pid`; returns its status.  Ends it if a process is stuck (4)."""
    end = os.pidfd_open(pid)
    while True:
        select.select([end], [], [], LOOK)
        ended = 1
        while ended:
            ended, status = os.waitpid(-1, os.WNOHANG)
            if ended == pid:
                return status
        if crowded(most):
            with open(f"{job}/status", "w") as file:
                file.write("mappings\n")
            os.kill(pid, signal.SIGKILL)


def main():
    """Prepare the mounts, start the guest, wait for it and for what it leaves."""
    order = json.loads(sys.argv[1])
    memory = order["memory"]
    close_the_door(order["job"], memory, order["memory_bytes"])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    environment = {"TMPDIR": memory, "HOME": memory, "PATH": os.environ.get("PATH", os.defpath)}
    pid = os.fork()
    if pid == 0:
        try:
            os.chdir(memory)
            os.execve(order["command"][0], order["command"], environment)
        finally:
            print(f"lab: cannot start {order['command'][0]}", file=sys.stderr, flush=True)
            os._exit(127)
    # The pipes to the runner belong to the guest: its end is what closes them.
    for number in order["descriptors"]:
        os.close(number)
    if order["cpus"]:
        pin(pid, order["cpus"])
    status = watch(pid, order["mappings"], order["job"])
    sys.exit(min(os.waitstatus_to_exitcode(status) % 256, 255))


if __name__ == "__main__":
    main()
