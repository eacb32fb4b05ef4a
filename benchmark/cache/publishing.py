"""Publishing at two sizes of the cache, in turns, so that what else the machine does meets both alike.

    python -m benchmark.cache.publishing [--entries 10 1000000] [--rounds 300]

Prints the medians of wall and processor time in microseconds, and the ratio of the larger cache to the smaller one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from benchmark.cache import filling
from tilelang.cache.kernel_cache import KernelCache


def publish(cache: KernelCache, number: int) -> tuple[float, float]:
    """(wall, processor) microseconds to publish the entry ``number``: five files flushed, a row, a link."""
    made = filling.artifact()
    started, processor = time.perf_counter(), time.process_time()
    cache.lookup_or_compile(filling.key(number), lambda: made)
    return (time.perf_counter() - started) * 1e6, (time.process_time() - processor) * 1e6


def main() -> None:
    """Prints a row for each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, nargs=2, default=[10, 1_000_000])
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args()
    os.environ["TILELANG_CACHE_MAX_SIZE"] = "0"
    roots = [Path(tempfile.mkdtemp(prefix="tilelang-bench-")) for _ in options.entries]
    caches = [KernelCache(root) for root in roots if filling.fill(root, options.entries[roots.index(root)])]
    times: list[list[tuple[float, float]]] = [[], []]
    for number in range(10_000_000, 10_000_000 + options.rounds):
        for cache, found in zip(caches, times):
            found.append(publish(cache, number))
    medians = [[statistics.median(column) for column in zip(*found)] for found in times]
    for count, (wall, processor) in zip(options.entries, medians):
        print(f"{count:>9} entries: {wall:8.1f} µs, {processor:8.1f} µs of processor time")
    print(f"    ratio: {medians[1][0] / medians[0][0]:.2f}, {medians[1][1] / medians[0][1]:.2f}")
    for root in roots:
        subprocess.Popen(["rm", "-rf", str(root)])  # nothing that follows has to wait for it


if __name__ == "__main__":
    main()
