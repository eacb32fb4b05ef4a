"""A process that generates and runs programs. A program that crashes its process does not end the campaign."""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
import tempfile
import threading
import warnings
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from testing.fuzz.outcome import Outcome


@dataclass(frozen=True)
class Task:
    """What a worker does next.

    Attributes:
        seed, aim: arguments of the generator.
        targets: the targets to run the program on.
        target, outcome: the failure to shrink; None for a plain run.
        avoid: constructs that are not generated.
        whole: rewrite a whole kernel that somebody wrote, in place of drawing a program.
    """

    seed: int
    aim: tuple[str, str] | None
    targets: tuple[str, ...]
    target: str | None = None
    outcome: Outcome | None = None
    avoid: tuple[str, ...] = ()
    whole: bool = False


@dataclass(frozen=True)
class Answer:
    """What came of a task: the outcome on each target and the pairs, or the text of the smallest program; processor time."""

    task: Task
    outcomes: dict[str, Outcome]
    pairs: frozenset = frozenset()
    text: str = ""
    seconds: float = 0.0


class Worker:
    """A process, the task that it is at, and a folder for its many small files: in memory if there is such a place."""

    def __init__(self) -> None:
        memory = Path("/dev/shm")
        self.folder = tempfile.mkdtemp(prefix="tilelang-fuzz-", dir=memory if os.access(memory, os.W_OK) else None)
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, self.folder), daemon=True)
        self.process.start()
        theirs.close()
        self.task: Task | None = None
        self.since = 0.0
        self.given = 0

    def give(self, task: Task, now: float) -> None:
        """Starts a task."""
        self.task, self.since = task, now
        self.given += 1
        self.connection.send(task)

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _end_with_parent() -> None:
    """Ends the process when the campaign has ended, be it killed: a program may never come to an end."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work(connection: Connection, folder: str) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["TILELANG_DISABLE_CACHE"] = "1"
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["TMPDIR"] = folder
    warnings.filterwarnings("ignore")
    from testing.fuzz.tasks import perform

    gc.collect()
    gc.freeze()  # TVM and torch stay; looking at them again and again takes 7 % of the time
    gc.set_threshold(100_000, 20, 100)
    while True:
        try:
            task: Any = connection.recv()
        except EOFError:
            return
        connection.send(perform(task))
