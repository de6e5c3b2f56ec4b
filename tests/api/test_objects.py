"""Python objects as messages: what travels beside the pickle, and what comes back."""

import array
import datetime
import gc
import os
import pickle
import pickletools
import struct
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pyrdv import errors
from pyrdv.api import objects
from pyrdv.api.buffers import span_of

LIMIT = objects.THRESHOLD


@pytest.fixture
def restored():
    """The shared pickle, put back afterwards."""
    yield objects.pickle
    objects.pickle.__init__()


def there(obj):
    """What the receiver gets, with the invariants of every message checked on the way."""
    head, parts = objects.dumps(obj)
    pickled, cookie, sizes, kinds = objects.parse_head(head)
    assert cookie == 0
    assert len(sizes) == len(kinds) == len(parts)
    for part, size in zip(parts, sizes, strict=True):
        assert span_of(part)[1] == size == len(part)
        assert size >= objects.pickle.THRESHOLD
    if parts:
        assert isinstance(head, bytearray)
    else:
        assert bytes(pickled) == bytes(head)
    if bytes(pickled[:1]) == b"\x80":
        for _ in pickletools.genops(bytes(pickled)):
            pass
    return objects.copy(head, parts)


def same(x, y):
    """Deep equality of type and value."""
    if type(x) is not type(y):
        return False
    if isinstance(x, np.ndarray):
        return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
    if isinstance(x, dict):
        return list(x) == list(y) and all(same(x[key], y[key]) for key in x)
    if isinstance(x, (list, tuple)):
        return len(x) == len(y) and all(map(same, x, y))
    return x == y


SMALL = [
    None, True, 5, 10**30, 1.5, 1j, "text", b"bytes", bytearray(b"ba"), [], (), {}, {1, 2},
    {"a": [1, (2, {"b": None})]}, np.arange(5), np.float32(2), np.array(["x", None], object),
    np.array([[1], [2, 3]], object), np.array(["2020-01-01"], "M8[D]"), np.zeros(0),
    datetime.datetime(2024, 1, 1), array.array("d", [1]), range(5), ValueError("x"), len,
    "x" * (2 * LIMIT), "\u20ac" * LIMIT, list(range(100_000)),
]


@pytest.mark.parametrize("obj", SMALL, ids=lambda obj: type(obj).__name__)
def test_objects_without_large_buffers_are_their_plain_pickle(obj):
    head, parts = objects.dumps(obj)
    assert parts == [] and type(head) is bytes
    assert head == pickle.dumps(obj, 5)
    again = objects.loads(head, [])
    if not isinstance(obj, (Exception, np.ndarray)) or isinstance(obj, np.ndarray) and (
        obj.dtype.kind != "O"
    ):
        assert same(obj, again)


def test_large_buffers_are_not_copied():
    a = np.arange(100_000.0)
    b = bytes(200_000)
    c = bytearray(150_000)
    head, parts = objects.dumps({"a": a, "b": b, "c": c})
    assert len(head) < 1000
    assert parts[1] is b
    assert span_of(parts[0])[0] == a.ctypes.data
    assert span_of(parts[2])[0] == span_of(c)[0]
    assert objects.parse_head(head)[2:] == ([800_000, 200_000, 150_000], [0, 2, 3])
    with pytest.raises(BufferError):
        c.append(0)
    del parts
    c.append(0)


def test_mutability_arrives():  # B06
    writable = np.arange(50_000.0)
    fixed = np.arange(60_000)
    fixed.flags.writeable = False
    small_fixed = np.arange(3)
    small_fixed.flags.writeable = False
    obj = {
        "writable": writable, "fixed": fixed, "small": np.arange(3), "small fixed": small_fixed,
        "bytes": b"x" * LIMIT, "bytearray": bytearray(b"y" * LIMIT), "small bytes": b"x",
        "small bytearray": bytearray(b"y"), "fortran": np.asfortranarray(np.ones((300, 300))),
        "strided": np.arange(200_000.0)[::2], "dates": np.zeros(20_000, "M8[ns]"),
        "records": np.zeros(20_000, "i4,f8"), "half": np.zeros(50_000, "e"),
    }
    again = there(obj)
    assert same(obj, again)
    for key, value in again.items():
        if isinstance(value, np.ndarray):
            assert value.flags.writeable is ("fixed" not in key), key
    again["bytearray"].extend(b"grows")
    again["writable"][0] = 7
    assert writable[0] == 0
    assert again["fortran"].flags.f_contiguous


