# cython: language_level=3
"""Why a peer is lost, in words: what happened, which limit it was, and the remedy."""
import os

from pyrdv.fabrics.verbs.handshake cimport (
    REJECT_ALREADY, REJECT_GONE, REJECT_STRANGER, REJECT_VERSION)
from pyrdv.fabrics.verbs.libibverbs cimport IBV_WC_WR_FLUSH_ERR
from pyrdv.fabrics.verbs.state cimport (
    FAIL_DEVICE, FAIL_DISCONNECTED, FAIL_POST, FAIL_PROTOCOL, FAIL_SILENT, FAIL_TRANSPORT, LACK_CQ,
    LACK_LINK, LACK_MEMORY, LACK_QP, LACK_RECEIVES, LACK_REGISTERED, PROTOCOL)

from pyrdv import shortage


def explain(int failure, int detail, status):
    """Put a failure into words.

    Parameters
    ----------
    failure : int
        A ``link_failure``.
    detail : int
        What belongs to it (J6): a reason of refusal in the upper half, an errno in the lower; of
        a silence, how long it was, ms.
    status : str
        Name of the completion's status, if the device reported the failure by one.
    """
    if failure == FAIL_DISCONNECTED:
        return ("it has given this rank up, or is ending"
                if detail >> 16 in (REJECT_GONE, REJECT_ALREADY)
                else "its process or its machine ended the connection")
    if failure == FAIL_TRANSPORT:
        if detail == IBV_WC_WR_FLUSH_ERR:
            return "the connection was torn down"
        return f"its machine or the way to it does not answer ({status})"
    if failure == FAIL_SILENT:
        return f"no answer for {round(detail / 1000, 1):g} s"
    if failure == FAIL_PROTOCOL:
        return "it broke the protocol"
    if failure == FAIL_DEVICE:
        return "the RDMA device was removed or has failed"
    if failure == FAIL_POST:
        return f"the device refused a work request ({os.strerror(detail)})"
    return _refusal(detail >> 16, detail & 0xFFFF)


def _refusal(int reason, int detail):
    if reason == REJECT_VERSION:
        return (f"it speaks version {detail} of the verbs protocol, this rank {PROTOCOL}: run "
                "the same version of pyrdv everywhere")
    if reason == REJECT_STRANGER:
        return "what listens there is not of this job"
    return f"it cannot be reached ({os.strerror(detail)})"


def said(int error):
    """What a peer said of itself before it was lost: the errno of what it lacked; 0: nothing."""
    return f"; before that it said that {_lacking(error)}" if error else ""


def _lacking(int error):
    return (f"it lacks memory, queue pairs or completion queues ({os.strerror(error)}): its own "
            "error names the limit")


def late(rank, timeout, said):
    """Which connections a start has not made in time, and why.

    Parameters
    ----------
    rank : int
        This one.
    timeout : float
        Seconds that it had.
    said : dict of int to int
        For each rank without a connection what it said of itself, as for `said`.
    """
    told = [f"rank {peer} said that {_lacking(error)}" for peer, error in said.items() if error]
    return (f"rank {rank} has no connection to ranks {list(said)} after {timeout:g} s: "
            + ("; ".join(told) or "they may be busy; raise the time limit of the start"))


def lack(int problem, figures):
    """Which resource of this side is used up, its limit and the remedy.

    Parameters
    ----------
    problem : int
        What is lacking (``equipment``) in the upper half, an errno in the lower.
    figures : dict of str to int
        Limits of the device.
    """
    cdef int what = problem >> 16
    cdef int error = problem & 0xFFFF
    why = os.strerror(error)
    if what == LACK_MEMORY:
        return f"no memory for a connection here ({shortage.explain('mmap', error)})"
    if what == LACK_REGISTERED:
        return (f"memory for a connection cannot be pinned here ({why}): "
                f"{shortage.locked_memory()}; the device allows {figures['max_mr']} regions")
    if what == LACK_CQ:
        return (f"no completion queue is left here ({why}): the device allows "
                f"{figures['max_cq']} of up to {figures['max_cqe']} entries; "
                f"{shortage.locked_memory()}")
    if what == LACK_QP or what == LACK_RECEIVES:
        return (f"no queue pair is left here ({why}): the device allows {figures['max_qp']} with "
                f"up to {figures['max_qp_wr']} work requests; use fewer ranks per device. "
                f"{shortage.locked_memory()}")
    if what == LACK_LINK:
        return f"too many connections at once ({why})"
    return f"the connection manager refuses another connection: " \
        f"{shortage.explain('rdma_cm', error)}"
