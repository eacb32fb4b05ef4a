"""Single flight between the threads of one process: a lock for each key that a thread is looking up or compiling."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Generator
from typing import Any

from tilelang.cache.locks.forks import Lock

_all: weakref.WeakSet[Flights] = weakref.WeakSet()


def _reset_all() -> None:
    for flights in list(_all):
        flights.reset()


os.register_at_fork(after_in_child=_reset_all)


class Flights:
    """Locks by key; a key's lock is forgotten when the last thread leaves."""

    def __init__(self) -> None:
        self._guard = Lock()
        self._locks: dict[str, list[Any]] = {}  # key -> [lock, how many threads want it]
        _all.add(self)

    def reset(self) -> None:
        """Forgets all locks: after a fork, the threads that held them do not exist."""
        self._locks = {}

    @contextlib.contextmanager
    def only_one(self, key: str) -> Generator[None]:
        """Holds the lock of ``key``."""
        with self._guard:
            slot = self._locks.setdefault(key, [threading.Lock(), 0])
            slot[1] += 1
        try:
            with slot[0]:
                yield
        finally:
            with self._guard:
                slot[1] -= 1
                if slot[1] == 0:
                    self._locks.pop(key, None)
