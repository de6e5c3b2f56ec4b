"""The comparison on RDMA devices: what needs no device.

That every row runs is seen by `make bench-rdma`, which needs downloads and minutes.
"""

import json
import pathlib
import socket
import subprocess
import sys
import time
import tomllib

import pytest

BENCHMARKS = pathlib.Path(__file__).resolve().parents[2] / "benchmarks"
FOLDER = BENCHMARKS / "rdma"

SEND_LAT = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    "
    "t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n"
    " 8       1000          48.44          2154.16      55.10    \t       99.45       \t233.88 "
    "\t\t1605.05 \t\t2154.16\n---------------\n")
WRITE_BW = (
    " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
    " 65536      500              58.81              36.95  \t\t   0.000591\n")
UCX = """\
+--------------+--------------+------------------------------+---------------------+------------+
|    Stage     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |
+--------------+--------------+------------------------------+---------------------+------------+
Final:                   384    150.745  2661.198  2660.198       23.50      23.49         376  377
"""


@pytest.fixture(autouse=True)
def path(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))


@pytest.fixture
def rows():
    import rows

    return rows


@pytest.fixture
def table():
    import table

    return table


@pytest.fixture
def job(rows):
    """Two nodes, one size."""
    with (FOLDER / "plan.toml").open("rb") as file:
        plan = tomllib.load(file)
    plan["openmpi"]["program"] = "/bin/mpirun.openmpi"
    places = tuple(
        rows.Place(f"rxe{k}", f"v{k}", f"10.77.0.{k + 1}", 1,
                   ("taskset", "-c", str(k), "nsenter", f"--net=/run/netns/node{k}"), f"node{k}")
        for k in (0, 1))
    return rows.Job(places, False, (rows.Point(65536, 100, 6, 64),), plan, "python", "mpi-python")


def row(rows, name):
    return next(one for one in rows.every() if one.name == name)


def test_latency_of_perftest_is_its_typical_value(rows):
    found = row(rows, "ib_send_lat").parse(SEND_LAT, 8)
    assert found == {"size": 8, "value": 55.10, "mean": 99.45}


def test_bandwidth_of_perftest_is_its_average_in_powers_of_ten(rows):
    found = row(rows, "ib_write_bw").parse(WRITE_BW, 65536)
    assert found == {"size": 65536, "value": pytest.approx(36.95 * 2**20 / 1e6)}


@pytest.mark.parametrize(
    "name, text",
    [
        ("ib_send_lat", ""),
        ("ib_send_lat", SEND_LAT.replace("55.10", "inf")),
        ("ib_send_lat", SEND_LAT.replace("t_typical", "t_other")),
        ("ib_write_bw", WRITE_BW.replace("average", "mean")),
        ("ib_write_bw", WRITE_BW.replace("36.95", "0.00")),
        ("ucx-rc-latency", "Final: nothing"),
    ],
)
def test_other_output_is_a_failure(rows, name, text):
    import jobs

    with pytest.raises(jobs.Failed):
        row(rows, name).parse(text, 8 if name.endswith("lat") else 65536)


def test_figures_of_ucx(rows):
    assert row(rows, "ucx-rc-latency").parse(UCX, 8) == {
        "size": 8, "value": 150.745, "mean": 2660.198}
    assert row(rows, "ucx-ud-bandwidth").parse(UCX, 8)["value"] == pytest.approx(23.49 * 1.048576)


def test_figures_of_pyrdv_count_on_rdma_only(rows):
    import jobs

    figure = {"size": 8, "value": 1.5, "mean": 2.0, "reached": "verbs rxe0:1"}
    text = f"noise\n@@result {json.dumps(figure)}\n"
    assert row(rows, "pyrdv-latency").parse(text) == [figure]
    with pytest.raises(jobs.Failed, match="reached by shm"):
        row(rows, "pyrdv-latency").parse(text.replace("verbs rxe0:1", "shm"))