def test_identity_within_an_object_is_kept():
    b, ba, a = b"b" * LIMIT, bytearray(LIMIT), np.zeros(LIMIT)
    obj = [b, ba, a, b, ba, a, (b, [ba])]
    head, parts = objects.dumps(obj)
    assert len(parts) == 3
    again = objects.copy(head, parts)
    assert again[0] is again[3] is again[6][0]
    assert again[1] is again[4] is again[6][1][0]
    assert again[2] is again[5]


def test_each_part_has_its_own_memory():  # B07
    again = there({"big": np.zeros(1 << 20), "small": np.zeros(LIMIT, np.uint8)})
    owner = again["small"]
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    assert memoryview(owner).nbytes == LIMIT


PIECES = st.recursive(
    st.one_of(
        st.integers(), st.text(max_size=5), st.binary(max_size=20),
        st.sampled_from([LIMIT - 1, LIMIT, LIMIT + 1, 3 * LIMIT]).flatmap(
            lambda size: st.sampled_from([
                b"\x95" * size, bytearray(b"B" * size),
                b"B" + size.to_bytes(4, "little") * (size // 4),
                "u" * size, np.full(size, 7, np.uint8), pickle.dumps(b"q" * size, 5),
                b"\x8e" + size.to_bytes(8, "little"), b"\x95" + (size - 9).to_bytes(8, "little")
                + bytes(size - 9), np.broadcast_to(np.uint8(1), size).copy(),
            ])),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.tuples(inner, inner),
                            st.dictionaries(st.integers(), inner, max_size=3)),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(PIECES)
def test_any_mixture_comes_back(obj):
    assert same(obj, there(obj))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 300), max_size=40), st.integers(LIMIT - 12, LIMIT + 12))
def test_payloads_at_the_edges_of_frames(sizes, large):
    obj = []
    for i, size in enumerate(sizes):
        obj += [b"s" * (size * 13), i, b"l" * large, bytearray(large), "B" * size]
    assert same(obj, there(obj))


def test_payload_that_looks_like_a_frame_stays_in_the_stream():
    fake = b"\x95" + LIMIT.to_bytes(8, "little") + bytes(LIMIT)
    head, parts = objects.dumps([fake])
    assert parts == []
    assert objects.loads(head, []) == [fake]


def test_many_tiny_arrays_stay_in_band():  # B15
    obj = [np.array([float(i)]) for i in range(1000)]
    head, parts = objects.dumps(obj)
    assert parts == [] and head == pickle.dumps(obj, 5)
    assert same(obj, objects.loads(head, []))


class Held:
    """Hands its buffer to pickle by itself."""

    def __init__(self, buffer):
        self.buffer = buffer

    def __reduce_ex__(self, protocol):
        return Held, (pickle.PickleBuffer(self.buffer),)


@pytest.mark.parametrize("size", [100, LIMIT])
@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_pickle_buffers_of_bytes_come_back_as_bytes(size, kind):
    again = there(Held(kind(size)))
    assert type(again.buffer) is kind and again.buffer == bytes(size)


def test_pickle_buffers_of_other_memory():
    view = memoryview(bytearray(LIMIT + 5)).toreadonly()
    again = there(Held(view)).buffer
    assert memoryview(again).readonly and bytes(again) == bytes(LIMIT + 5)
    again = there(Held(memoryview(bytearray(LIMIT + 5))[3:])).buffer
    assert not memoryview(again).readonly and memoryview(again).nbytes == LIMIT + 2
    strided = memoryview(bytearray(4 * LIMIT))[::2]
    with pytest.raises((BufferError, pickle.PicklingError)):
        objects.dumps(Held(strided))


class Nested:
    """Calls dumps while it is pickled, and then fails if told to."""

    def __init__(self, inner, fail=False):
        self.inner, self.fail = inner, fail

    def __reduce__(self):
        head, parts = objects.dumps(self.inner)
        if self.fail:
            raise KeyError("on purpose")
        return objects.copy, (bytes(head), [bytes(part) for part in parts])


def test_dumps_inside_of_dumps():
    obj = [b"o" * LIMIT, Nested([b"i" * LIMIT, np.arange(LIMIT)]), bytearray(LIMIT)]
    again = there(obj)
    assert same(again, [obj[0], obj[1].inner, obj[2]])


