"""A row whose messages went by another protocol than its name says is refused."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pyrdv.tools import (
    bench_counted as counting,
    bench_overlap,
    bench_pipeline,
    bench_protocols as protocols,
    bench_speculation as speculation,
)

ROOT = Path(__file__).resolve().parents[2]


def counted(eager=0, placed=0, read=0, write=0, pipeline=0):
    return {"sends_eager": eager, "sends_placed": placed, "sends_piped": pipeline,
            "rtrs_used": write, "sends_rendezvous": read + write + pipeline}


def test_protocols_are_told_apart():
    numbers = {"eager": 1, "placed": 2, "read": 3, "write": 4, "pipeline": 5}
    assert counting.protocols(counted(**numbers)) == numbers
    assert counting.text(counted(**numbers)) == "2 placed, 3 read, 4 write, 5 pipeline"
    assert counting.text(counted(eager=7)) == "eager"


@pytest.mark.parametrize("found, named, messages, needed, told", [
    (counted(eager=3, read=5), ("read",), 5, (), None),
    (counted(read=5, placed=1), ("read",), None, (), "messages went 1 by placed, and not by read"),
    (counted(pipeline=2, write=3), ("read", "write"), 5, (), "2 by pipeline"),
    (counted(read=4), ("read",), 5, (), "5 messages were to go by read, but 4 did"),
    (counted(read=5), ("read", "write"), 5, ("write",), "no message went by write"),
    (counted(read=4, write=1), ("read", "write"), 5, ("write",), None),
    (counted(placed=4, write=1), (), None, (), None),
])
def test_refusal(found, named, messages, needed, told):
    why = counting.refusal(found, named, messages, needed)
    assert why is None if told is None else told in why


def test_modes():
    """Only `default` may take any protocol; offers are asked of those that make them."""
    many = speculation.SURE
    for mode in speculation.available():
        piped = speculation.refusal(mode, counted(pipeline=many), many)
        read = speculation.refusal(mode, counted(read=many), many, offered=True)
        assert (piped is None) == (mode == "default")
        assert (read is None) == (mode == "default" or not speculation.offers(mode))
        settings = speculation.settings(mode)
        assert mode == "default" or (settings["protocol"], settings["standing_peers"]) == ("get", 0)
    assert speculation.refusal("indexed", counted(read=many - 1), many - 1, offered=True) is None
    assert "classic" in speculation.available()


def test_every_way_has_protocols():
    assert protocols.NAMED.keys() == protocols.WAYS.keys()
    assert bench_pipeline.NAMED.keys() == bench_pipeline.WAYS.keys()


def test_rows_are_put_aside():
    rows = [{"way": "pipeline", "counted": counted(pipeline=3)},
            {"way": "pipeline", "counted": counted(pipeline=3, placed=1)},
            {"way": "auto", "counted": counted(placed=1, read=2)}]
    kept, refused = protocols.separate(rows)
    assert kept == [rows[0], rows[2]]
    assert [row["way"] for row in refused] == ["pipeline"]
    assert "1 by placed" in refused[0]["refused"]
    row = {"counted": {way: counted(read=1) for way in bench_pipeline.WAYS}}
    assert [way for way, _ in bench_pipeline.refusals(row)] == ["placed", "pipeline", "flags"]


PATCHED = """
import sys
from pyrdv.tools import bench, bench_speculation
bench_speculation.PINNED["protocol"] = sys.argv.pop(1)
sys.exit(bench._rank_main())
"""


@pytest.mark.parametrize("protocol, refused", [("get", 0), ("pipeline", 4)])
def test_a_refused_row_fails_the_benchmark(tmp_path, protocol, refused):
    """Whatever the environment says, and with the reason in place of figures."""
    (tmp_path / "patched.py").write_text(PATCHED)
    words = [sys.executable, "-m", "pyrdv.tools.cli", "run", "-n", "2", "--env",
             "PYRDV_PROTOCOL=pipeline", "patched.py", protocol, "overlap", "--sizes", "128K",
             "--rounds", "1", "--seconds", "0.001", "--modes", "current", "--json", "out.json",
             "--plot", "out.png"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, cwd=tmp_path)
    content = json.loads((tmp_path / "out.json").read_text())
    scenes = len(bench_overlap.SCENES)
    assert len(content["rows"]) == scenes - refused and len(content["refused"]) == refused, done
    assert len(re.findall("refused: messages went [0-9]+ by pipeline, and not by read",
                          done.stdout)) == refused
    assert done.returncode == (1 if refused else 0), done
    assert ("4 rows are refused" in done.stderr) == bool(refused)
    assert (tmp_path / "out.png").exists() == (not refused)
