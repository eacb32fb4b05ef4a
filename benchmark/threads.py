"""What two threads gain on the rows of ``cpu.py`` that are bound by operations, by the clock, on an otherwise idle machine.

    python benchmark/threads.py [--only attention] [--seconds 0.8] [--threads 2]

One thread and several take turns, a tenth of a second each; times are the best of each, and the ratio of the medians stands
beside the ratio of the best. The machine's load is printed first: other processes take the second core away, and the ratio is
then what these leave.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from cpu import FAMILIES
from cpu_programs import limits

import tilelang

TURN = 0.1
"""Seconds of one turn."""


def times(run: Callable[[], Any], threads: int, seconds: float) -> list[float]:
    """How long calls take by the clock, with so many threads, for about ``seconds``.

    Args:
        run: the call.
        threads: how many threads it may use.
        seconds: in all; at least three calls are made.
    """
    torch.set_num_threads(threads)
    run()
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return found


def main() -> None:
    """Prints one line for each row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="rows whose name or size has this text")
    parser.add_argument("--seconds", type=float, default=0.8, help="for each row")
    parser.add_argument("--threads", type=int, default=2, help="beside one")
    options = parser.parse_args()
    torch.manual_seed(0)
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    print(f"{'operation':<32} {'size':>15} {'1 thread us':>12} {f'{options.threads} us':>10} {'ratio':>6} {'medians':>7}")
    for make in (make for family in FAMILIES for make in family.cases()):
        case = make()
        if options.only not in f"{case.name} {case.size}" or limits.operations(case.resource) is None:
            continue
        kernel = tilelang.compile(case.program, target="cpu")
        run = lambda kernel=kernel, case=case: kernel(*case.tensors)  # noqa: E731
        found: dict[int, list[float]] = {1: [], options.threads: []}
        for _ in range(max(1, round(options.seconds / (2 * TURN)))):
            for threads, own in found.items():
                own += times(run, threads, TURN)
        one, several = found.values()
        medians = statistics.median(one) / statistics.median(several)
        numbers = f"{min(one) * 1e6:>12.1f} {min(several) * 1e6:>10.1f} {min(one) / min(several):>6.2f} {medians:>7.2f}"
        print(f"{case.name:<32} {case.size:>15} {numbers}", flush=True)


if __name__ == "__main__":
    main()