def test_commands_lead_each_side_to_its_node_and_device(rows, job):
    (server, _), (client, _) = row(rows, "ib_read_bw").commands(job, job.points[0])
    assert server[:5] == ["taskset", "-c", "1", "nsenter", "--net=/run/netns/node1"]
    assert server[server.index("-d") + 1] == "rxe1"
    assert client[client.index("-d") + 1] == "rxe0"
    assert client[-1] == "10.77.0.2"
    assert client[client.index("-n") + 1] == 6 * 64
    assert row(rows, "mpi4py-ud-bandwidth").command(job)[0][0] == "/bin/mpirun.openmpi"
    for name in ("mpi4py-rc-latency", "pyrdv-latency"):
        text = " ".join(map(str, row(rows, name).command(job)[0]))
        for number in (0, 1):
            assert f"/run/netns/node{number} env" in text
            assert f"DEVICE=rxe{number}" in text or f"DEVICES=rxe{number}:1" in text
        assert "latency 65536:100" in text


def test_open_mpi_is_told_from_others_of_its_name(tmp_path, monkeypatch):
    """MPICH's wheel puts an mpirun into the environment's folder, which comes first."""
    import versions

    says = {"first/mpirun": "HYDRA build details", "second/mpirun": "mpirun (Open MPI) 4.1.4"}
    for name, text in says.items():
        path = tmp_path / name
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\necho '{text}'\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/first:{tmp_path}/second")
    assert versions.open_mpi() == f"{tmp_path}/second/mpirun" == versions.program("openmpi")
    (tmp_path / "second/mpirun").unlink()
    assert versions.open_mpi() is None and versions.missing(["openmpi"]) == ["openmpi"]


def test_iwarp_connects_by_the_connection_manager(rows, job):
    import dataclasses

    iwarp = dataclasses.replace(job, iwarp=True)
    (server, _), _ = row(rows, "ib_send_lat").commands(iwarp, job.points[0])
    assert "-R" in server and "-x" not in server
    assert not any(one.iwarp for one in rows.every() if one.name.startswith(("ucx", "mpi4py")))


LINES = [
    {"versions": {"UCX": "1.13"}},
    *({"fabric": "rxe", "row": "ib_send_lat", "size": 8, "value": value, "mean": 60.0}
      for value in (50.0, 90.0, 40.0)),
    {"fabric": "rxe", "row": "pyrdv-latency", "size": 8, "value": 55.0, "mean": 70.0},
    {"fabric": "rxe", "row": "ucx-rc-latency", "size": 8, "value": 60.0},
    {"fabric": "rxe", "row": "ucx-ud-latency", "size": 8, "value": 44.0},
    {"fabric": "rxe", "row": "ib_read_bw", "size": 65536, "value": 100.0},
    {"fabric": "rxe", "row": "pyrdv-bandwidth", "size": 65536, "value": 96.0},
    {"fabric": "rxe", "row": "pyrdv-bandwidth", "size": 4096, "value": 1.0},
    {"fabric": "rxe", "row": "ucx-rc-bandwidth", "round": 1, "failure": "status 1"},
    {"fabric": "rxe", "cut": 3},
]
AIMS = {"latency": 1.15, "ahead": True, "bandwidth": 0.95, "bandwidth_of": "ib_read_bw"}


def test_medians_ratios_and_verdicts(table):
    figures = table.Figures(LINES)
    assert figures.get("rxe", "ib_send_lat", 8) == 50.0
    assert figures.failures == [LINES[-2]]
    assert figures.cut == [("rxe", 3)]
    found = table.verdicts(figures, "rxe", AIMS)
    assert [(one["ratio"], one["met"]) for one in found] == [
        (pytest.approx(1.1), True), (pytest.approx(1.25), False), (pytest.approx(0.96), True)]
    lines = table.verdict_lines(found)
    assert [line.rpartition("x  ")[2].split()[-1] for line in lines] == ["met", "MET", "met"]
    assert "NOT MET" in lines[1]


def test_what_was_not_measured_is_neither_met_nor_missed(table):
    figures = table.Figures([line for line in LINES if line.get("row") != "ib_send_lat"])
    first = table.verdicts(figures, "rxe", AIMS)[0]
    assert first["ratio"] is None and first["met"] is None
    assert "not measured" in table.verdict_lines([first])[0]


