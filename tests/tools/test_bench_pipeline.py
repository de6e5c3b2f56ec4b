"""``pyrdv bench pipeline``."""

import argparse
import json

import pytest

from pyrdv.tools import bench, bench_pipeline

from .test_tune import run


def test_bench(tmp_path):
    done = run(tmp_path, "bench", "pipeline", "--sizes", "256K,16K", "--seconds", "0.01",
               "--turns", "2", "--json", "out.json", "--plot", "out.png")
    assert done.returncode == 0, done
    content = json.loads((tmp_path / "out.json").read_text())
    assert content["benchmark"] == "pipeline"
    assert [row["size"] for row in content["rows"]] == [16384, 262144]
    for row in content["rows"]:
        assert all(row[way] > 0 for way in bench_pipeline.COLUMNS)
    # Each way is what it is called.
    counted = content["counted"]
    assert counted["get"]["sends_piped"] == 0
    assert counted["pipeline"]["sends_piped"] > 0 < counted["flags"]["sends_piped"]
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    assert "of the bandwidth of a raw write" in done.stdout


def test_options():
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    options = parser.parse_args(["pipeline", "--step", "1.05", "--turns", "7"])
    found = bench_pipeline.sizes(options)
    assert found[0] == 16384 and found[-1] <= 16 << 20 < found[-1] * 1.06
    with pytest.raises(SystemExit):
        parser.parse_args(["pipeline", "--turns", "0"])
