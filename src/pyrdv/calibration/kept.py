"""Figures of devices in files, so that a device is measured once: one file per device.

K1. A file holds a profile as ``pyrdv tune`` writes it, and says which device, firmware, link,
    kernel, processor and version of pyrdv it is of. All of that is in its name as a digest: two
    unlike machines with one home directory have two files.
K2. What is read belongs to this user, and nobody else may write into it. What else is found in a
    file of this user is told once, is never used, and is replaced by what is measured next. A file
    of another user (whose home this user has, as after ``setpriv`` or ``sudo``) is none of ours:
    nothing is read, told or replaced.
K3. Keeping is a favour: no home, no room, no right are no errors.
"""

import hashlib
import json
import os
import time
from contextlib import suppress

from pyrdv import __version__, files
from pyrdv.engine import profiles

DIGEST_BYTES = 16


def identity(device):
    """Which device, driven by what on which kind of machine.

    Parameters
    ----------
    device : str
        Name and port, as in ``rxe0:1``.

    Returns
    -------
    dict of str to object, or None
        Of JSON's types; None: it cannot be told from others.
    """
    from pyrdv.fabrics import verbs

    if not verbs.built():
        return None
    from pyrdv.fabrics.verbs import device as devices

    name, _, port = device.partition(":")
    try:
        known = devices.identity(name, int(port))
    except OSError:
        return None
    if known is None:
        return None
    system = os.uname()
    return {"device": device, **known, "kernel": system.release, "machine": system.machine,
            "processor": _processor(), "processors": os.cpu_count(), "pyrdv": __version__}


def _processor():
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "cpu model", "CPU part"):
                return value.strip()
    return ""


def digest(which):
    """`DIGEST_BYTES` bytes that stand for an `identity`."""
    text = json.dumps(which, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).digest()


def age(profile):
    """When the figures of a file were measured, in words."""
    when = profile.get("measured")
    return time.strftime("%Y-%m-%d", time.gmtime(when)) if files.is_whole(when, 0, 1 << 40) \
        else "at an unknown time"


def path(which, environ=os.environ):
    """The file of an `identity`; None: there is no place for it.

    It is in ``$XDG_CACHE_HOME/pyrdv``, or else in ``$HOME/.cache/pyrdv``. Names that are not
    absolute do not count, as the XDG Base Directory Specification wants it.
    """
    base = environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = environ.get("HOME", "")
        if not os.path.isabs(base):
            return None
        base = os.path.join(base, ".cache")
    return os.path.join(base, "pyrdv", f"figures-{digest(which).hex()}.json")


def load(which, environ=os.environ):
    """The figures that were kept of a device (K2).

    Returns
    -------
    profile : dict or None
    why : str
        Why there is none although there is a file; else empty.
    """
    where = path(which, environ)
    if where is None or not _ours(where):
        return None, ""
    try:
        profile = profiles.load(where, own=True)
    except profiles.ProfileError as error:
        return None, str(error)
    if profile.get("identity") != which:
        return None, f"{where!r} is of another device"
    return profile, ""


def _ours(where):
    """Whether there is something that this user can see and owns."""
    try:
        return os.lstat(where).st_uid == os.geteuid()
    except (OSError, ValueError):
        return False


def keep(which, found, environ=os.environ):
    """Write figures into the file of their device (K3).

    Parameters
    ----------
    which : dict
        The `identity`.
    found : dict
        A profile.

    Returns
    -------
    str
        The file; empty: they could not be kept.
    """
    where = path(which, environ)
    if where is None:
        return ""
    text = json.dumps({**found, "identity": which, "measured": int(time.time())}, indent=1)
    try:
        os.makedirs(os.path.dirname(where), mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError, PermissionError):
            # The new file takes over the mode of the old one.
            os.chmod(where, 0o600, follow_symlinks=False)
        files.write_whole(where, text + "\n")
    except (OSError, NotImplementedError):
        return ""
    return where
