"""Pictures of ``pyrdv bench parasite``, in the shapes of the paper's figures 2 to 5."""

from pyrdv.tools import bench_report as report


def plot(path, content, plt):
    """Draw each part of `content` that is there into the PNG file `path`."""
    parts = {name: [row for row in content["rows"] if row["part"] == name] for name in DRAWN}
    parts = {name: rows for name, rows in parts.items() if rows}
    facts = content["machine"]
    figure, grid = plt.subplots(len(parts) or 1, 1, figsize=(8, 3.6 * max(len(parts), 1)), dpi=110,
                                squeeze=False, layout="constrained")
    for axes, (name, rows) in zip(grid[:, 0], parts.items(), strict=False):
        across, key, scale, text = DRAWN[name]
        _bars(axes, content, rows, across, lambda row, key=key, scale=scale: scale * row[key])
        axes.set_ylabel(text)
        axes.set_title(name)
    figure.suptitle(f"pyrdv {facts['pyrdv']}: progress between calls over {content['fabric']}")
    figure.text(1, 0, f"{facts['cpu']}, {facts['cores']} cores, Linux {facts['kernel']} ",
                ha="right", va="top", fontsize=7, color="0.4")
    report.write_picture(path, figure)
    plt.close(figure)


def _named(*keys):
    """What a group of bars is called: the values of a row, sizes as text."""
    return lambda row: ", ".join(report.size_text(row[key]) if key == "size" else str(row[key])
                                 for key in keys)


#: By part: what names a group of bars, the figure, its scale and unit.
DRAWN = {
    "latency": (_named("scenario", "size"), "added", 1e6, "latency added, µs"),
    "progress": (_named("delay_text", "size"), "latency", 1e3, "latency with the work, ms"),
    "overlap": (_named("size"), "hidden", 100, "hidden, %"),
    "any": (_named("first", "side", "size"), "hidden", 100, "hidden, any source, %"),
    "lu": (_named("kernel"), "run_change", 100, "run longer by, %"),
    "applications": (_named("kernel"), "change", 100, "waits longer by, %"),
    "memory": (lambda row: "", "beyond", 1, "resident memory, KiB"),
}


def _bars(axes, content, rows, named, value):
    groups = list(dict.fromkeys(map(named, rows)))
    modes = list(content["modes"])
    for number, mode in enumerate(modes):
        part = {named(row): value(row) for row in rows if row["mode"] == mode}
        places = [groups.index(name) + (number + 0.5) / (len(modes) + 1) - 0.5 for name in part]
        axes.bar(places, part.values(), 0.9 / (len(modes) + 1), label=mode)
    axes.set_xticks(range(len(groups)), groups, rotation=20, ha="right", fontsize=7)
    axes.grid(True, axis="y", alpha=0.4)
    axes.legend(fontsize=7)
