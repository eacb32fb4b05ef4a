"""``python -m testing.mutation``: see docs/testing.md."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

from testing.mutation.modules import FOLDERS, sample
from testing.mutation.pool import right_programs
from testing.mutation.suite import SAME, SURVIVED, UNREACHED, Verdict, in_process, judge_all


def main() -> int:
    """Prints surviving mutants, and the share of caught mutants among those that a program or test reaches."""
    parser = argparse.ArgumentParser(prog="dev.py mutate", description="changes the CUDA compiler, one line at a time")
    parser.add_argument("--count", type=int, default=50, help="how many changes")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--programs", type=int, default=200, help="random programs to choose from")
    parser.add_argument("--first", type=int, default=0, help="the first of their seeds")
    parser.add_argument("--most", type=int, default=40, help="programs, of those that run its line, that each change meets")
    parser.add_argument("--folder", action="append", choices=FOLDERS, help="of target/cuda; may be given several times")
    parser.add_argument(
        "--module", action="append", default=[], help="a module of the package, in place of folders; several times"
    )
    parser.add_argument("--tests", action="append", default=[], help="tests for what programs do not catch; several times")
    options = parser.parse_args()
    pool = in_process(right_programs, options.programs, options.first, patience=None)
    if pool.lines:
        print(f"seeds of programs: {min(pool.lines)} to {max(pool.lines)}", flush=True)
    verdicts = []
    chosen = sample(options.count, options.seed, options.folder or FOLDERS, options.module)
    for verdict in judge_all(chosen, pool, options.most, options.tests):
        verdicts.append(verdict)
        print(_line(verdict), flush=True)
    print(_summary(verdicts))
    return 0


def _line(verdict: Verdict) -> str:
    mutant = verdict.mutant
    met = f"{verdict.by or 'none'} of {verdict.met} programs, {verdict.changed} with other code" if verdict.met else verdict.by
    return f"{verdict.how} ({met}): {mutant.module}:{mutant.line} [{mutant.number}]: {mutant.text[:120]}"


def _summary(verdicts: Sequence[Verdict]) -> str:
    counts = Counter(verdict.how for verdict in verdicts)
    reached = len(verdicts) - counts[UNREACHED]
    caught = reached - counts[SURVIVED] - counts[SAME]
    shares = f"{caught} of {reached} changes caught ({100 * caught / max(reached, 1):.0f} %), {counts[UNREACHED]} not reached"
    return shares + "\n" + ", ".join(f"{count} {how}" for how, count in counts.most_common())


if __name__ == "__main__":
    sys.exit(main())
