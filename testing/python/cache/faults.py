"""Making the n-th call fail that touches a directory: of the system, and of the database."""

from __future__ import annotations

import builtins
import errno
import fcntl
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CALLS = {
    os: (
        "open read pread write close fsync truncate stat lstat fstat access mkdir rmdir rename replace unlink remove symlink "
        "readlink chmod listdir scandir"
    ).split(),
    fcntl: ["flock"],
    builtins: ["open"],
}
NUMBERS = (errno.EIO, errno.ENOSPC, errno.EACCES, errno.EMFILE, errno.ENOENT, errno.EROFS)
_readlink = os.readlink
_close = os.close


class Faults:
    """Counts calls on ``root``; those from ``first`` on fail, all of them or ``only_one``.

    Attributes:
        seen: the names of the calls so far.
    """

    def __init__(self, root: Path, first: int | None = None, only_one: bool = True):
        self.root, self.first, self.only_one = str(root), first, only_one
        self.seen: list[str] = []

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Replaces the calls."""
        for module, names in CALLS.items():
            for name in names:
                monkeypatch.setattr(module, name, self._wrapped(name, getattr(module, name)))
        connect = sqlite3.connect
        monkeypatch.setattr(sqlite3, "connect", lambda *args, **options: self._connected(connect, *args, **options))

    def _fails(self, name: str) -> bool:
        number = len(self.seen)
        self.seen.append(name)
        return self.first is not None and (number == self.first if self.only_one else number >= self.first)

    def _wrapped(self, name: str, real: Callable) -> Callable:
        def call(*args: Any, **options: Any) -> Any:
            if not self._touches(args[:2] if name in ("rename", "replace") else args[:1]):
                return real(*args, **options)
            if self._fails(name):
                if name == "close":
                    _close(*args)  # Linux closes the file whatever it answers
                number = NUMBERS[len(self.seen) % len(NUMBERS)]
                raise OSError(number, os.strerror(number), str(args[0]))
            return None if name == "fsync" else real(*args, **options)

        return call

    def _touches(self, places: tuple) -> bool:
        return any(self._path(place).startswith(self.root) for place in places)

    def _path(self, place: Any) -> str:
        if isinstance(place, int):
            try:
                return _readlink(f"/proc/self/fd/{place}")
            except OSError:
                return ""
        return os.fsdecode(place) if isinstance(place, (str, bytes, os.PathLike)) else ""

    def _connected(self, connect: Callable, *args: Any, factory: type = sqlite3.Connection, **options: Any) -> sqlite3.Connection:
        if self._fails("sqlite3.connect"):
            raise sqlite3.OperationalError("unable to open database file")
        return connect(*args, factory=self._failing(factory), **options)

    def _failing(self, kind: Any) -> type[sqlite3.Connection]:
        faults = self

        class Connection(kind):
            """A connection whose statements fail."""

            def execute(self, *args: Any) -> sqlite3.Cursor:
                if faults._fails("sqlite3.execute"):
                    raise sqlite3.OperationalError("disk I/O error")
                return super().execute(*args)

        return Connection