def test_a_failure_leaves_nothing_behind():
    for _ in range(20):
        with pytest.raises(KeyError, match="on purpose"):
            objects.dumps([b"o" * LIMIT, Nested(1, fail=True)])
        with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
            objects.dumps([bytearray(LIMIT), lambda: 0])
    assert objects.dumps([1, "a"]) == (pickle.dumps([1, "a"], 5), [])
    kept = bytearray(LIMIT)
    objects.dumps([kept])
    gc.collect()
    kept.append(1)


def test_threads():
    failures = []

    def work(seed):
        for i in range(200):
            obj = {"seed": seed, "b": bytes([seed]) * (LIMIT + i), "n": [seed] * i}
            if not same(obj, objects.copy(*objects.dumps(obj))):
                failures.append((seed, i))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


# --- the head -------------------------------------------------------------------------------


def test_cookie():
    head, parts = objects.dumps(np.zeros(LIMIT))
    objects.set_cookie(head, 2**64 - 1)
    assert objects.parse_head(head)[1] == 2**64 - 1
    assert same(objects.copy(head, parts), np.zeros(LIMIT))
    with pytest.raises(ValueError, match="parts"):
        objects.set_cookie(bytearray(pickle.dumps(1, 5)), 1)
    with pytest.raises(OverflowError):
        objects.set_cookie(head, 2**64)


def test_layout_of_the_head():
    head, _ = objects.dumps([b"b" * LIMIT])
    magic, cookie, number, length = struct.unpack_from("<8sQQQ", head)
    assert magic[0] == 0 and magic.startswith(b"\0PRDV1")
    assert (cookie, number) == (0, 1)
    assert struct.unpack_from("<QQ", head, 32) == (LIMIT, 2)
    assert length == len(head) - 48


def field(head, offset, value):
    broken = bytearray(head)
    struct.pack_into("<Q", broken, offset, value)
    return broken


def test_malformed_heads_are_refused():  # R8
    head, _ = objects.dumps([b"b" * LIMIT, bytearray(LIMIT)])
    for end in range(8, len(head)):
        with pytest.raises(errors.ArgumentError, match="malformed"):
            objects.parse_head(head[:end])
    with pytest.raises(errors.ArgumentError, match="malformed"):
        objects.parse_head(head + b"x")
    for offset in (16, 24):
        for value in (0, 1, 3, 2**31, 2**60, 2**63, 2**64 - 1):
            with pytest.raises(errors.ArgumentError, match="announces"):
                objects.parse_head(field(head, offset, value))
    for value in (2**63 - 1, 2**63, 2**64 - 1):
        with pytest.raises(errors.ArgumentError, match="address space"):
            objects.parse_head(field(head, 32, value))
    for value in (4, 2**32, 2**64 - 1):
        with pytest.raises(errors.ArgumentError, match="unknown kind"):
            objects.parse_head(field(head, 40, value))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=120))
def test_garbage_heads_never_crash(tail):
    for data in (tail, b"\0PRDV1\r\n" + tail):
        try:
            pickled, _, sizes, kinds = objects.parse_head(data)
        except errors.ArgumentError:
            continue
        assert len(pickled) + 16 * len(sizes) <= len(data)
        assert len(sizes) == len(kinds)


def test_too_few_buffers():
    head, parts = objects.dumps([b"b" * LIMIT, b"c" * LIMIT])
    with pytest.raises(ValueError, match="2 parts where there are 1"):
        objects.copy(head, parts[:1])
    with pytest.raises(ValueError, match="where there are"):
        objects.copy(head, [parts[0], b"short"])
    with pytest.raises(pickle.UnpicklingError):
        objects.loads(objects.parse_head(head)[0], [b"one"])


# --- MPI.pickle -----------------------------------------------------------------------------


def test_pickle_object(restored):
    assert restored.PROTOCOL == 5 and restored.THRESHOLD == LIMIT
    a = np.zeros(LIMIT)
    assert restored.loads(restored.dumps([1, "x"])) == [1, "x"]
    assert restored.dumps(a) == pickle.dumps(a, 5)
    data, buffers = restored.dumps_oob(a)
    assert len(data) < 500 and len(buffers) == 1
    assert same(restored.loads_oob(data, buffers), a)


