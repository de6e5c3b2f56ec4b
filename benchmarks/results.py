"""Tables in the documentation from figures that a program took: kept, drawn, and checked.

What an experiment found lies in docs/results/NAME.json, with commit, machine, date and the
protocols that its messages took.  A page has a block for each table:

    <!-- table: NAME/TABLE -->
    ... written by `make reproduce` ...
    <!-- end of table -->

What must hold, and `complaints` looks for (`make docs` fails on any):

1. A block is what its experiment's file says, in the form of `experiments.EXPERIMENTS`.
2. The experiment is still the one that the file comes from: its command and its programs, comments
   and layout aside, give the same `definition`.
3. A block without a file says so: its figures were typed (`BY_HAND`), or it has none
   (`NO_FIGURES`).
"""

import ast
import datetime
import hashlib
import json
import re
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("reproducing-the-papers.md", "measurements.md")
#: Columns of the pages' text.
WIDTH = 110
BY_HAND = "*Typed by hand from a run of "
NO_FIGURES = "*No figures yet: `make reproduce` has not run this experiment.*"
BLOCK = re.compile(r"(<!-- table: ([\w-]+)/([\w-]+) -->\n)(.*?)(<!-- end of table -->)", re.S)
#: Where a module of an experiment may lie, by the package it is imported from.
FOLDERS = {"pyrdv.tools": ROOT / "src" / "pyrdv" / "tools"}
#: What only calls programs or shows what they found.
SHOWS = ("bench", "bench_report", "bench_overlap_plots", "cli")
#: Counters of a row -> the protocols of its messages.
PROTOCOLS = ("eager", "placed", "read", "write", "pipeline")


class Table(NamedTuple):
    """How the rows of an experiment become a table.

    Attributes
    ----------
    down : dict of str to callable
        Heading -> text of a row, for the columns that name it.
    cells : dict of str to callable
        Heading -> text of a row, for its figures; with `across` there is one, and its heading is
        not shown.
    across : callable or None
        Text of a row: figures of rows that `down` names alike stand in one line, a column for each
        such text.
    where : callable
        Whether a row belongs into the table.
    """

    down: dict
    cells: dict
    across: object = None
    where: object = lambda row: True


class Experiment(NamedTuple):
    """What is run, and what it is made of.

    Attributes
    ----------
    command : tuple of str
        For the shell's words, in the folder of the repository; ``{out}`` is a folder for files.
    figures : str
        The JSON file there; its ``rows`` are what tables are made of.
    programs : tuple of str
        Files that say what is measured; what they import from the same places belongs to them.
    tables : dict of str to Table
    quick : tuple of str
        Further words for a short run that shows whether it works.
    """

    command: tuple
    figures: str
    programs: tuple
    tables: dict
    quick: tuple = ("--quick",)


def programs(first):
    """The files `first` and all that they import from `FOLDERS` or from beside them, sorted."""
    found, todo = set(), [ROOT / name for name in first]
    while todo:
        path = todo.pop()
        if path in found:
            continue
        found.add(path)
        if path.suffix != ".py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            todo += [name for name in imported(path, node)
                     if name.exists() and name.stem not in SHOWS]
    return sorted(found)


def imported(path, node):
    """Where the modules may lie that a statement in the file `path` imports."""
    if isinstance(node, ast.Import):
        return [path.parent / f"{one.name}.py" for one in node.names]
    if not isinstance(node, ast.ImportFrom) or not node.module:
        return []
    if node.module in FOLDERS:
        return [FOLDERS[node.module] / f"{one.name}.py" for one in node.names]
    package, _, module = node.module.rpartition(".")
    return [FOLDERS.get(package, path.parent) / f"{module}.py"] if package in ("", *FOLDERS) else []


def definition(experiment):
    """A digest of what is measured: the command, and the programs without comments and layout."""
    digest = hashlib.sha256("\0".join((*experiment.command, experiment.figures)).encode())
    for path in programs(experiment.programs):
        text = path.read_text(encoding="utf-8")
        what = ast.dump(ast.parse(text)) if path.suffix == ".py" else text
        digest.update(f"{path.relative_to(ROOT)}\0{what}\0".encode())
    return digest.hexdigest()[:16]


def counted(rows):
    """How many messages took each protocol, by mode or way; {} where rows do not count them."""
    from pyrdv.tools import bench_counted as counting

    found = {}
    for row in rows:
        parts = row.get("counted") or {}
        if parts and not isinstance(next(iter(parts.values())), dict):
            parts = {row.get("mode") or row.get("way"): parts}
        for name, part in parts.items():
            own = found.setdefault(name, dict.fromkeys(PROTOCOLS, 0))
            for protocol, number in counting.protocols(part).items():
                own[protocol] += number
    return found


