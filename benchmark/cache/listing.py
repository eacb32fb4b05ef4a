"""``tilelang cache ls`` and ``tilelang cache report`` over many kernels, as whole processes.

    python -m benchmark.cache.listing [--entries 20000] [--rounds 5]

Prints the median of wall and processor time in seconds, and the size of the page.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmark.cache import filling


def run(root: Path, *arguments: str) -> tuple[float, float]:
    """(wall, processor) seconds of a command."""
    environment = {**os.environ, "TILELANG_CACHE_DIR": str(root)}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "tilelang.cli", "cache", *arguments]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - started, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Prints a row for each command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="tilelang-bench-"))
    try:
        filling.fill(root, options.entries)
        page = root / "page.html"
        for name, arguments in (("ls", ("ls",)), ("report", ("report", str(page)))):
            times = [run(root, *arguments) for _ in range(options.rounds)]
            wall, processor = (statistics.median(column) for column in zip(*times))
            print(f"{name:>6} of {options.entries} kernels: {wall:.2f} s, {processor:.2f} s of processor time", flush=True)
        print(f"  page: {page.stat().st_size / 1e6:.2f} MB")
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
