"""Pictures of ``pyrdv bench overlap``, ``progress``, ``exchange`` and ``overhead``.

Their shapes are those of figures 13, 14, 16 and 19 of the paper named in `bench_speculation`.
"""

from pyrdv.tools import bench_overlap as overlap, bench_report as report
from pyrdv.tools.bench_yardstick import POSTS, TARGET


def plot(path, content, plt):
    """Draw the rows of `content` into the PNG file `path`."""
    draw = {"overlap": _overlap, "progress": _progress, "exchange": _exchange,
            "overhead": _overhead}[content["benchmark"]]
    figure = draw(content, plt)
    facts = content["machine"]
    figure.suptitle(f"pyrdv {facts['pyrdv']}: {content['benchmark']} over {content['fabric']}")
    figure.text(1, 0, f"{facts['cpu']}, {facts['cores']} cores, Linux {facts['kernel']} ",
                ha="right", va="top", fontsize=7, color="0.4")
    report.write_picture(path, figure)
    plt.close(figure)


def _grid(plt, lines, columns):
    return plt.subplots(lines, columns, figsize=(5.2 * columns, 3.8 * lines), dpi=110,
                        squeeze=False, layout="constrained")


def _lines(axes, content, rows, across, up, scale=1.0):
    """One line per mode of `up` over `across`."""
    for mode in content["modes"]:
        part = sorted((row[across] * scale, row[up]) for row in rows if row["mode"] == mode)
        if part:
            axes.plot(*zip(*part, strict=True), marker="o", markersize=4, label=mode)
    axes.grid(True, alpha=0.4)


def _sizes(axes, rows):
    sizes = sorted({row["size"] for row in rows})
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [report.size_text(size) for size in sizes], rotation=45, ha="right")
    axes.set_xlabel("message size")


def _overlap(content, plt):
    figure, grid = _grid(plt, 2, 4)
    for column, (first, side) in enumerate(overlap.SCENES):
        rows = [row for row in content["rows"] if (row["first"], row["side"]) == (first, side)]
        for axes, name, text in zip((grid[0][column], grid[1][column]), ("hidden", "end_to_end"),
                                    ("hidden share", "end to end"), strict=True):
            _lines(axes, content, rows, "size", name)
            _sizes(axes, rows)
            axes.set_ylim(-0.05, 1.05)
            axes.set_ylabel(text)
        ceiling = sorted((one["size"], one["end_to_end"]) for one in content["ceilings"]
                         if one["role"] == (TARGET if side == first else POSTS))
        if ceiling:
            grid[1][column].plot(*zip(*ceiling, strict=True), "k--", label="plain RDMA write")
        grid[0][column].set_title(overlap.scenes_text(first, side))
        grid[1][column].legend(fontsize=8)
    return figure


def _progress(content, plt):
    sizes = sorted({row["size"] for row in content["rows"]})
    figure, grid = _grid(plt, 2 * len(sizes), 4)
    for line, size in enumerate(sizes):
        for column, (first, side) in enumerate(overlap.SCENES):
            rows = [row for row in content["rows"]
                    if (row["size"], row["first"], row["side"]) == (size, first, side)]
            own = [{**row, "latency": row["latency"] * 1e3, "peer": row["peer"] * 1e3}
                   for row in rows]
            for axes, name, text in zip(
                    (grid[2 * line][column], grid[2 * line + 1][column]), ("latency", "peer"),
                    (f"latency of the {side}, ms", "the other side is done, ms"), strict=True):
                _lines(axes, content, own, "delay", name, 1e3)
                axes.set_xlabel(f"computation of the {side}, ms")
                axes.set_ylabel(text)
                axes.set_ylim(bottom=0)
            grid[2 * line][column].set_title(
                f"{report.size_text(size)}, {overlap.scenes_text(first, side)}")
            grid[2 * line][column].legend(fontsize=8)
    return figure


def _exchange(content, plt):
    models = sorted({row["model"] for row in content["rows"]})
    kinds = sorted({(row["size"], row["neighbours"]) for row in content["rows"]})
    figure, grid = _grid(plt, len(kinds), len(models))
    for line, (size, neighbours) in enumerate(kinds):
        for column, model in enumerate(models):
            axes = grid[line][column]
            rows = [{**row, "improvement": 100 * row["improvement"]} for row in content["rows"]
                    if (row["size"], row["neighbours"], row["model"]) == (size, neighbours, model)]
            _lines(axes, content, rows, "ratio", "improvement")
            axes.set_xscale("log")
            ticks = sorted({row["ratio"] for row in rows})
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.set_xlabel("communication / computation")
            axes.set_ylabel("iteration shorter, %")
            axes.set_title(f"model {model}, {report.size_text(size)}, {neighbours} neighbours")
            axes.legend(fontsize=8)
    return figure


def _overhead(content, plt):
    patterns = list(dict.fromkeys(row["pattern"] for row in content["rows"]))
    figure, grid = _grid(plt, 2, max(len(patterns), 1))
    for column, pattern in enumerate(patterns):
        rows = [{**row, "beyond": 100 * row["beyond"], "volume": 100 * row["volume"]}
                for row in content["rows"] if row["pattern"] == pattern]
        for axes, name, text in zip((grid[0][column], grid[1][column]), ("beyond", "volume"),
                                    ("time beyond the first mode, %", "extra volume, %"),
                                    strict=True):
            _lines(axes, content, rows, "size", name)
            _sizes(axes, rows)
            axes.set_ylabel(text)
        grid[0][column].set_title(pattern)
        grid[0][column].legend(fontsize=8)
    return figure
