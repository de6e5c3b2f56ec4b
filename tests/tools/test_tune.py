"""``pyrdv tune``, ``pyrdv bench registration`` and the cost model that they feed.

What needs a device is in tests/verbs/test_tune.py.
"""

import json
import math
import os
import subprocess
import sys
import types

import pytest

from pyrdv.calibration import measuring
from pyrdv.engine.choice import costs, rule
from pyrdv.tools import bench, bench_registration, cost_model, doctor_protocols, tune

LIMIT = 120
FLAT = {"ends": ["shm", "shm"], "latency": 2e-6, "gap": 1e-7, "overhead": 1e-7,
        "net": [[size, 2e-6 + size / 1e9] for size in tune.SIZES],
        "read": [[size, 4e-6 + size / 1e9] for size in tune.SIZES],
        "copy": [[size, size / 4e9] for size in tune.SIZES],
        "registration": [[size, 10e-6 + size / 20e9, 5e-6] for size in tune.SIZES],
        "registration_refused": False}


def run(folder, *words, **environ):
    command = [sys.executable, "-m", "pyrdv.tools.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, cwd=folder,
                          env={**os.environ, **environ})


def quiet_profile(folder):
    """A profile of shared memory here; a machine may be busy with something else for a while."""
    for _ in range(20):
        done = run(folder, "tune", "--output", "profile.json", "--seconds", "0.02")
        if done.returncode == 0:
            break
        assert "the machine is busy" in done.stderr, done
    assert done.returncode == 0, done
    return done.stdout, json.loads((folder / "profile.json").read_text())


def test_profile(tmp_path):
    told, profile = quiet_profile(tmp_path)
    assert profile["schema"] == tune.SCHEMA and profile["ends"] == ["shm", "shm"]
    for name in ("latency", "overhead", "gap"):
        assert 0 < profile[name] < 1
    for name in ("net", "read"):
        assert 1 < len(profile[name]) <= len(tune.SIZES)
    for name in ("net", "read", "copy", "registration"):
        assert [point[0] for point in profile[name]] == tune.SIZES[:len(profile[name])]
        assert all(0 <= value < 10 for point in profile[name] for value in point[1:])
    assert profile["registration_refused"] is False
    assert 0 < rule.eager_limit(profile) <= profile["eager_max"]
    table = run(tmp_path, "doctor", "--protocols", "profile.json", PYRDV_SPECULATION="off")
    assert table.returncode == 0, table
    assert "Protocols between shm and shm" in table.stdout
    done = run(tmp_path, "doctor", "--protocols", "profile.json", "--json")
    rows = json.loads(done.stdout)["rows"]
    assert rows[0]["taken"] == "eager" and rows[-1]["taken"] == "put or get"
    assert set(rows[0]["seconds"]) == set(doctor_protocols.WAYS)
    assert "superpipeline: first chunk" in told and "written to profile.json" in told


def test_a_file_that_cannot_be_written(tmp_path):
    done = run(tmp_path, "tune", "--output", "no/such.json", "--seconds", "0.02")
    assert done.returncode == 1
    assert "cannot write 'no/such.json'" in done.stderr or "the machine is busy" in done.stderr


def test_files_of_links_are_refused(tmp_path):
    """What they lead to belongs to somebody, perhaps somebody else."""
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "link").symlink_to("victim")
    for words in (("tune", "--output", "link", "--seconds", "0.02"),
                  ("bench", "latency", "--sizes", "8", "--json", "link")):
        done = run(tmp_path, *words)
        assert done.returncode != 0 and "'link': it is a symbolic link" in done.stderr, done
    assert (tmp_path / "victim").read_text() == "precious"
    assert sorted(os.listdir(tmp_path)) == ["link", "victim"]


def test_three_ranks(tmp_path):
    done = run(tmp_path, "run", "-n", "3", "-m", "pyrdv.tools.tune")
    assert done.returncode != 0
    assert "has 3 ranks but two measure" in done.stderr


