"""Files of profiles: whatever is in them, one error; what is accepted can be used everywhere.

``FUZZ_EXAMPLES`` sets how many examples each property gets (`make fuzz` gives many).
"""

import json
import os
import types

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from pyrdv.engine import profiles
from pyrdv.engine.choice import costs
from pyrdv.engine.speculation import saved
from pyrdv.errors import ConfigError
from pyrdv.tools import doctor_protocols

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "150"))
fuzz = settings(max_examples=EXAMPLES, deadline=None, derandomize="FUZZ_EXAMPLES" not in os.environ,
                suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])

SIZES = (4096, 65536, 1 << 20)
SOUND = {
    "schema": profiles.SCHEMA, "ends": ["verbs a:1", "verbs b:1"], "latency": 2e-6, "gap": 1e-7,
    "overhead": 1e-7, "eager_max": 8192, "packet_max": 65536, "registration_refused": False,
    "net": [[size, size / 1e9] for size in SIZES], "read": [[size, size / 1e9] for size in SIZES],
    "copy": [[size, size / 4e9] for size in SIZES],
    "registration": [[size, 1e-5, 1e-6] for size in SIZES],
}
SPECULATION = {"format": saved.FORMAT, "version": saved.VERSION, "rank": 0, "size": 2,
               "envelopes": [[0, 1, 7, 100, 98], [4, 0, 9, 8, 0]]}

numbers = (st.integers(-2, 12) | st.integers(-2**70, 2**70) | st.floats(allow_nan=True)
           | st.floats(0, 1) | st.sampled_from([0, 0.0, 1e6, 1e-308, 1 << 40, 10**400]))
scalars = numbers | st.none() | st.booleans() | st.text(max_size=8)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=5)
                      | st.dictionaries(st.text(max_size=6), inner, max_size=3), max_leaves=12)
lines = st.lists(st.tuples(numbers, numbers) | st.tuples(numbers, numbers, numbers), max_size=10)
steps = st.lists(st.tuples(st.integers(1, 1 << 37), st.floats(0, 1e6), st.floats(0, 1e6)),
                 min_size=1, max_size=8)


@st.composite
def growing(draw, times):
    """Points that may well be accepted."""
    size, points = 0, []
    for more, *rest in draw(steps):
        size += more
        points.append([size, *rest[:times]])
    return points


@st.composite
def changed(draw, sound):
    """A sound file with some fields replaced, left out or added, or a value inside changed."""
    content = json.loads(json.dumps(sound))
    for name in draw(st.lists(st.sampled_from(sorted(sound)), max_size=3)):
        what = draw(st.sampled_from(["value", "gone", "inside", "line"]))
        if what == "gone":
            content.pop(name, None)
        elif what == "line":
            content[name] = draw(lines | growing(1) | growing(2))
        elif what == "inside" and isinstance(content.get(name), list) and content[name]:
            at = draw(st.integers(0, len(content[name]) - 1))
            content[name][at] = draw(values | st.lists(scalars, max_size=6))
        else:
            content[name] = draw(values)
    return content


def written(content):
    return json.dumps(content).encode("utf-8")


texts = (st.binary(max_size=60) | values.map(written)
         | st.integers(1, 60_000).map(lambda count: b"[" * count)
         | st.integers(1, 12_000).map(lambda count: b'{"a":' * count))


@fuzz
@given(texts | changed(SOUND).map(written))
def test_a_device_profile_is_refused_or_of_use_to_all(tmp_path, data):
    path = tmp_path / "profile"
    path.write_bytes(data)
    try:
        profile = profiles.load(str(path))
    except profiles.ProfileError as error:
        assert repr(str(path)) in str(error) and str(error).isprintable()
        return
    asked = types.SimpleNamespace(eager_max=0, protocol="auto", speculation="auto",
                                  pipeline_buffer=0)
    "\n".join(doctor_protocols.page(profile, asked)).encode("utf-8")
    first, growth = costs.chunks(profile)
    assert 0 < first <= 1 << 20 and 100 < growth <= 400
    for size in (1, *doctor_protocols.SIZES, 1 << 40):
        assert all(seconds >= 0 for seconds in doctor_protocols.predicted(profile, size).values())


def test_a_sound_device_profile_is_accepted(tmp_path):
    (tmp_path / "profile").write_bytes(written(SOUND))
    assert profiles.load(str(tmp_path / "profile")) == SOUND


@pytest.mark.parametrize("change", [
    {"ends": []}, {"ends": {}}, {"ends": ["a", "b\ud800"]}, {"ends": ["a\n", "b"]}, {"ends": "ab"},
    {"eager_max": None}, {"packet_max": "x"}, {"registration": [[4096, 1e-5]]},
    {"registration": None}, {"net": [[4096, True], [8192, 1]]}, {"copy": {}}, {"latency": True}])
def test_profiles_that_used_to_be_accepted(tmp_path, change):
    """Each of these once passed `load`, and failed in ``pyrdv doctor --protocols``."""
    (tmp_path / "profile").write_bytes(written({**SOUND, **change}))
    with pytest.raises(profiles.ProfileError, match="is broken"):
        profiles.load(str(tmp_path / "profile"))


@fuzz
@given(texts | changed(SPECULATION).map(written))
def test_a_speculation_profile_is_refused_or_sound(tmp_path, data):
    (tmp_path / "profile.0").write_bytes(data)
    try:
        envelopes = saved.read(str(tmp_path / "profile"), 0, 2)
    except ConfigError as error:
        assert f"{tmp_path}/profile.0" in str(error) and str(error).isprintable()
        return
    for context, source, tag, sent, used in envelopes:
        assert 0 <= context < 2**32 and source in (0, 1) and 0 <= tag < 2**31 and used <= sent
    saved.useless(envelopes, 80)
