"""How deep functions may call each other while programs nest as deep: a sum of hundreds of terms, hundreds of ``elif``."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SYNTAX = 100_000
"""Walks through syntax trees. Python's compiler has read the author's text before: its depth has a limit that suits the stack."""
TRACING = 5_000
"""Functions of the author, which may call each other without end, through frames of C: the stack suffices until Python stops."""
PASSES = 20_000
"""Walks through programs, which nest at most as deep as the front end lets them."""


class _Limits:
    """The limit is one of the process: it is the largest that any thread asks for, and Python's own when none does."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.own = 0
        self.renew_lock()
        os.register_at_fork(after_in_child=self.renew_lock)

    def renew_lock(self) -> None:
        """A thread that held the lock does not exist in a child process."""
        self.lock = threading.Lock()

    def begin(self, calls: int) -> None:
        with self.lock:
            self.own = self.own if self.asked else sys.getrecursionlimit()
            self.asked.append(calls)
            sys.setrecursionlimit(max(self.own, *self.asked))

    def end(self, calls: int) -> None:
        with self.lock:
            self.asked.remove(calls)
            sys.setrecursionlimit(max((self.own, *self.asked)))


_LIMITS = _Limits()


@contextmanager
def recursion(calls: int) -> Iterator[None]:
    """Lets functions call each other as deep inside, if Python's limit is lower."""
    _LIMITS.begin(calls)
    try:
        yield
    finally:
        _LIMITS.end(calls)
