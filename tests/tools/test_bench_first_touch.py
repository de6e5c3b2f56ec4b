"""``pyrdv bench first-touch`` over shared memory, and the arrays that it is about."""

import argparse
import json

import numpy as np
import pytest

from pyrdv.tools import bench, bench_first_touch as first_touch, fresh

from .test_tune import run

KEYS = [(touch, way) for touch in first_touch.TOUCHES for way in first_touch.NAMES]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first-touch")
    done = run(folder, "bench", "first-touch", "--sizes", "256K,1K", "--seconds", "0.001",
               "--samples", "3", "--json", "out.json", "--plot", "out.png")
    assert done.returncode == 0, done
    return folder, json.loads((folder / "out.json").read_text()), done.stdout


def test_document(measured):
    folder, content, text = measured
    assert content["benchmark"] == "first-touch" and content["fabric"] == "shm"
    assert content["settings"]["ranks"] == 2
    assert content["paper"]["get-trust"]["64 KiB"] == 0.4
    assert [(row["size"], row["received_into"], row["way"]) for row in content["rows"]] == [
        (size, *key) for size in (1024, 262144) for key in KEYS]
    for row in content["rows"]:
        assert 0 < row["best"] <= row["later"] and row["best"] <= row["first"]
        assert row["samples"] == 3 and row["round_trips"] >= 4
    # Each way is what it is called.
    piped = {name for name in first_touch.NAMES if content["counted"][name]["sends_piped"]}
    assert piped - {"auto"} == {"placed", "pipeline"}, "shared memory has no standing buffers"
    assert not content["refused"]
    assert (folder / "out.png").read_bytes().startswith(b"\x89PNG")
    assert "256 KiB, untouched" in text and "paper, 64 KiB" in text
    assert "sizes with ≥ 95 %" in text


def test_only_untouched_arrays_take_pages(measured):
    """Rules 1 to 3: both arrays that are received into get their pages in the first turn.

    A kernel may give many pages at once, but not for nothing.
    """
    _, content, _ = measured
    faults = {(row["received_into"], row["way"]): row["faults"] for row in content["rows"]
              if row["size"] == 256 << 10}
    for way in first_touch.NAMES:
        assert faults["untouched", way] >= faults["written", way] + 2, faults


def resident():
    """Bytes of this process that are in memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * fresh.PAGE


def test_fresh_arrays_do_not_pile_up():
    """Fifty pairs of 8 MiB, written and freed, need the memory of a few."""
    before = resident()
    for _ in range(50):
        pair = fresh.empty(8 << 20), fresh.empty(8 << 20)
        for array in pair:
            array.fill(1)
    assert resident() < before + (200 << 20)


def test_fresh_arrays():
    """malloc hands out what was freed; `fresh.empty` does not take it."""
    for size in (1, fresh.PAGE, 16 << 10, 100 << 10, 1 << 20, 40 << 20):
        for _ in range(5):
            array = fresh.empty(size)
            assert array.nbytes == size and array.flags.owndata and fresh.pages(array) == 0
            array.fill(1)
            assert fresh.pages(array) == fresh.whole_pages(array)[1]
            del array


def test_pages_are_seen():
    array = fresh.empty(10 * fresh.PAGE)
    begin, count = fresh.whole_pages(array)
    assert count in (9, 10)
    array[begin - array.ctypes.data + 3 * fresh.PAGE] = 1
    assert fresh.pages(array) >= 1
    assert fresh.pages(np.empty(7, np.uint8)) == 0


def test_figures():
    """Medians over the samples: of the first, of the best, of the middle of the others."""
    row = first_touch.row_of(1000, "written", "auto", [[9, 2, 4], [8, 1, 7, 3], [30, 5, 6]],
                             [1, 5, 2])
    assert (row["first"], row["best"], row["later"], row["faults"]) == (9, 2, 3, 2)
    assert first_touch.share(row) == pytest.approx(2 / 9)


def test_aim():
    rows = [{"size": size, "received_into": touch, "way": way, "first": first, "best": 0.95,
             "later": 0.95}
            for size, first in ((32 << 10, 9.0), (64 << 10, 1.0), (1 << 20, 1.9))
            for touch in first_touch.TOUCHES for way in first_touch.NAMES]
    text = first_touch.verdict(rows)
    assert text.count("1 of 2") == len(KEYS), "64 KiB reach it, 1 MiB do not, 32 KiB do not count"
    assert text.count("50 %") == 3 * len(KEYS), "1 MiB, and the worst, twice"
    assert "sizes with" not in first_touch.verdict([row for row in rows if row["size"] < 65536])


def test_options(capsys):
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    assert parser.parse_args(["first-touch"]).pin
    options = parser.parse_args(["first-touch", "--sizes", "1M,64K", "--no-pin"])
    assert (options.sizes, options.pin) == ([1 << 20, 64 << 10], False)
    options = parser.parse_args(["first-touch", "--step", "1.05", "--samples", "3"])
    assert (options.step, options.samples) == (1.05, 3)
    with pytest.raises(SystemExit):
        parser.parse_args(["first-touch", "--samples", "0"])
    with pytest.raises(SystemExit):
        parser.parse_args(["first-touch", "--help"])
    text = capsys.readouterr().out
    assert all(name in text for name in first_touch.NAMES)


def test_wrong_number_of_ranks(tmp_path):
    done = run(tmp_path, "run", "-n", "3", "-m", "pyrdv.tools.bench", "first-touch")
    assert done.returncode == 2
    assert "first-touch needs 2 ranks and this job has 3" in done.stderr
