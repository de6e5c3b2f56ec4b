# cython: language_level=3
"""How long a peer may be silent, and how long its transport tries.

The peer timeout is a promise in both directions.  A cable that is cut for less ends nothing, and
one that is cut for longer is noticed within a quarter more (iWARP: within two and a half times).

Q1  A link that says nothing may have nothing to say.  So only the time since a question counts,
    which is put after a quarter of the timeout, and it must be the whole of it.
Q2  TCP repeats what was lost after ever longer pauses, each twice the former.  What comes through
    after a cut of some length comes up to twice that length after its begin, and a little.  So on
    iWARP a question has that much time.
Q3  The transport of a device must not give up before: where it counts its retries, all of them
    together take more than the timeout and a quarter.
"""
from libc.stdint cimport int64_t, uint8_t


cdef enum:
    ASK_PART = 4                # of the timeout, after which a silent peer is asked
    ACK_UNIT_NS = 4096          # of the transport's time-out, times a power of two
    ACK_LOW = 14                # 67 ms
    ACK_HIGH = 17               # 0.54 s; an endless transport needs no longer one
    ACK_MOST = 31
    RETRIES = 7                 # the most that a transport can do


cdef int64_t answer_time(int64_t timeout, bint iwarp) noexcept nogil:
    return 2 * timeout + timeout // 4 if iwarp else timeout


cdef int silence_judge(int64_t now, int64_t heard_at, int64_t pinged_at, int64_t timeout,
                       bint iwarp) noexcept nogil:
    if now < silence_ends(heard_at, pinged_at, timeout, iwarp):
        return SILENCE_SHORT
    return SILENCE_LOST if pinged_at else SILENCE_ASK


cdef int64_t silence_ends(int64_t heard_at, int64_t pinged_at, int64_t timeout,
                          bint iwarp) noexcept nogil:
    if pinged_at == 0:
        return heard_at + timeout // ASK_PART
    return pinged_at + answer_time(timeout, iwarp)


cdef void transport_patience(int64_t timeout, bint endless, uint8_t *ack,
                             uint8_t *retries) noexcept nogil:
    # An endless one repeats soon, several times within the timeout; one that counts, as soon as
    # Q3 allows.
    cdef int64_t tries = RETRIES + 1
    retries[0] = RETRIES
    ack[0] = ACK_LOW
    if endless:
        while ack[0] < ACK_HIGH and (<int64_t> ACK_UNIT_NS << (ack[0] + 1)) * tries \
                <= timeout * 3 // 5:
            ack[0] += 1
    else:
        while ack[0] < ACK_MOST and (<int64_t> ACK_UNIT_NS << ack[0]) * tries \
                <= timeout + timeout // ASK_PART:
            ack[0] += 1


def judge(now, heard_at, pinged_at, timeout, iwarp=False):
    """What the time makes of a silent link.

    Parameters
    ----------
    now, heard_at, pinged_at : float
        Seconds; a `pinged_at` of 0 is no question.
    timeout : float
        The peer timeout, seconds.
    iwarp : bool
        Whether its transport is TCP.

    Returns
    -------
    str
        ``short``, ``ask`` or ``lost``.
    """
    return ("short", "ask", "lost")[silence_judge(
        round(now * 1e9), round(heard_at * 1e9), round(pinged_at * 1e9), round(timeout * 1e9),
        iwarp)]


def transport(timeout, endless=False):
    """How the transport of a connection is told to try.

    Parameters
    ----------
    timeout : float
        The peer timeout, seconds.
    endless : bool
        Whether the device takes the most retries for infinitely many (rxe).

    Returns
    -------
    (float, int)
        Its time-out, seconds, and its retries.
    """
    cdef uint8_t ack, retries
    transport_patience(round(timeout * 1e9), endless, &ack, &retries)
    return (<int64_t> ACK_UNIT_NS << ack) / 1e9, retries
