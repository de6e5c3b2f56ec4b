"""What surrounds measured rows: facts of the machine, the table, the JSON file, the picture."""

import datetime
import io
import json
import os
import platform
import subprocess
import sys
from importlib import metadata

from pyrdv import files

SCHEMA = "pyrdv-bench/1"


def machine_facts():
    """Return a dict of what a figure depends on: CPU, cores, kernel, versions, commit.

    Unknown facts are None. Nothing in it names the host or the user.
    """
    import numpy

    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "cores_allowed": len(os.sched_getaffinity(0)),
        "load_1min": round(os.getloadavg()[0], 2),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "numpy": numpy.__version__,
        "pyrdv": _version("pyrdv"),
        "commit": _commit(os.path.dirname(os.path.abspath(__file__))),
    }


def _cpu_model():
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.lower().startswith(("model name", "cpu model")):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _version(distribution):
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _commit(folder):
    """Return the commit of the checkout that `folder` lies in, with + when changed, or None."""
    git = ["git", "-C", folder]
    try:
        inside = subprocess.run(
            [*git, "ls-files", "--error-unmatch", __file__], capture_output=True, timeout=5
        )
        if inside.returncode != 0:
            return None
        head = subprocess.run(
            [*git, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5
        )
        changed = subprocess.run(
            [*git, "status", "--porcelain", "-uno"], capture_output=True, timeout=5
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return head.stdout.strip() + ("+" if changed.stdout else "") if head.returncode == 0 else None


def facts_line(facts):
    """Return the facts as one or two lines for the terminal."""
    commit = f", commit {facts['commit'][:12]}" if facts["commit"] else ""
    return (
        f"{facts['cpu']}, {facts['cores_allowed']} of {facts['cores']} cores, "
        f"Linux {facts['kernel']}, load {facts['load_1min']}\n"
        f"{facts['python']}, NumPy {facts['numpy']}, pyrdv {facts['pyrdv']}{commit}"
    )


def size_text(size):
    """Return 8 B, 64 KiB, 4 MiB… for a number of bytes."""
    for unit, shift in (("MiB", 20), ("KiB", 10)):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return f"{size} B"


def parse_size(text):
    """Return the bytes meant by `text`: a number, with K, M or G for powers of 1024.

    Raises
    ------
    ValueError
        For anything else, naming the text.
    """
    word = text.strip().lower().removesuffix("b").removesuffix("i").strip()
    shift = {"k": 10, "m": 20, "g": 30}.get(word[-1:], 0)
    digits = word[:-1].rstrip() if shift else word
    if not digits.isdecimal():
        raise ValueError(f"{text!r} is not a size; write for example 8, 64K or 4M")
    return int(digits) << shift


HEADER = "      size  buffers           median         p10         p90         min  unit"


def row_text(row):
    """Return one line of the table, laid out like `HEADER`."""
    figures = "  ".join(f"{row[key]:>10.3f}" for key in ("median", "p10", "p90", "min"))
    kind = row.get("buffers") or "-"
    return f"{size_text(row['size']):>10}  {kind:<12}  {figures}  {row['unit']}"


def document(benchmark, settings, rows, facts, **more):
    """Return what `write_json` writes for one benchmark."""
    now = datetime.datetime.now(datetime.UTC)
    return {
        "schema": SCHEMA,
        "benchmark": benchmark,
        "time": now.isoformat(timespec="seconds"),
        "machine": facts,
        "settings": settings,
        "rows": rows,
        **more,
    }


def write_json(path, content):
    """Write `content` to `path`, all or nothing."""
    files.write_whole(path, json.dumps(content, indent=1) + "\n")


def write_picture(path, figure):
    """Write a figure of matplotlib into the PNG file `path`, all or nothing."""
    drawn = io.BytesIO()
    figure.savefig(drawn, bbox_inches="tight", format="png")
    files.write_whole(path, drawn.getvalue())


def plotting():
    """Return matplotlib.pyplot for files, or None with the reason on stderr."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError as error:
        print(
            f"pyrdv bench: no picture without matplotlib ({error}); "
            "install it with: pip install 'pyrdv[bench]'",
            file=sys.stderr,
        )
        return None
    return plt


def plot(path, content, plt):
    """Draw the rows of `content` into the PNG file `path`: median, and p10 to p90 as a band."""
    rows, facts = content["rows"], content["machine"]
    unit = rows[0]["unit"]
    kinds = sorted({row.get("buffers", "") or "" for row in rows})
    figure, axes = plt.subplots(figsize=(8, 5), dpi=120, layout="constrained")
    for kind in kinds:
        part = sorted((r for r in rows if (r.get("buffers") or "") == kind), key=_size)
        sizes = [r["size"] for r in part]
        line = axes.plot(sizes, [r["median"] for r in part], marker="o", label=kind or "median")[0]
        low, high = [r["p10"] for r in part], [r["p90"] for r in part]
        axes.fill_between(sizes, low, high, alpha=0.2, color=line.get_color())
    ticks = sorted({row["size"] for row in rows})
    axes.set_xscale("log", base=2)
    if unit == "us":
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.set_xticks(ticks, [size_text(size) for size in ticks], rotation=45, ha="right")
    axes.set_xlabel("message size")
    axes.set_ylabel({"us": "half round trip, µs", "M/s": "million messages per second"}.get(
        unit, f"bandwidth, {unit}"))
    axes.grid(True, which="major", alpha=0.4)
    axes.set_title(f"pyrdv {facts['pyrdv']}: {content['benchmark']} "
                   f"({content['settings']['ranks']} ranks)")
    axes.legend(title="buffers; band: p10 to p90" if any(kinds) else "band: p10 to p90")
    figure.text(1, 0, f"{facts['cpu']}, {facts['cores']} cores, Linux {facts['kernel']}, "
                f"{facts['python']} ", ha="right", va="top", fontsize=7, color="0.4")
    write_picture(path, figure)
    plt.close(figure)


def _size(row):
    return row["size"]
