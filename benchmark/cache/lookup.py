"""Look-up latency at 10, 10^4 and 10^6 entries, publish rate, eviction cost, and 64 processes at once.

    python -m benchmark.cache.lookup [--entries 10 10000 1000000]

Prints one table; medians, in microseconds unless a column says otherwise.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmark.cache import filling
from tilelang.cache.entries import eviction
from tilelang.cache.kernel_cache import KernelCache
from tilelang.cache.keys.source_key import SourceKey

ROUNDS = 200


def median_us(work: Callable[[int], object], numbers: list[int]) -> float:
    """Median time of ``work(number)`` over ``ROUNDS`` calls."""
    for number in numbers[:20]:
        work(number)
    times = []
    for n in range(ROUNDS):
        started = time.perf_counter()
        work(numbers[n % len(numbers)])
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1e6


def never() -> None:
    """What a hit must not call."""
    raise AssertionError("a hit compiled")


def measure(root: Path, count: int) -> dict[str, float]:
    """All figures at ``count`` entries."""
    numbers = filling.fill(root, count)
    cache = KernelCache(root)
    links = {number: SourceKey(filling.source_key(number)) for number in numbers}
    keys = {number: filling.key(number) for number in numbers}

    def by_kernel_key(number: int) -> None:
        cache.forget()
        assert cache.lookup_or_compile(keys[number], never).origin == "disk"

    def by_source_key(number: int) -> None:
        cache.forget()
        assert cache.lookup_source(links[number]) is not None

    found = {"disk_by_source_key": median_us(by_source_key, numbers), "disk_by_kernel_key": median_us(by_kernel_key, numbers)}
    cache.lookup_or_compile(keys[numbers[0]], never)
    found["memory"] = median_us(lambda _: cache.lookup_or_compile(keys[numbers[0]], never), numbers)
    found["publish"], found["publish_cpu"] = publish(cache, count)
    found["evict_100"] = evict(cache)
    return found


def publish(cache: KernelCache, count: int) -> tuple[float, float]:
    """Median wall time and mean processor time to publish one entry: five files flushed, a row, a link."""
    made = filling.artifact()
    cache.disk.index.totals()
    started, first = time.process_time(), publish_number()
    wall = median_us(lambda _: cache.lookup_or_compile(filling.key(count + publish_number()), lambda: made), [0])
    return wall, (time.process_time() - started) / (publish_number() - first - 1) * 1e6


_published = iter(range(1 << 40))


def publish_number() -> int:
    """A number that was not used before."""
    return next(_published)


def evict(cache: KernelCache) -> float:
    """Time per entry of evicting a hundred."""
    cache.forget()
    cache.disk.release_leases()
    started = time.perf_counter()
    found = eviction.evict(cache.root, cache.disk.index, 100 * 20_000, grace=0)
    return (time.perf_counter() - started) / max(found.entries, 1) * 1e6


def _worker(arguments: tuple[str, int]) -> int:
    root, first = arguments
    cache = KernelCache(root)
    made = filling.artifact()
    compiled = 0
    for n in range(32):
        entry = cache.lookup_or_compile(filling.key(10_000_000 + (first + n) % 64), lambda: made)
        compiled += entry.origin == "compiled"
    return compiled


def processes(root: Path, count: int = 64) -> tuple[float, int]:
    """(seconds, compilations) of ``count`` processes that ask for 32 kernels each, 64 different ones in all."""
    started = time.perf_counter()
    with multiprocessing.get_context("fork").Pool(count) as pool:
        compiled = sum(pool.map(_worker, [(str(root), n) for n in range(count)], chunksize=1))
    return time.perf_counter() - started, compiled


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, nargs="+", default=[10, 10_000, 1_000_000])
    parser.add_argument("--root", type=Path, default=None, help="where to make the caches (default: a temporary directory)")
    options = parser.parse_args()
    os.environ["TILELANG_CACHE_MAX_SIZE"] = "0"
    rows = {}
    for count in options.entries:
        root = Path(tempfile.mkdtemp(prefix="tilelang-bench-", dir=options.root))
        try:
            rows[count] = measure(root, count)
        finally:
            # A million directories take a while; nothing that follows has to wait for it.
            subprocess.Popen(["rm", "-rf", str(root)])
        names = list(rows[count])
        if len(rows) == 1:
            print(f"{'entries':>9} " + " ".join(f"{name + ' µs':>22}" for name in names))
        print(f"{count:>9} " + " ".join(f"{rows[count][name]:>22.1f}" for name in names), flush=True)
    if len(rows) > 1:
        first, last = rows[min(rows)], rows[max(rows)]
        print(f"{'ratio':>9} " + " ".join(f"{last[name] / first[name]:>22.2f}" for name in names))
    root = Path(tempfile.mkdtemp(prefix="tilelang-bench-", dir=options.root))
    seconds, compiled = processes(root)
    shutil.rmtree(root, ignore_errors=True)
    print(f"64 processes, 64 kernels, 2048 requests: {seconds:.2f} s, {compiled} compilations")


if __name__ == "__main__":
    main()