def test_no_device(tmp_path):
    done = run(tmp_path, "tune", "--fabric", "verbs", PYRDV_RDMA_DEVICE="none9")
    assert done.returncode != 0
    assert "no verbs between two ranks" in done.stderr and "none9" in done.stderr


@pytest.mark.parametrize("name", ["net", "read", "copy"])
def test_busy(name):
    profile = json.loads(json.dumps(FLAT))
    assert tune.doubt(profile) is None
    profile[name][2][1] = 1.0
    assert "64 KiB took 1000000.0 us" in tune.doubt(profile)


def test_latency_of_a_busy_machine():
    assert "a write of 8 B took 9000.0 us" in tune.doubt({**FLAT, "latency": 9e-3})


def test_line():
    fixed, each = tune.line(FLAT["registration"])
    assert fixed == pytest.approx(10e-6) and each == pytest.approx(20e9)


def test_ruler_takes_the_time_it_is_given():
    ruler = measuring.Ruler(measuring.alone, 0.1)
    assert ruler.counts(1e-3) == (1, 41)
    assert ruler.counts(10e-3) == (1, 10)
    assert ruler.counts(1.0) == (1, 3)
    assert ruler.counts(1e-6)[0] == 300
    assert ruler.figure(lambda turns, samples: [4.0, 1.0, 2.0, 3.0, 5.0]) == 2.0


def test_piecewise():
    points = [[10, 1.0], [20, 3.0], [40, 4.0]]
    assert [costs.seconds(points, size) for size in (5, 10, 15, 20, 30, 40, 60)] == [
        0.0, 1.0, 2.0, 3.0, 3.5, 4.0, 5.0]
    assert costs.seconds([[8, 2.0]], 16) == 4.0


def test_model():
    """The equations of the paper, with constant bandwidths."""
    size = 1 << 20
    raw = cost_model.net(FLAT, size)
    assert raw == pytest.approx(2e-6 + size / 1e9)
    assert cost_model.ratio(FLAT, size) == pytest.approx(4.0)
    assert cost_model.first_chunk(FLAT, size) == pytest.approx(16000)
    assert cost_model.best_chunk(FLAT, size) == pytest.approx(math.sqrt(size * 1e-7 * 4e9 / 2))
    n = cost_model.chunks(FLAT, size)
    # The sum of a geometric series of n chunks is the message.
    assert 16000 * (4 ** n - 1) / 3 == pytest.approx(size)
    assert cost_model.superpipeline(FLAT, size) == pytest.approx(raw + 4096 / 4e9 + n * 1e-7)
    assert raw < cost_model.superpipeline(FLAT, size) < cost_model.pipeline(FLAT, size)
    assert cost_model.pipeline(FLAT, size) < cost_model.naive_copy(FLAT, size)
    assert cost_model.naive_registration(FLAT, size) == pytest.approx(
        raw + 2 * (15e-6 + size / 20e9))


def test_equal_chunks_are_the_best():
    size = 1 << 20
    chunk = cost_model.best_chunk(FLAT, size)

    def cost(chunk):
        return 2 * chunk / 4e9 + size / chunk * 1e-7

    assert cost(chunk) < min(cost(chunk * 0.9), cost(chunk * 1.1))


def test_registration_that_is_refused():
    profile = {**FLAT, "registration": FLAT["registration"][:3], "registration_refused": True}
    assert cost_model.registration(profile, 64 << 10) < 1
    assert cost_model.registration(profile, 1 << 20) == math.inf
    assert cost_model.registration({**FLAT, "registration": []}, 1) == math.inf


def settings(**chosen):
    return types.SimpleNamespace(**{"eager_max": 0, "protocol": "auto", "speculation": "auto",
                                    "pipeline_buffer": 128 << 10, **chosen})


