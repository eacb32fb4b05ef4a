"""Every CPU row of docs/numbers.md, torch beside it, with what the machine allows and our share of that.

    python benchmark/cpu.py [--only attention] [--target c] [--seconds 0.4] [--threads 1]

Both sides take turns in one process. One thread is measured in processor time, so that a busy machine disturbs little, two are
measured by the clock; times are the best of each side, and the ratio of the medians stands beside the ratio of the best. The
limit of a row is measured in the run: the machine's rate of multiply-adds or dot products on registers, or how long it takes to
move the row's bytes, by a loop that takes turns with torch as the kernel did; where a row has exponentials, their rate on
registers if that is less. A share is the time of the limit over the kernel's.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from cpu_programs import attention, backward, images, limits, products, quantized, recurrence, rows
from cpu_programs.case import Case

import tilelang

FAMILIES = (products, quantized, rows, attention, backward, recurrence, images)
SAMPLE = 1e-4
"""Seconds that one sample takes at least, by repetition."""


def samples(functions: list[Callable[[], Any]], seconds: float, threads: int) -> list[list[float]]:
    """The times of each function, in seconds; they take turns for about ``seconds`` each."""
    torch.set_num_threads(threads)
    clock = time.thread_time if threads == 1 else time.perf_counter
    start = time.perf_counter()
    for function in functions:
        function()
    repetitions = max(1, int(SAMPLE * len(functions) / (time.perf_counter() - start)))
    times: list[list[float]] = [[] for _ in functions]
    end = time.perf_counter() + seconds * len(functions)
    while time.perf_counter() < end:
        for function, own in zip(functions, times):
            start = clock()
            for _ in range(repetitions):
                function()
            own.append((clock() - start) / repetitions)
    return times


def share(case: Case, seconds: float, moving: Sequence[float]) -> str:
    """The part of the row's limit that so many seconds reach.

    Args:
        case: the row.
        seconds: the kernel's time.
        moving: the times of moving the row's bytes, for a row of memory.
    """
    bounds = [(min(moving), case.amount, "B")] if moving else []
    counted = [(case.exponentials, "exponential", "exp")] if moving else [(case.amount, case.resource, "op")]
    for amount, kind, unit in counted:
        rate = limits.operations(kind) if amount else None
        bounds += [(amount / rate, amount, unit)] if rate else []
    least, amount, unit = max(bounds, default=(0.0, 0.0, ""))
    return f"{least / seconds:.0%} of {amount / least / 1e9:.0f} G{unit}/s" if least else ""


def line(case: Case, kernel: Callable[..., Any], threads: int, seconds: float) -> str:
    """One measurement as text."""
    theirs, ours = samples([case.theirs, lambda: kernel(*case.tensors)], seconds, threads)
    best = min(theirs), min(ours)
    medians = statistics.median(theirs) / statistics.median(ours)
    numbers = f"{best[0] * 1e6:>9.1f} {best[1] * 1e6:>9.1f} {best[0] / best[1]:>6.2f} {medians:>7.2f}"
    moves = limits.passes(case.resource, case.tensors) if threads == 1 else []
    moving = [min(samples([case.theirs, move], seconds, threads)[1]) for move in moves]
    reached = share(case, best[1], moving) if threads == 1 else ""
    return f"{case.name:<32} {case.size:>15} {threads:>7} {numbers}   {reached}"


def main() -> None:
    """Prints one line for each row and number of threads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="rows whose name or family has this text")
    parser.add_argument("--target", default="cpu", help="cpu (LLVM) or c")
    parser.add_argument("--seconds", type=float, default=0.4, help="for each side of each line")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2], help="numbers of threads")
    options = parser.parse_args()
    torch.manual_seed(0)
    print(f"{'operation':<32} {'size':>15} {'threads':>7} {'torch us':>9} {'ours us':>9} {'ratio':>6} {'medians':>7}   share")
    for family in FAMILIES:
        for make in family.cases():
            case = make()
            if options.only not in f"{case.name} {case.size} {family.__name__}":
                continue
            kernel = tilelang.compile(case.program, target=options.target)
            case.check(kernel)
            for threads in options.threads:
                print(line(case, kernel, threads, options.seconds).rstrip(), flush=True)


if __name__ == "__main__":
    main()
