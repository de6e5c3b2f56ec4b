"""Agreement of a group that has no communicator: its first member asks, computes and answers.

Each message is an object ``(bytes, cause)``: a contribution or answer, or why there is none.  The
first member answers whatever happens, so nobody waits for one that is gone but for it.
"""

from pyrdv.collectives import causes
from pyrdv.errors import Error, PeerLostError


def fold(view, mine, tag, function):
    """``function`` of the list of the members' bytes, on all of them.

    Raises
    ------
    PeerLostError, CollectiveError
        A member is gone, or failed.
    """
    if view.rank:
        view.send((mine, None), 0, tag)
        return _opened(view.recv(None, 0, tag))
    try:
        answer = function([mine, *_collected(view, tag)])
    except BaseException as error:
        _answer(view, (None, tuple(causes.of(error, view))), tag)
        raise
    _answer(view, (answer, None), tag)
    return answer


def _collected(view, tag):
    """What the others contribute; of those that fail, the first is raised when all were heard."""
    values, failure = [], None
    for rank in range(1, view.size):
        try:
            values.append(_opened(view.recv(None, rank, tag)))
        except Error as error:
            failure = failure or error
    try:
        if failure is not None:
            raise failure
    finally:
        del failure     # as in `calls.run`
    return values


def _answer(view, message, tag):
    failure = None
    for rank in range(1, view.size):
        try:
            view.send(message, rank, tag)
        except PeerLostError:
            pass        # it waits for nothing
        except Error as error:
            failure = failure or error
    try:
        if failure is not None:
            raise failure
    finally:
        del failure     # as in `calls.run`


def _opened(message):
    value, cause = message
    if cause is not None:
        raise causes.Cause(*cause).exception("making a communicator")
    return value