def test_table_shows_every_figure(table):
    figures = table.Figures(LINES)
    text = "\n".join(table.section(figures, "rxe", "latency"))
    assert all(word in text for word in ("50.00", "55.00", "60.00", "44.00", "1.10x", "1.25x"))
    small = table.section(figures, "rxe", "bandwidth")[2]
    assert small.split() == ["4", "KiB", "-", "1.00", "-", "-"]
    assert {one["row"] for one in table.records(figures)} == {
        one["row"] for one in LINES if "value" in one}


def test_columns_and_rows_are_the_same(rows, table):
    for kind, columns in table.COLUMNS.items():
        assert sorted(columns) == sorted(one.name for one in rows.every() if one.kind == kind)


def test_picture(table, tmp_path, capsys):
    from pyrdv.tools import bench_report

    plt = bench_report.plotting()
    if plt is None:
        assert "pip install 'pyrdv[bench]'" in capsys.readouterr().err
        return
    facts = {"cpu": "a", "kernel": "b", "pyrdv": "c", "commit": None}
    table.plot(tmp_path / "x.png", table.Figures(LINES), facts, plt)
    assert (tmp_path / "x.png").read_bytes()[:4] == b"\x89PNG"


def inside(code):
    """Run code beside the benchmark's modules, in a process of its own: it ends descendants."""
    return subprocess.run([sys.executable, "-c", code], cwd=FOLDER, capture_output=True, text=True,
                          timeout=60)


def test_a_program_that_hangs_is_ended_with_all_that_it_started():
    done = inside("""
import jobs, os, time
jobs.adopt()
try:
    jobs.alone(["sh", "-c", "setsid sleep 1000 & echo started; sleep 1000"], {}, 1)
except jobs.Failed as error:
    print(error.hung, "started" in error.output, jobs.descendants())
""")
    assert done.stdout == "True True set()\n", done.stderr


def test_a_client_starts_when_its_server_listens():
    server = ("import socket, time; time.sleep(0.3); s = socket.create_server(('127.0.0.1', %d)); "
              "s.accept()")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    client = f"import socket; socket.create_connection(('127.0.0.1', {port})); print('connected')"
    done = inside(f"""
import jobs, sys
jobs.adopt()
print(jobs.pair(([sys.executable, "-c", {server % port!r}], {{}}),
                ([sys.executable, "-c", {client!r}], {{}}), {port}, 20), end="")
""")
    assert done.stdout == "connected\n", done.stderr


def test_a_server_that_fails_is_named():
    done = inside("""
import jobs
jobs.adopt()
try:
    jobs.pair((["sh", "-c", "echo no device; exit 3"], {}), (["true"], {}), 1, 5)
except jobs.Failed as error:
    print(error, "no device" in error.output)
""")
    assert done.stdout == "the server ended at once True\n", done.stderr


@pytest.mark.parametrize("dear", [0.0, 1.0])
def test_clock_tells_the_time(monkeypatch, dear):
    monkeypatch.syspath_prepend(str(FOLDER / "programs"))
    import clock

    one, read = clock.Clock(dear), time.perf_counter
    outer, first, inner = read(), one.now(), read()
    time.sleep(0.1)
    least, last, most = read() - inner, one.now(), read() - outer
    assert 0.98 * least <= (last - first) * one.seconds() <= 1.02 * most


def test_program_runs_on_pyrdv():
    for kind, point in (("latency", "8:20"), ("bandwidth", "4096:2:16")):
        done = subprocess.run(
            [sys.executable, "-m", "pyrdv.tools.cli", "run", "-n", "2",
             FOLDER / "programs" / "messages.py", "pyrdv", kind, point],
            capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout.partition("@@result ")[2])
        assert found["value"] > 0 and found["reached"] == "shm"


@pytest.mark.parametrize(
    "words, text",
    [
        (["--only", "speed"], "'speed' is no row"),
        (["--sizes", "tiny"], "is not a size"),
        (["--sizes", "2G"], "beyond what plan.toml has counts for"),
        (["--rounds", "0"], "must be positive"),
    ],
)
def test_wrong_options_are_refused(words, text):
    done = subprocess.run([sys.executable, FOLDER / "run.py", *words], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 2
    assert text in done.stderr
