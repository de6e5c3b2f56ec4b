"""Which device, port and addresses are chosen, and what is said where none can be (rule V9).

Devices are faked by what `device.devices` would return for them.
"""

import pytest

from pyrdv.fabrics.verbs import choice
from pyrdv.fabrics.verbs.gids import INFINIBAND, IWARP, ROCE_V1, ROCE_V2, Gid

from .verbstools import EMPTY, RXE, RXE0, SIW0, device, gid, port, raw


def text_of(error, *arguments, **more):
    with pytest.raises(error) as caught:
        choice.choose(*arguments, **more)
    return str(caught.value)


def everything(chosen):
    return "\n".join(chosen.explanation)


def test_one_device():
    chosen = choice.choose([RXE0])
    assert (chosen.device, chosen.port, chosen.transport) == ("rxe0", 1, "IB")
    assert str(chosen) == "rxe0:1"
    assert [one.address for one in chosen.candidates] == ["10.0.0.1", "fd00::1", "fe80::1"]
    assert [one.gid_index for one in chosen.candidates] == [1, 2, 0]
    assert "the only one" in chosen.explanation[0]
    assert "RoCE v2, IPv4 private on eth0, GID 1" in everything(chosen)


def test_real_devices_before_soft_ones_and_faster_before_slower():
    slow = device("mlx5_0", port(gid(0, "10.1.0.1"), gbit=25.0))
    fast = device("mlx5_1", port(gid(0, "10.2.0.1"), gbit=100.0))
    quick_soft = device("rxe0", port(gid(0, "10.0.0.1"), gbit=400.0), vendor=RXE)
    chosen = choice.choose([quick_soft, slow, fast])
    assert chosen.device == "mlx5_1" and "fastest (100 Gbit/s)" in chosen.explanation[0]
    chosen = choice.choose([quick_soft, slow])
    assert chosen.device == "mlx5_0" and "before soft" in chosen.explanation[0]
    assert "rxe0 port 1: usable, not chosen" in chosen.explanation
    chosen = choice.choose([SIW0, RXE0])
    assert chosen.device == "rxe0" and "PYRDV_RDMA_DEVICE" in chosen.explanation[0]


def test_ports_that_are_down_are_passed_over():
    two = device("mlx5_0", port(gid(0, "10.1.0.1"), state="DOWN", gbit=100.0),
                 port(gid(0, "10.2.0.1"), number=2))
    chosen = choice.choose([two])
    assert chosen.port == 2
    assert "mlx5_0 port 1: the port is DOWN" in chosen.explanation
    text = text_of(OSError, [two], "mlx5_0", 1)
    assert "DOWN" in text and "Connect the cable" in text and "doctor" in text


def test_no_device():
    text = text_of(OSError, [])
    assert "rdma link add rxe0 type rxe netdev eth0" in text and "lo" in text
    assert "'rxe7' was asked for" in text_of(OSError, [], "rxe7")


def test_device_that_is_not_there():
    text = text_of(ValueError, [SIW0, RXE0], "rxe7")
    assert "'rxe7'" in text and "rxe0, siw0" in text and "PYRDV_RDMA_DEVICE" in text


def test_port_that_is_not_there():
    assert "no port 2: its ports are 1" in text_of(ValueError, [RXE0], "rxe0", 2)
    assert "rxe0 (1), siw0 (1)" in text_of(ValueError, [RXE0, SIW0], port=3)
    text_of(ValueError, [RXE0], port=-1)
    text_of(ValueError, [RXE0], gid=-2)


def test_named_device_is_used_or_refused():
    assert choice.choose([RXE0, SIW0], "siw0").device == "siw0"
    down = device("siw0", port(gid(0, "10.0.0.1", IWARP), state="DOWN"), transport="iWARP")
    assert "siw0" in text_of(OSError, [RXE0, down], "siw0")


def test_gid_that_the_user_names():
    chosen = choice.choose([RXE0], gid=2)
    assert [one.address for one in chosen.candidates] == ["fd00::1"]
    text = text_of(ValueError, [RXE0], "rxe0", gid=7)
    assert "GID 7 of rxe0 port 1 is empty" in text and "0, 1, 2" in text
    foreign = device("rxe0", port(gid(0, "10.9.9.9", problem="not set here"),
                                  gid(1, "10.0.0.1")))
    text = text_of(ValueError, [foreign], "rxe0", gid=0)
    assert "(10.9.9.9) cannot be used: not set here" in text
    # Not named, so another device may have that entry.
    assert choice.choose([SIW0, RXE0], gid=1).device == "rxe0"
    assert "GID 9" in text_of(OSError, [SIW0, RXE0], gid=9)


def test_v1_is_refused_where_its_twin_is_v2():
    both = device("mlx5_0", port(gid(0, "10.0.0.1", ROCE_V1), gid(1, "10.0.0.1")))
    text = text_of(ValueError, [both], "mlx5_0", gid=0)
    assert "RoCE v1" in text and "give 1" in text
    chosen = choice.choose([both])
    assert [one.gid_index for one in chosen.candidates] == [1]
    assert "GID 0 (10.0.0.1, RoCE v1) not used: the port has RoCE v2" in everything(chosen)
    old = device("mlx4_0", port(gid(0, "10.0.0.1", ROCE_V1)))
    assert choice.choose([old], gid=0).candidates[0].kind == ROCE_V1


def test_addresses_of_another_namespace():
    why = "not set at interface v1"
    there = device("rxe1", port(gid(0, "10.0.0.2", problem=why), gid(1, "fd00::2", problem=why)))
    text = text_of(OSError, [there])
    assert "(10.0.0.2, fd00::2: not set at interface v1)" in text and "network namespace" in text
    assert "ip addr add" in text
    chosen = choice.choose([there, RXE0])
    assert chosen.device == "rxe0"
    assert chosen.explanation[-1] == f"rxe1 port 1: no usable address (10.0.0.2, fd00::2: {why})"


def test_infiniband_without_address():
    bare = Gid(0, raw("fe80::2:c903"), INFINIBAND, problem="no IPoIB")
    text = text_of(OSError, [device("mlx5_0", port(bare, link_layer="InfiniBand"))])
    assert "ib_ipoib" in text and "ip addr add" in text


def test_empty_gid_table():
    text = text_of(OSError, [device("rxe0", port())])
    assert "GID table is empty" in text and "ip addr add" in text
    empty = Gid(0, EMPTY, ROCE_V2, problem="empty")
    assert "GID table is empty" in text_of(OSError, [device("rxe0", port(empty))])


def test_device_that_cannot_be_opened():
    closed = device("mlx5_0", problem="it cannot be opened: Permission denied")
    assert "mlx5_0: it cannot be opened" in text_of(OSError, [closed], "mlx5_0", 1)
    chosen = choice.choose([closed, RXE0])
    assert chosen.device == "rxe0" and "mlx5_0: it cannot be opened" in everything(chosen)


def test_at_most_four_addresses_are_told():
    many = [gid(n, f"10.{n}.0.1") for n in range(7)]
    chosen = choice.choose([device("mlx5_0", port(*many))])
    assert len(chosen.candidates) == 4
    assert "4 at most: 10.4.0.1, 10.5.0.1, 10.6.0.1" in everything(chosen)
