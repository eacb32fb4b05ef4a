"""``python -m testing.fuzz --faults``: how many planted faults the interpreter and the simulator find, and at which line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from testing.fuzz.execute import CPU, INTERPRETER, attempt, interpreted
from testing.fuzz.faults import Fault, planted
from testing.fuzz.generator import draw_program
from testing.fuzz.judge import judge
from testing.fuzz.outcome import BAD, CRASH, FINDING, INTERNAL, RIGHT, Outcome
from testing.fuzz.statements.by_hand import CUDA

ELSEWHERE = "elsewhere"
"""A finding at a line that names nothing of the changed statement."""


def is_near(fault: Fault, outcome: Outcome) -> bool:
    """Whether a finding's line is one of the changed statement's, or names what that names."""
    shown = [line.split("|", 1)[1].strip() for line in outcome.message.splitlines() if "|" in line]
    return any(line in fault.lines or any(name in line for name in fault.names) for line in shown if line)


class Survey:
    """Counts of planted faults, by kind.

    Attributes:
        meanings: kind of fault, what the interpreter says.
        reports: kind of fault and target, for faults that the interpreter finds, what became of the program there.
        missed: a line for each fault in which the interpreter finds nothing and that a target does not agree with.
    """

    def __init__(self, targets: Sequence[str], say: Callable[[str], None]):
        self.all_targets, self.say = tuple(targets), say
        self.targets = [target for target in targets if target not in CPU]
        self.meanings: Counter[tuple[str, str]] = Counter()
        self.reports: Counter[tuple[str, str, str]] = Counter()
        self.missed: list[str] = []

    def run(self, seeds: Iterable[int], is_over: Callable[[], bool], most: int = 6) -> None:
        """Plants up to ``most`` faults in the program of each seed, until the seeds or the time end."""
        for seed in seeds:
            if is_over():
                return
            program = draw_program(seed)
            if interpreted(program)[0].status != RIGHT:
                continue
            for fault in planted(program, seed, most):
                self._judge(seed, fault)

    def _judge(self, seed: int, fault: Fault) -> None:
        meaning, func, _ = interpreted(fault.program)
        status = meaning.status
        if status == RIGHT:
            wrong = {target: found for target, found in judge(fault.program, self.all_targets).items() if found.status in BAD}
            status = "missed" if wrong else "has a meaning"
            for target, found in wrong.items():
                self._miss(seed, fault, target, found)
        elif status == FINDING and not is_near(fault, meaning):
            status = ELSEWHERE
            self.say(f"seed {seed}: {fault.kind}: another line: {sorted(fault.lines)}\n{meaning.message}")
        elif status in (CRASH, INTERNAL):
            self._miss(seed, fault, INTERPRETER, meaning)
        self.meanings[fault.kind, status] += 1
        if meaning.status == FINDING:
            self._simulate(seed, fault, func)

    def _simulate(self, seed: int, fault: Fault, func: Any) -> None:
        """What the simulator says of a program without a meaning; that it reports nothing is no fault of a compiler's."""
        for target in self.targets:
            if fault.program.needs in ("", CUDA, target):
                found, _ = attempt(fault.program, func, target)
                self.reports[fault.kind, target, "nothing" if found.status == RIGHT else found.status] += 1
                if found.status in (CRASH, INTERNAL):
                    self._miss(seed, fault, target, found)

    def _miss(self, seed: int, fault: Fault, target: str, found: Outcome) -> None:
        self.missed.append(f"seed {seed}: {fault.kind} {sorted(fault.lines)}: {target}: {found.status}: {found.message[:300]}")
        self.say(self.missed[-1])

    def summary(self) -> str:
        """A line for each kind of fault, and one for each target."""
        lines = []
        for kind in dict.fromkeys(kind for kind, _ in self.meanings):
            found = {status: count for (of, status), count in sorted(self.meanings.items()) if of == kind}
            lines.append(f"{kind}: " + ", ".join(f"{count} {status}" for status, count in found.items()))
            for target in self.targets:
                there = {status: n for (of, at, status), n in sorted(self.reports.items()) if (of, at) == (kind, target)}
                lines += (
                    ["    of those found, on " + target + ": " + ", ".join(f"{n} {s}" for s, n in there.items())] if there else []
                )
        total = Counter(status for (_, status), count in self.meanings.items() for _ in range(count))
        return "\n".join([*lines, ", ".join(f"{count} {status}" for status, count in sorted(total.items()))])
