"""`make reproduce`: tables come from results, and a table that does not is noticed.

With small experiments of their own; that each real one can be drawn is looked at as well.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FACTS = {"commit": "0123456789abcdef", "cpu": "Some CPU", "cores_allowed": 2, "load_1min": 0.1}
ROWS = [{"size": size, "mode": mode, "time": time,
         "counted": {"sends_eager": 1, "sends_placed": 0, "sends_rendezvous": 5, "sends_piped": 0,
                     "rtrs_used": 2}}
        for size, mode, time in ((8, "one", 1.5), (8, "two", 2.5), (16, "one", 3.5))]
PAGE = "# Page\n\nBefore.\n\n<!-- table: small/times -->\n{}<!-- end of table -->\n\nAfter.\n"


@pytest.fixture(autouse=True)
def path(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


@pytest.fixture
def small(tmp_path, monkeypatch):
    """(Documents of one experiment and one page, its program, its results)."""
    import results

    monkeypatch.setattr(results, "ROOT", tmp_path)
    program = tmp_path / "program.py"
    program.write_text("import other\nx = 1\n")
    (tmp_path / "other.py").write_text("y = 1\n")
    table = results.Table({"mode": lambda row: row["mode"]}, {"": lambda row: f"{row['time']}"},
                          across=lambda row: f"{row['size']} B")
    made = results.Experiment(("python", "program.py", "{out}"), "a.json", ("program.py",),
                              {"times": table})
    documents = results.Documents(tmp_path / "docs", {"small": made})
    (tmp_path / "docs" / "results").mkdir(parents=True)
    page = tmp_path / "docs" / results.PAGES[0]
    page.write_text(PAGE.format("\n"))
    kept = results.result(made, {"rows": ROWS}, FACTS)
    return documents, program, page, kept


def keep(documents, kept):
    documents.file("small").write_text(json.dumps(kept))


def test_tables_are_drawn_from_results(small):
    documents, _, page, kept = small
    keep(documents, kept)
    assert documents.complaints() == [
        f"{page.name}, table small/times: it is not what the results say: run make reproduce "
        "ARGS=--tables"]
    assert documents.write() == [page] and documents.write() == []
    text = page.read_text()
    assert text.startswith("# Page\n\nBefore.\n") and text.endswith("\n\nAfter.\n")
    assert ("| mode | 8 B | 16 B |\n| --- | ---: | ---: |\n| one | 1.5 | 3.5 |\n| two | 2.5 |  |\n"
            in text)
    assert "commit 0123456789ab, Some CPU, 2 cores" in text
    assert "Messages: one: 2 eager, 6 read, 4 write; two: 1 eager, 3 read, 2 write.*" in " ".join(
        text.split())
    assert documents.complaints() == []


def test_a_table_by_hand_must_say_so(small):
    documents, _, page, _ = small
    assert "there are no results, and it does not say so" in documents.complaints()[0]
    page.write_text(PAGE.format("\n*Typed by hand from a run of May.*\n\n| a |\n"))
    assert documents.complaints() == []
    before = page.read_text()
    assert documents.write() == [] and page.read_text() == before


@pytest.mark.parametrize("change, noticed", [
    ("import other\nx = 2\n", True),
    ("import other  # why\n\n\nx = (1)\n", False),
])
def test_a_changed_experiment_is_noticed(small, change, noticed):
    documents, program, _, kept = small
    keep(documents, kept)
    documents.write()
    program.write_text(change)
    told = documents.complaints()
    assert bool(told) == noticed and all("has changed since" in line for line in told)


def test_what_a_program_imports_belongs_to_it(small):
    documents, program, _, kept = small
    keep(documents, kept)
    documents.write()
    (program.parent / "other.py").write_text("y = 2\n")
    assert "has changed since" in documents.complaints()[0]


def test_a_typed_figure_is_noticed(small):
    documents, _, page, kept = small
    keep(documents, kept)
    documents.write()
    page.write_text(page.read_text().replace("| 3.5 |", "| 3.4 |"))
    assert "it is not what the results say" in documents.complaints()[0]


def test_names_are_known(small):
    documents, _, page, kept = small
    keep(documents, kept)
    page.write_text("nothing\n")
    assert documents.complaints() == ["results/small.json: no table shows it"]
    page.write_text(PAGE.replace("small/", "large/").format("\n"))
    assert "no experiment has it" in documents.complaints()[0]


def test_pages_of_the_repository():
    """No table of the documentation is stale, and each experiment has its tables there."""
    import experiments
    import results

    documents = results.Documents(ROOT / "docs", experiments.EXPERIMENTS)
    assert documents.complaints() == []
    shown = {(name, table) for page in documents.pages()
             for _, name, table, _, _ in results.BLOCK.findall(page.read_text())}
    assert shown == {(name, table) for name, one in experiments.EXPERIMENTS.items()
                     for table in one.tables}


def test_programs_of_the_experiments_are_there():
    import experiments
    import results

    for name, one in experiments.EXPERIMENTS.items():
        assert all((ROOT / path).exists() for path in one.programs), name
        assert "{out}" in " ".join(one.command) or "$LAB_OUT" in one.command[-1], name
        assert len(results.definition(one)) == 16
    definitions = [results.definition(one) for one in experiments.EXPERIMENTS.values()]
    assert len(set(definitions)) == len(definitions)


def reproduce(*words):
    return subprocess.run([sys.executable, "benchmarks/reproduce.py", *map(str, words)], cwd=ROOT,
                          capture_output=True, text=True, timeout=200)


def test_reproduce_runs_an_experiment(tmp_path):
    """`matching` as a whole: run, kept, drawn into the page; with --quick the page stays."""
    import results

    page = tmp_path / results.PAGES[1]
    empty = PAGE.replace("small/times", "matching/rounds").format("\n")
    page.write_text(empty)
    done = reproduce("matching", "--quick", "--docs", tmp_path)
    assert done.returncode == 0, done
    assert "| queue | others | µs | ratio |" in done.stdout and page.read_text() == empty
    assert not (tmp_path / "results").exists()
    done = reproduce("nothing")
    assert done.returncode == 2 and "'nothing' is not one of overlap-rxe" in done.stderr


@pytest.mark.parametrize("experiment, row, cell, told", [
    ("overlap-rxe", {"size": 1 << 20, "mode": "default", "side": "sender", "hidden": 0.97},
     "hidden", "**97.0 %** (aim missed)"),
    ("overlap-rxe", {"size": 1 << 20, "mode": "current", "side": "sender", "hidden": 0.97},
     "hidden", "97.0 %"),
    ("pipeline-siw", {"size": 1 << 20, "write": 93.0, "pipeline": 100.0},
     "superpipeline, by packets", "**93 %** (aim missed)"),
    ("pipeline-siw", {"size": 32 << 10, "write": 68.0, "pipeline": 100.0},
     "superpipeline, by packets", "68 %"),
    ("first-touch-siw", {"size": 4 << 20, "way": "pipeline", "best": 94.0, "first": 100.0},
     "first, of the best", "**94 %** (aim missed)"),
    ("kernels-siw", {"way": "auto", "of_better": 1.05}, "of the better", "**1.050** (aim missed)"),
    ("overhead-rxe", {"size": 1 << 20, "mode": "indexed", "beyond": 0.45}, "beyond",
     "**45.0 %** (aim missed)"),
])
def test_missed_aims_are_marked(experiment, row, cell, told):
    import experiments

    (table,) = experiments.EXPERIMENTS[experiment].tables.values()
    assert table.cells[cell](row) == told
