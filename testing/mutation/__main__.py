"""``python -m testing.mutation``: see docs/testing.md."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from testing.mutation.suite import FOLDERS, SURVIVED, UNREACHED, judge_all, right_programs, sample


def main() -> int:
    """Prints what survives, and the share that is caught of those that some program reaches."""
    parser = argparse.ArgumentParser(prog="dev.py mutate", description="changes the CUDA compiler, one line at a time")
    parser.add_argument("--count", type=int, default=50, help="how many changes")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--programs", type=int, default=200, help="random programs to choose from")
    parser.add_argument("--most", type=int, default=15, help="programs, of those that run its line, that each change meets")
    parser.add_argument("--folder", action="append", choices=FOLDERS, help="of target/cuda; may be given several times")
    options = parser.parse_args()
    programs = right_programs(options.programs)
    print(f"seeds of programs: {min(programs.lines)} to {max(programs.lines)}", flush=True)
    counts: Counter[str] = Counter()
    for verdict in judge_all(sample(options.count, options.seed, options.folder or FOLDERS), programs, options.most):
        counts[verdict.how] += 1
        mutant = verdict.mutant
        print(f"{verdict.how}: {mutant.module}:{mutant.line}: {mutant.text[:120]}", flush=True)
    reached = sum(counts.values()) - counts[UNREACHED]
    caught = reached - counts[SURVIVED]
    print(f"{caught} of {reached} changes caught ({100 * caught / max(reached, 1):.0f} %), {counts[UNREACHED]} not reached")
    print(", ".join(f"{count} {how}" for how, count in counts.most_common()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
