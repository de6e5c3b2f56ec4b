"""How fast are the copy kernels, beside memcpy? python benchmarks/copying.py [--json FILE]

Each kernel copies once with ordinary and once with streaming stores, plain and with the CRC32C
fused into it, in turns with memcpy. A figure is the median over the turns in GB/s (1e9 bytes); the
ratio is that to memcpy. The buffers are reused, so what fits into a cache stays there; the sizes
beyond the last level are those that streaming stores are meant for.
"""

import argparse
import json
import statistics
import time

import numpy as np

from pyrdv.engine import copying

SIZES = (4096, 12 << 10, 128 << 10, 1 << 20, 8 << 20, 64 << 20)
TURN_S = 0.01


def ways():
    """Name -> function(to, origin), memcpy first."""
    found = {"memcpy": np.copyto}
    for kernel in copying.usable():
        for streaming in (False, True):
            name = kernel + (" streaming" if streaming else "")
            found[name] = lambda to, origin, k=kernel, s=streaming: copying.copy(k, to, origin, s)
            if kernel in ("plain", "sse42"):    # the wider ones share its CRC
                found[name + " + crc"] = (
                    lambda to, origin, k=kernel, s=streaming: copying.copy_crc(k, to, origin, 0, s))
    return found


def measure(size, turns):
    """Way -> GB/s of copies of `size` bytes."""
    origin, to = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    taken = {name: [] for name in ways()}
    count = max(1, int(TURN_S / (size / 5e9 + 1e-6)))
    for _ in range(turns):
        for name, way in ways().items():
            start = time.perf_counter()
            for _ in range(count):
                way(to, origin)
            taken[name].append(count * size / (time.perf_counter() - start) / 1e9)
    return {name: statistics.median(figures) for name, figures in taken.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=9, help="turns per size (default 9)")
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")
    options = parser.parse_args()
    rows = {size: measure(size, options.turns) for size in SIZES}
    print(f"best kernel here: {copying.best()}; GB/s, and the ratio to memcpy")
    print(f"{'':22}" + "".join(f"{size >> 10:>14} K" for size in SIZES))
    for name in ways():
        cells = (f"{rows[size][name]:8.2f} ({rows[size][name] / rows[size]['memcpy']:4.2f})"
                 for size in SIZES)
        print(f"{name:22}" + "".join(f"{cell:>16}" for cell in cells))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"best": copying.best(), "GB/s": rows}, file, indent=1)


if __name__ == "__main__":
    main()
