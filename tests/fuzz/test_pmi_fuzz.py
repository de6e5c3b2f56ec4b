"""Whatever a process manager sends, a rank joins or gets one error, which can be printed (P4).

``FUZZ_EXAMPLES`` sets how many examples each property gets (`make fuzz` gives many).
"""

import os
import socket

from hypothesis import HealthCheck, given, settings, strategies as st

from pyrdv.errors import BootstrapError
from pyrdv.launch import env, pmi

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "150"))
fuzz = settings(max_examples=EXAMPLES, deadline=None, derandomize="FUZZ_EXAMPLES" not in os.environ,
                suppress_health_check=[HealthCheck.too_slow])

#: What a manager says when two ranks join and exchange; the first value is the job's secret.
RIGHT = [b"cmd=response_to_init rc=0", b"cmd=maxes vallen_max=1024", b"cmd=my_kvsname kvsname=k",
         b"cmd=put_result rc=0", b"cmd=barrier_out rc=0",
         b"cmd=get_result rc=0 value=1." + b"A" * 43,
         b"cmd=put_result rc=0", b"cmd=barrier_out rc=0", b"cmd=get_result rc=0 value=1.YQ",
         b"cmd=get_result rc=0 value=1.Yg"]

words = st.sampled_from([b"cmd", b"rc", b"value", b"vallen_max", b"kvsname", b"maxes",
                         b"get_result", b"0", b"-1", b"1.", b"2.YQ", b"=", b"==", b" ", b"\xff",
                         b"\x1b[2J", b"\r"])
lines = (st.lists(words, max_size=8).map(b"".join) | st.binary(max_size=40)
         | st.sampled_from(RIGHT))


def join(data):
    """Join as rank 0 of 2, a manager having said `data`, and exchange a value."""
    ours, theirs = socket.socketpair()
    with ours:
        ours.sendall(data)
        ours.shutdown(socket.SHUT_WR)
        launch = env.detect({"PMI_FD": str(theirs.detach()), "PMI_RANK": "0", "PMI_SIZE": "2"})
        client = pmi.Client.connect(launch, 10)
        try:
            return client.exchange(b"a", 10)
        finally:
            client.close()


def test_the_right_answers():
    assert join(b"\n".join(RIGHT) + b"\n") == [b"a", b"b"]


@fuzz
@given(st.integers(0, len(RIGHT)), st.lists(lines, max_size=3), st.integers(0, 3), st.booleans())
def test_any_answers(at, put_in, left_out, whole):
    data = b"\n".join([*RIGHT[:at], *put_in, *RIGHT[at + left_out:]]) + b"\n" * whole
    try:
        values = join(data)
    except BootstrapError as error:
        assert "process manager" in str(error) and str(error).isprintable()
    else:
        assert len(values) == 2 and all(isinstance(value, bytes) for value in values)