@pytest.mark.parametrize("size, chosen, taken, why", [
    (8192, {}, "eager", "up to 8 KiB (of this fabric)"),
    (8193, {}, "put or get", "pipeline if the memory cannot be registered"),
    (8192, {"eager_max": 100}, "put or get", "whoever comes first"),
    (60000, {"eager_max": 1 << 20}, "eager", "PYRDV_EAGER_MAX"),
    (65536, {"eager_max": 1 << 20}, "put or get", "whoever comes first"),
    (1 << 20, {"protocol": "pipeline"}, "pipeline", "PYRDV_PROTOCOL=pipeline"),
    (1 << 20, {"speculation": "off"}, "get", "PYRDV_SPECULATION=off; pipeline"),
    (1 << 20, {"protocol": "get"}, "put or get", "whoever comes first"),
])
def test_choice(size, chosen, taken, why):
    """The same rule as the engine's, in words."""
    profile = {**FLAT, "eager_max": 8192, "packet_max": 65536}
    found = doctor_protocols.choice(profile, settings(**chosen), size)
    assert found[0] == taken and why in found[1]
    assert ("pipeline if" in found[1]) == ("get" in taken and chosen.get("protocol") != "get")


def test_predictions():
    size = 1 << 20
    times = doctor_protocols.predicted(FLAT, size)
    assert times["put"] < times["get"] < times["pipeline"] < times["get, fresh"] < times["eager"]
    slow = {**FLAT, "read": [[size, size / 5e8] for size in tune.SIZES]}
    reads = doctor_protocols.predicted(slow, size)
    assert times["pipeline"] < reads["get"] == pytest.approx(2e-6 + size / 5e8)
    assert {way for way in times if times[way] != reads[way]} == {"get", "get, fresh"}
    told = [doctor_protocols.copied(
        lambda uses, known=known: rule.explain(known, size, uses=uses, standing=True)[0])
        for known in (FLAT, slow)]
    assert "memory used up to" in told[0] and "pipeline from any memory" in told[1]
    refused = {**FLAT, "ends": ["a", "b"], "registration": [], "eager_max": 1, "packet_max": 999}
    assert "refused" in doctor_protocols.page(refused, settings())[-7]


@pytest.mark.parametrize("content, told", [
    (None, "cannot read"), ("{", "it is no JSON"), ("[]", "its schema is None"),
    ('{"schema": "pyrdv-tune/1"}', "its schema is 'pyrdv-tune/1'"),
])
def test_no_profile(tmp_path, content, told):
    if content is not None:
        (tmp_path / "p.json").write_text(content)
    done = run(tmp_path, "doctor", "--protocols", "p.json")
    assert done.returncode == 1
    assert told in done.stderr and "pyrdv tune --output" in done.stderr


def test_bench(tmp_path):
    done = run(tmp_path, "bench", "registration", "--sizes", "64K,4K", "--seconds", "0.01",
               "--json", "out.json", "--plot", "out.png")
    assert done.returncode == 0, done
    content = json.loads((tmp_path / "out.json").read_text())
    assert content["benchmark"] == "registration"
    assert content["paper"]["registration_bandwidth"] == 20e9
    assert [row["size"] for row in content["rows"]] == [4096, 65536]
    for row in content["rows"]:
        assert all(row[way] > 0 for way in bench_registration.WAYS)
        assert set(row["model"]) == {"pipeline", "superpipeline"}
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    assert "naive registration of write at 64 KiB" in done.stdout


def test_sizes_of_a_bench():
    import argparse

    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    options = parser.parse_args(["registration", "--step", "1.05"])
    found = bench_registration.sizes(options)
    assert found[0] == 4096 and found[-1] <= 16 << 20 < found[-1] * 1.06
    assert all(1.04 < b / a < 1.06 for a, b in zip(found, found[1:], strict=False))
    with pytest.raises(SystemExit):
        parser.parse_args(["registration", "--step", "1"])
