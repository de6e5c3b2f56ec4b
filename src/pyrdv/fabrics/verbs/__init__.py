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
