"""Messages between processes of several hosts over RDMA verbs.

Importing this package loads none of its modules and opens no library.
"""

NOT_BUILT = (
    "this installation of pyrdv was built without RDMA verbs: install rdma-core's headers "
    "(Debian: libibverbs-dev librdmacm-dev) and build it again")


def built():
    """Whether this package was built with the verbs modules."""
    from importlib.util import find_spec

    try:
        return find_spec("pyrdv.fabrics.verbs.device") is not None
    except ImportError:
        return False


def unavailable(device="", port=0, gid=-1):
    """Say why RDMA verbs cannot be used here.

    Parameters
    ----------
    device, port, gid : str, int, int
        What the user named, as for `choice.choose`; the defaults leave it open.

    Returns
    -------
    str or None
        The reason with its remedy; None if they can be used.
    """
    if not built():
        return NOT_BUILT
    from pyrdv.fabrics.verbs import device as devices

    try:
        devices.choose(device, port, gid)
    except (OSError, ValueError) as error:
        return str(error)
    return None


def asked(settings):
    """Name, port and GID index of the device that the settings ask for, as `unavailable` has them.

    Parameters
    ----------
    settings : pyrdv.config.Config

    Raises
    ------
    ValueError
        PYRDV_RDMA_DEVICE is neither a name nor a name and a port.
    """
    device, colon, port = settings.rdma_device.partition(":")
    if colon and not (port.isascii() and port.isdecimal()):
        raise ValueError(f"PYRDV_RDMA_DEVICE={settings.rdma_device!r} is not NAME or NAME:PORT; "
                         "correct it or unset it")
    return {"device": device, "port": int(port or 0), "gid": settings.rdma_gid}


def make(rank, size, token, settings):
    """A new verbs fabric as the settings want it.

    Parameters
    ----------
    rank, size, token : int, int, bytes
        As for `fabric.VerbsFabric`.
    settings : pyrdv.config.Config

    Raises
    ------
    OSError, ValueError
        There can be none; the text says why.
    """
    if not built():
        raise OSError(NOT_BUILT)
    from pyrdv.fabrics.verbs.fabric import VerbsFabric

    return VerbsFabric(rank, size, token, ring=settings.rdma_ring,
                       peer_timeout=settings.peer_timeout, **asked(settings))
