"""``python -m testing.fuzz``: see docs/testing.md."""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import sys
import time
from pathlib import Path

from testing.fuzz import whole_kernels
from testing.fuzz.campaign import Campaign
from testing.fuzz.execute import TARGETS
from testing.fuzz.findings import Survey
from testing.fuzz.generator import draw_program


def main() -> int:
    """The exit status: 1 if a program failed."""
    parser = argparse.ArgumentParser(prog="dev.py fuzz", description="runs random programs on every target")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, help="how many seeds; as many as there is time for by default")
    parser.add_argument("--target", action="append", choices=TARGETS, help="may be given several times; all by default")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--folder", type=Path, help="where to put the smallest failing programs; they are printed by default")
    parser.add_argument("--plain", action="store_true", help="programs depend on the seed alone: no steering to new pairs")
    parser.add_argument("--avoid", action="append", default=[], help="a statement or an element type that is not drawn")
    parser.add_argument("--faults", action="store_true", help="plant faults in right programs: how many are reported, and where")
    parser.add_argument("--whole", action="store_true", help="rewrite the kernels of examples and testing/programs at random")
    parser.add_argument("--show", action="store_true", help="only print the program of --seed")
    options = parser.parse_args()
    if options.show:
        print(whole_kernels.drawn(options.seed)[1] if options.whole else draw_program(options.seed, avoid=options.avoid))
        return 0
    seeds = itertools.count(options.seed) if options.count is None else iter(range(options.seed, options.seed + options.count))
    targets, until = options.target or TARGETS, time.monotonic() + 60 * options.minutes
    say = functools.partial(print, flush=True)
    if options.faults:
        survey = Survey(targets, say)
        survey.run(seeds, lambda: time.monotonic() > until)
        print(survey.summary())
        return 1 if survey.missed else 0
    campaign = Campaign(targets, options.folder, say, not options.plain, options.avoid, options.whole)
    right = campaign.run(seeds, options.workers, until)
    print(campaign.summary())
    for (family, signature), found in campaign.known.items():
        print(f"  {len(found)} times on {family}: {signature}, seeds {found[:5]}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
