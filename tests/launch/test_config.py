"""pyrdv.config: the table of knobs."""

import pytest

from pyrdv import config
from pyrdv.errors import ConfigError


def test_defaults_without_variables():
    loaded = config.load({})
    for knob in config.KNOBS:
        assert getattr(loaded, knob.name) == knob.default


def test_empty_value_is_the_default():
    assert config.load({"PYRDV_SPIN": " "}).spin == -1


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("123", 123), ("64K", 65536), ("64k", 65536), ("64KiB", 65536), ("1M", 1 << 20),
     ("1.5M", 3 << 19), ("1G", 1 << 30), ("64kb", 65536), (" 8 ", 8)])
def test_sizes(text, value):
    assert config.load({"PYRDV_EAGER_MAX": text}).eager_max == value


@pytest.mark.parametrize("text", ["", "K", "64KK", "x", "-1", "nan", "inf", "2G", "1 K B", "0x10"])
def test_bad_sizes_name_variable_value_and_what_is_allowed(text):
    if not text:
        pytest.raises(ConfigError, config.KNOBS[0].parse, text)
        return
    with pytest.raises(ConfigError) as caught:
        config.load({"PYRDV_EAGER_MAX": text})
    for part in ("PYRDV_EAGER_MAX", repr(text), "64K", "default 0"):
        assert part in str(caught.value)


def test_the_default_may_lie_outside_of_the_bounds():
    assert config.load({"PYRDV_PIPELINE_BUFFER": "0"}).pipeline_buffer == 0
    assert config.load({"PYRDV_PIPELINE_BUFFER": "16K"}).pipeline_buffer == 16 << 10
    with pytest.raises(ConfigError, match="from 16384 to 67108864, or 0"):
        config.load({"PYRDV_PIPELINE_BUFFER": "8K"})


@pytest.mark.parametrize(
    ("name", "text"),
    [("PYRDV_SPIN", "-2"), ("PYRDV_SPIN", "1.5"), ("PYRDV_TIMEOUT_START", "nan"),
     ("PYRDV_TIMEOUT_START", "0"), ("PYRDV_TIMEOUT_START", "soon"), ("PYRDV_SINGLE_COPY", "maybe")])
def test_other_bad_values(name, text):
    with pytest.raises(ConfigError, match=name):
        config.load({name: text})


@pytest.mark.parametrize(
    ("name", "text"),
    [("PYRDV_FABRIC", "tcp"), ("PYRDV_RDMA_RING", "1"), ("PYRDV_RDMA_GID", "-2"),
     ("PYRDV_CONNECT", "later"), ("PYRDV_PEER_TIMEOUT", "0.4"),
     ("PYRDV_RDMA_DEVICE", "rxe0\nrxe1")])
def test_bad_values_of_rdma(name, text):
    with pytest.raises(ConfigError, match=name):
        config.load({name: text})


def test_text_is_taken_as_it_is():
    loaded = config.load({"PYRDV_RDMA_DEVICE": " Rxe0:1 ", "PYRDV_RDMA_GID": "3",
                          "PYRDV_FABRIC": "Verbs", "PYRDV_PEER_TIMEOUT": "0.5"})
    assert (loaded.rdma_device, loaded.rdma_gid, loaded.fabric, loaded.peer_timeout) == (
        "Rxe0:1", 3, "verbs", 0.5)
    knob = {knob.name: knob for knob in config.KNOBS}["rdma_device"]
    with pytest.raises(ConfigError, match="NAME:PORT.*default empty"):
        knob.parse("a\0b")


def test_choices_of_a_knob():
    assert config.choices("fabric") == ("auto", "shm", "verbs")


@pytest.mark.parametrize(("text", "asked"), [
    ("", {}), (" bcast=chain ", {"bcast": "chain"}),
    ("Scatter=Linear, bcast = chain,", {"bcast": "chain", "scatter": "linear"})])
def test_algorithms_that_are_asked_for(text, asked):
    assert config.ways(config.load({"PYRDV_COLLECTIVES": text}).collectives) == asked


def test_algorithms_that_mean_the_same_are_one_text():
    """Ranks compare it at start."""
    texts = {config.load({"PYRDV_COLLECTIVES": text}).collectives
             for text in ("gather=linear,bcast=chain", " bcast=CHAIN, gather=linear")}
    assert texts == {"bcast=chain,gather=linear"}


@pytest.mark.parametrize("text", [
    "bcast", "bcast=", "=chain", "bcast=ring", "reduce=binomial", "bcast=chain=chain",
    "bcast=chain,bcast=chain", "bcast=chain;gather=linear"])
def test_algorithms_that_there_are_not(text):
    with pytest.raises(ConfigError) as caught:
        config.load({"PYRDV_COLLECTIVES": text})
    for part in ("PYRDV_COLLECTIVES", repr(text), "bcast=chain,alltoall=pairwise",
                 "allreduce=doubling|halving|ring", "default empty"):
        assert part in str(caught.value)


def test_good_values():
    loaded = config.load({"PYRDV_SPIN": "50", "PYRDV_SINGLE_COPY": "OFF",
                          "PYRDV_TIMEOUT_START": "2.5", "PYRDV_UNEXPECTED_MAX": "1M"})
    assert (loaded.spin, loaded.single_copy, loaded.timeout_start, loaded.unexpected_max) == (
        50, "off", 2.5, 1 << 20)


def test_unknown_variable_warns_and_names_the_closest():
    with pytest.warns(UserWarning, match="PYRDV_EAGERMAX .*did you mean PYRDV_EAGER_MAX"):
        config.load({"PYRDV_EAGERMAX": "1"})
    said = []
    config.load({"PYRDV_QQQQQQ": "1"}, warn=said.append)
    assert len(said) == 1 and "pyrdv config" in said[0]


def test_the_launchers_own_variables_do_not_warn(recwarn):
    config.load({name: "1" for name, _ in config.INTERNAL})
    assert not recwarn.list


def test_frozen():
    loaded = config.load({})
    with pytest.raises(AttributeError, match="PYRDV_SPIN"):
        loaded.spin = 3
    with pytest.raises(AttributeError):
        del loaded.spin
    with pytest.raises(ConfigError, match="no_such"):
        config.Config(no_such=1)
    assert config.Config(spin=3) == config.load({"PYRDV_SPIN": "3"})


def test_every_knob_shows_what_it_parses():
    for knob in config.KNOBS:
        assert knob.parse(knob.show(knob.default)) == knob.default
        assert knob.help.endswith(".") and knob.allowed()


def test_bool_knob():
    knob = config.Knob("x", "bool", True, "Test.")
    assert knob.parse("off") is False and knob.parse("YES") is True
    with pytest.raises(ConfigError, match="PYRDV_X='2'"):
        knob.parse("2")