def result(experiment, content, facts):
    """What is kept of a run: its JSON `content`, and the `facts` of the machine it ran on."""
    return {
        "definition": definition(experiment),
        "command": list(experiment.command),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": facts["commit"],
        "machine": facts,
        "protocols": counted(content["rows"]),
        "refused": content.get("refused", []),
        "rows": content["rows"],
    }


def draw(table, kept):
    """The lines of a table, and one that says where its figures come from."""
    rows = [row for row in kept["rows"] if table.where(row)]
    lines, heads = {}, list(table.cells)
    if table.across:
        heads = list(dict.fromkeys(table.across(row) for row in rows))
        (show,) = table.cells.values()
    for row in rows:
        name = tuple(text(row) for text in table.down.values())
        if table.across:
            lines.setdefault(name, {})[table.across(row)] = show(row)
        else:
            lines[name] = {head: text(row) for head, text in table.cells.items()}
    out = [[*table.down, *heads], ["---"] * len(table.down) + ["---:"] * len(heads)]
    out += [[*name, *(cells.get(head, "") for head in heads)] for name, cells in lines.items()]
    machine = kept["machine"]
    took = "; ".join(f"{name}: " + ", ".join(f"{number} {protocol}"
                                             for protocol, number in found.items() if number)
                     for name, found in kept["protocols"].items())
    told = (f"*{kept['date']}, commit {(kept['commit'] or 'unknown')[:12]}, {machine['cpu']}, "
            f"{machine['cores_allowed']} cores, load {machine['load_1min']} at the start."
            + (f" Messages: {took}." if took else "") + "*")
    return [*(f"| {' | '.join(cells)} |" for cells in out), "",
            *textwrap.wrap(told, WIDTH, break_on_hyphens=False)]


class Documents:
    """The pages and the results of a folder like docs/.

    Parameters
    ----------
    folder : Path
    experiments : dict of str to Experiment
    """

    def __init__(self, folder, experiments):
        self.folder, self.experiments = Path(folder), experiments

    def file(self, name):
        """Where the results of an experiment are."""
        return self.folder / "results" / f"{name}.json"

    def kept(self, name):
        """The results of an experiment, or None."""
        path = self.file(name)
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def pages(self):
        """The pages that may have tables."""
        return [path for path in (self.folder / name for name in PAGES) if path.exists()]

    def block(self, name, table):
        """What a block holds, from the results; None without any."""
        kept = self.kept(name)
        if kept is None:
            return None
        return "\n".join(["", *draw(self.experiments[name].tables[table], kept), "", ""])

    def write(self):
        """Put the tables of all results into the pages; returns the pages that changed."""
        changed = []
        for path in self.pages():
            before = path.read_text(encoding="utf-8")

            def new(found):
                head, name, table, old, end = found.groups()
                known = name in self.experiments and table in self.experiments[name].tables
                text = self.block(name, table) if known else None
                return head + (old if text is None else text) + end

            after = BLOCK.sub(new, before)
            if after != before:
                path.write_text(after, encoding="utf-8")
                changed.append(path)
        return changed

    def complaints(self):
        """What is wrong with the tables of the pages, as lines; none if all is well."""
        found, seen = [], set()
        for path in self.pages():
            for _, name, table, text, _ in BLOCK.findall(path.read_text(encoding="utf-8")):
                seen.add(name)
                why = self._wrong(name, table, text)
                found += [f"{path.name}, table {name}/{table}: {why}"] if why else []
        found += [f"results/{path.name}: no table shows it" for path in
                  sorted((self.folder / "results").glob("*.json")) if path.stem not in seen]
        return found

    def _wrong(self, name, table, text):
        if name not in self.experiments or table not in self.experiments[name].tables:
            return "no experiment has it (benchmarks/experiments.py)"
        kept = self.kept(name)
        if kept is None:
            return None if text.strip() == NO_FIGURES or BY_HAND in text else (
                f"there are no results, and it does not say so ({BY_HAND}...)")
        if kept["definition"] != definition(self.experiments[name]):
            return (f"the experiment has changed since {kept['date']}: "
                    f"run make reproduce ARGS={name}")
        if text != self.block(name, table):
            return "it is not what the results say: run make reproduce ARGS=--tables"
        return None
