"""Runs many programs on all cores. Failures are shrunk, and one program is reported for each kind of failure."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from multiprocessing.connection import wait
from pathlib import Path

from testing.fuzz.coverage import Coverage
from testing.fuzz.outcome import BAD, CRASH, DIFFERENT, Outcome
from testing.fuzz.worker import Answer, Task, Worker

DIFFERENCES = 10
"""How many programs with different values are shrunk for each target: their signatures do not tell causes apart."""

PATIENCE = 600.0
"""Seconds after which a process is taken to hang."""

SLOW = 10.0
"""Seconds of processor time after which a program is named: a compiler that takes long is a failure, too."""

MOST_TASKS = 400
"""Tasks of one process: libraries of kernels are never unloaded."""

Say = Callable[[str], None]


class Campaign:
    """A run over seeds.

    Attributes:
        counts: outcomes by target and status.
        known: signatures of failures, with the seeds.
        seconds: processor time of the programs, without that of shrinking.
    """

    def __init__(
        self,
        targets: Sequence[str],
        folder: Path | None,
        say: Say,
        steered: bool = True,
        avoid: Sequence[str] = (),
        whole: bool = False,
    ):
        self.targets, self.folder, self.say = tuple(targets), folder, say
        self.steered, self.avoid, self.whole = steered, tuple(avoid), whole
        self.coverage = Coverage()
        self.counts: Counter[tuple[str, str]] = Counter()
        self.known: dict[tuple[str, str], list[int]] = {}
        self.waiting: list[Task] = []
        self.programs = 0
        self.seconds = 0.0

    def run(self, seeds: Iterator[int], workers: int, until: float) -> bool:
        """Runs until the seeds or the time end. Gives whether all programs were right."""
        crew = [Worker() for _ in range(workers)]
        try:
            while self._feed(crew, seeds, until):
                self._hear(crew)
        finally:
            for worker in crew:
                worker.stop()
        return not self.known

    def _feed(self, crew: list[Worker], seeds: Iterator[int], until: float) -> bool:
        """Gives every idle worker a task; whether any has one."""
        now = time.monotonic()
        for number, worker in enumerate(crew):
            if worker.task is None and now < until:
                task = self.waiting.pop() if self.waiting else self._next(seeds)
                if task is not None:
                    if worker.given == MOST_TASKS:
                        worker.stop()
                        worker = crew[number] = Worker()
                    worker.give(task, now)
        return any(worker.task is not None for worker in crew)

    def _next(self, seeds: Iterator[int]) -> Task | None:
        seed = next(seeds, None)
        if seed is None:
            return None
        aim = self.coverage.aim() if self.steered and seed % 2 else None
        return Task(seed, aim, self.targets, avoid=self.avoid, whole=self.whole)

    def _hear(self, crew: list[Worker]) -> None:
        ready = wait([worker.connection for worker in crew if worker.task is not None], timeout=5)
        for number, worker in enumerate(crew):
            if worker.task is None:
                continue
            if worker.connection in ready:
                try:
                    answer = worker.connection.recv()
                except (EOFError, ConnectionError):
                    self._died(worker.task, "the process died")
                    crew[number] = Worker()
                    worker.stop()
                    continue
                worker.task = None
                self._take(answer)
            elif time.monotonic() - worker.since > PATIENCE:
                self._died(worker.task, "the process hangs")
                crew[number] = Worker()
                worker.stop()

    def _died(self, task: Task, how: str) -> None:
        if task.outcome is not None:
            self.say(f"seed {task.seed}: {how} while a failure on {task.target} was shrunk")
            return
        if len(task.targets) > 1:  # find out where
            self.waiting += [replace(task, targets=(target,)) for target in task.targets]
            return
        self._take(Answer(task, {task.targets[0]: Outcome(CRASH, how)}))

    def _take(self, answer: Answer) -> None:
        task = answer.task
        if answer.text:
            self._report(task, answer.text)
            return
        self.programs += 1
        self.seconds += answer.seconds
        if answer.seconds > SLOW:
            self.say(f"seed {task.seed} {task.aim or ''}: {answer.seconds:.1f} s")
        self.coverage.add(answer.pairs)
        for target, outcome in answer.outcomes.items():
            self.counts[target, outcome.status] += 1
            if outcome.status in BAD:
                self._failed(task, target, outcome)
        if self.programs % 50 == 0:
            self.say(self.summary())

    def _failed(self, task: Task, target: str, outcome: Outcome) -> None:
        family = "cuda" if target.startswith("sm_") else target
        seeds = self.known.setdefault((family, outcome.signature), [])
        seeds.append(task.seed)
        first = seeds.index(task.seed) < (DIFFERENCES if outcome.status == DIFFERENT else 1)
        if first and seeds.count(task.seed) == 1:
            self.say(f"seed {task.seed} {task.aim or ''}: {target}: {outcome.status}: {outcome.message.strip()[:400]}")
            if outcome.status != CRASH or "process" not in outcome.message:
                self.waiting.append(replace(task, target=target, outcome=outcome))

    def _report(self, task: Task, text: str) -> None:
        if self.folder is None:
            self.say(text)
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{task.seed}-{task.target}-{task.outcome.status.replace(' ', '_')}.py"
        comment = "\n".join(f"# {line}" for line in f"{task.target}: {task.outcome.status}: {task.outcome.message}".splitlines())
        path.write_text(f"{text}\n\n{comment}\n")
        self.say(f"the smallest program: {path}")

    def summary(self) -> str:
        """Counts and coverage."""
        each = self.seconds / max(self.programs, 1)
        drawn = "whole kernels rewritten" if self.whole else self.coverage.summary()
        lines = [f"{self.programs} programs, {each:.2f} s of processor time each; {drawn}"]
        for target in self.targets:
            found = {status: count for (of, status), count in sorted(self.counts.items()) if of == target}
            lines.append(f"  {target}: " + ", ".join(f"{count} {status}" for status, count in found.items()))
        return "\n".join(lines)