def test_threshold(restored):
    restored.THRESHOLD = 100
    assert len(objects.dumps(np.zeros(13))[1]) == 1
    assert len(objects.dumps(np.zeros(12))[1]) == 0
    assert same(there([np.zeros(99), b"x" * 200, bytearray(LIMIT)]),
                [np.zeros(99), b"x" * 200, bytearray(LIMIT)])
    restored.THRESHOLD = 0
    tiny = [np.zeros(0), np.zeros(1)]
    assert same(objects.copy(*objects.dumps(tiny)), tiny)
    restored.THRESHOLD = 10 * LIMIT
    fortran = np.asfortranarray(np.arange(40_000.0).reshape(200, 200))
    obj = [np.zeros(2 * LIMIT, np.uint8), b"x" * (2 * LIMIT), bytearray(3 * LIMIT), 1, fortran]
    head, parts = objects.dumps(obj)
    assert parts == [] and same(objects.loads(head, []), obj)
    with pytest.raises(ValueError, match="-1"):
        restored.THRESHOLD = -1
    restored.THRESHOLD = None
    assert restored.THRESHOLD == LIMIT


@pytest.mark.parametrize("protocol", range(5))
def test_old_protocols(restored, protocol):
    restored.PROTOCOL = protocol
    obj = [np.zeros(LIMIT), b"b" * LIMIT]
    head, parts = objects.dumps(obj)
    assert parts == [] and head == pickle.dumps(obj, protocol)
    assert same(objects.loads(head, []), obj)
    assert restored.dumps_oob(obj) == (head, [])
    restored.PROTOCOL = -1
    assert restored.PROTOCOL == pickle.HIGHEST_PROTOCOL


def test_replaced_functions(restored):
    import json

    restored.__init__(lambda obj: json.dumps(obj).encode(), lambda data: json.loads(bytes(data)))
    assert objects.dumps({"a": 1}) == (b'{"a": 1}', [])
    assert there({"a": [1, 2]}) == {"a": [1, 2]}
    assert restored.PROTOCOL is None
    # A stream that begins like a framed head is told apart from one.
    restored.__init__(lambda obj: b"\0PRDV1\r\n" + obj, lambda data: bytes(data)[8:])
    head, parts = objects.dumps(b"abc")
    assert parts == [] and objects.copy(head, parts) == b"abc"


def test_replaced_functions_that_know_out_of_band(restored):
    def dumps(obj, protocol=None, buffer_callback=None):
        return pickle.dumps(obj, 5, buffer_callback=buffer_callback)

    def loads(data, buffers=()):
        return pickle.loads(data, buffers=buffers)

    restored.__init__(dumps, loads)
    a = np.arange(LIMIT)
    head, parts = objects.dumps(a)
    assert len(parts) == 1 and len(head) < 500
    assert same(objects.copy(head, parts), a)
    assert same(there([1, a]), [1, a])


# --- sizes ----------------------------------------------------------------------------------

LARGE = """
import resource, sys
import numpy as np
from pyrdv.api import objects

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

kind, size = sys.argv[1], int(sys.argv[2])
made = {"array": lambda: np.zeros(size, np.uint8), "bytes": lambda: bytes(size),
        "bytearray": lambda: bytearray(size)}[kind]()
marks = (0, size // 2, size - 1)
if kind != "bytes":
    for at in marks:
        made[at] = 120
obj = {"large": made, "n": 1}
before = peak()
head, parts = objects.dumps(obj)
sender = peak() - before
assert len(head) < 1000 and len(parts) == 1, (len(head), len(parts))
before = peak()
again = objects.copy(head, parts)
receiver = peak() - before
got = again["large"]
assert type(got) is type(made) and len(got) == size
assert [got[at] for at in marks] == [made[at] for at in marks]
print(sender / size, receiver / size)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind, size", [
    ("array", 2_200_000_000), ("bytes", 4_500_000_000), ("bytearray", 300_000_000),
])
def test_beyond_32_bits_without_copies(kind, size):  # B02, B07
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if available < 2.5 * size:
        warnings.warn(f"{available >> 20} MiB free: tried with 300 MB, not {size}", stacklevel=1)
        size = 300_000_000
    done = subprocess.run(
        [sys.executable, "-c", LARGE, kind, str(size)],
        capture_output=True, text=True, timeout=250, check=False,
    )
    assert done.returncode == 0, done.stderr
    sender, receiver = map(float, done.stdout.split())
    assert sender < 0.1
    assert receiver < 1.3


def test_sizes_in_the_head_are_64_bit():
    head, _ = objects.dumps([b"b" * LIMIT])
    assert objects.parse_head(field(head, 32, 5 << 40))[2] == [5 << 40]
