"""A connection to SQLite that closes itself only where no fork can happen meanwhile.

SQLite's allocator has a mutex of its own. A connection without references (its thread has ended, its index was
dropped) would close itself wherever that happens, and a child that another thread forks at that moment waits for the mutex
for ever. A connection that a fork copied is kept instead: closing the copy could disturb the parent.
"""

from __future__ import annotations

import os
import sqlite3

from tilelang.cache.locks import forks

_kept: list[Connection] = []  # not referred to any more, and not closed yet or never


class Connection(sqlite3.Connection):
    """One thread's connection; :meth:`close` and ``__del__`` may run on any thread."""

    process = 0

    def __del__(self) -> None:
        if self.process != os.getpid() or not forks.native.acquire(blocking=False):
            _kept.append(self)
            return
        try:
            self.close()
        finally:
            forks.native.release()


def connect(path: str | os.PathLike[str], timeout: float) -> Connection:
    """Opens the database without implicit transactions; the caller holds :data:`forks.native`.

    Args:
        path: the database's file.
        timeout: seconds to wait for another process that writes.

    Raises:
        sqlite3.Error: the file cannot be opened.
    """
    close_unreferenced()
    connection = sqlite3.connect(path, timeout=timeout, isolation_level=None, factory=Connection, check_same_thread=False)
    connection.process = os.getpid()
    return connection


def close_unreferenced() -> None:
    """Closes what another thread's transaction kept ``__del__`` from closing; the caller holds :data:`forks.native`."""
    mine = [connection for connection in _kept if connection.process == os.getpid()]
    for connection in mine:
        _kept.remove(connection)
        connection.close()
