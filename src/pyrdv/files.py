"""Files that pyrdv reads and writes: bounded and checked on the way in, whole or not at all out.

F1. Reading never waits and never grows: no pipe, no device, at most a bound of bytes, and whatever
    is wrong is one `FileError`.
F2. Writing follows no symbolic link and changes no file of another user: what is written goes into
    a new file beside the target, made with O_EXCL and O_NOFOLLOW, which then takes its name.

This module imports nothing heavy: ranks load it.
"""

import errno
import os
import stat
from contextlib import contextmanager


class FileError(Exception):
    """A file cannot be read, or holds something else than it should; the text says why.

    Attributes
    ----------
    read : bool
        Whether it could be read.
    """

    def __init__(self, text, read=True):
        super().__init__(text)
        self.read = read


def read_json(path, most, *, own=False):
    """The content of a JSON file (F1).

    Parameters
    ----------
    path : str
    most : int
        Bytes that such a file has at most.
    own : bool
        Whether it must belong to this user, be writable by nobody else, and be no symbolic link.

    Raises
    ------
    FileError
        It cannot be read, is too large, or no JSON.
    """
    import json  # few programs need it

    try:
        # O_NONBLOCK: a pipe without a writer would make us wait.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
                     | (os.O_NOFOLLOW if own else 0))
        try:
            there = os.fstat(fd)
            if not stat.S_ISREG(there.st_mode):
                raise FileError("it is no regular file", read=False)
            if own:
                _demand_own(there)
            with open(fd, "rb", closefd=False) as file:
                data = file.read(most + 1)
        finally:
            os.close(fd)
    except OSError as error:
        raise FileError(error.strerror, read=False) from None
    except ValueError as error:
        raise FileError(str(error), read=False) from None  # a null byte in its name
    if len(data) > most:
        raise FileError(f"it is larger than {most >> 10} KiB")
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_no_number)
    except RecursionError:
        raise FileError("it is no JSON: its brackets are nested too deeply") from None
    except ValueError as error:
        raise FileError(f"it is no JSON: {error}") from None


def _demand_own(there):
    if there.st_uid != os.geteuid():
        raise FileError(f"it belongs to user {there.st_uid}, and this is user {os.geteuid()}",
                        read=False)
    if there.st_mode & 0o022:
        raise FileError("others may write into it", read=False)


def _no_number(name):
    raise ValueError(f"{name} is no number")


def is_number(value, least, most):
    """Whether `value` is a number, finite and no bool, from `least` to `most`."""
    return type(value) in (int, float) and least <= value <= most


def is_whole(value, least, most):
    """Whether `value` is an int and no bool, from `least` to `most`."""
    return type(value) is int and least <= value <= most


def is_text(value, most=256):
    """Whether `value` is a string that can be printed, of at most `most` characters."""
    return type(value) is str and len(value) <= most and value.isprintable()


def refusal(path):
    """Why `write_whole` would refuse to replace what is at `path`, as OSError; None: it would not.

    Nothing may be there, or a regular file of this user.
    """
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        return error
    if stat.S_ISLNK(there.st_mode):
        return OSError(errno.ELOOP, "it is a symbolic link, which pyrdv does not follow; name the "
                       "file itself", path)
    if not stat.S_ISREG(there.st_mode):
        return OSError(errno.EINVAL, "it is there and no regular file", path)
    if there.st_uid != os.geteuid():
        return OSError(errno.EPERM, f"it belongs to user {there.st_uid}, and this is user "
                       f"{os.geteuid()}; name another file", path)
    return None


def demand(path):
    """Raise what `refusal` says of `path`, if anything."""
    refused = refusal(path)
    try:
        if refused is not None:
            raise refused
    finally:
        # An exception that its own frame names is a cycle, which keeps what the callers have.
        del refused


def write_whole(path, data):
    """Write a file as a whole or not at all (F2).

    Parameters
    ----------
    path : str or os.PathLike
    data : bytes or str
        A str is written as UTF-8.

    Raises
    ------
    OSError
        ``filename`` is `path`; what was there before is as it was.
    """
    with writing(path) as file:
        file.write(data.encode("utf-8") if isinstance(data, str) else data)


@contextmanager
def writing(path):
    """A file to write to, in pieces, for ``with``; what came before an exception is not there (F2).

    Parameters
    ----------
    path : str or os.PathLike

    Yields
    ------
    binary file

    Raises
    ------
    OSError
        ``filename`` is `path`; what was there before is as it was.
    """
    path = os.fspath(path)
    demand(path)
    folder, name = os.path.split(path)
    # Not derived from `name` alone: others must not be able to guess it.
    new = os.path.join(folder, f".{name[:64]}.{os.urandom(6).hex()}")
    try:
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
                     0o666)
        try:
            with open(fd, "wb") as file:
                if os.path.lexists(path):
                    os.fchmod(fd, stat.S_IMODE(os.lstat(path).st_mode) & 0o777)
                yield file
            os.rename(new, path)
        except BaseException:
            os.unlink(new)
            raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
