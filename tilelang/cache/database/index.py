"""The index as a compiling process uses it: a few statements on ``<root>/index.db``, no SQLAlchemy.

The directories are authoritative and the index can be rebuilt from them, so that nothing here may fail a compile: a corrupt
database is moved aside and rebuilt from the manifests, one from a newer version of the package is not touched, one that cannot
be written to is not used, with a warning, and one that another process has locked is waited for once, for two seconds, and then
not used for a while.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tilelang.cache import warn
from tilelang.cache.database import journal, statements
from tilelang.cache.database.connection import connect
from tilelang.cache.entries import sources, store
from tilelang.cache.locks import forks, lease
from tilelang.cache.places import filesystem, plain_files

FILE_NAME = "index.db"
BUSY_SECONDS = 2.0
"""The longest wait for another process that writes."""
LEFT_OUT_SECONDS = 30.0
"""How long the index is left out after such a wait."""
_CORRUPT = (
    "malformed",
    "not a database",
    "file is encrypted",
    "no such table",
    "no such column",
    "disk image",
)
_NEIGHBOURS = 4
_left_out_until: dict[Path, float] = {}
"""Database -> when it is tried again: one wait for a locked one, however many caches of this process are over it."""
Result = TypeVar("Result")


class NewerSchema(Exception):
    """The database was written by a newer version of the package."""


class Index:
    """The index of the cache at ``root``; may be used from any thread and after a fork.

    Args:
        root: the cache's directory.
        file: the database, where it is not ``<root>/index.db``: for a cache that cannot be written to.
    """

    def __init__(self, root: Path, file: Path | None = None):
        self.root = root
        self.path = file or root / FILE_NAME
        self._local = threading.local()

    # -- updates by a compiling process -----------------------------------------------------------------------------

    def published(self, manifest: Mapping[str, Any]) -> None:
        """Adds the row of a new entry and takes the journal over."""

        def write(connection: sqlite3.Connection) -> None:
            _put_kernel(connection, manifest)
            self._take_journal(connection)

        self._transact(write)

    def published_all(self, manifests: Iterable[Mapping[str, Any]]) -> None:
        """Adds the rows of many entries at once."""

        def write(connection: sqlite3.Connection) -> None:
            for manifest in manifests:
                _put_kernel(connection, manifest)

        self._transact(write)

    def linked(self, source_key: str, kernel_key: str, function: str) -> None:
        """Links a source key to a kernel that was there already.

        Args:
            source_key: of the call.
            kernel_key: of the kernel that it leads to.
            function: the factory's name, which lists of kernels show.
        """
        self._transact(lambda connection: _put_source(connection, source_key, kernel_key, function))

    def take_journal(self) -> None:
        """Adds the hits that wait in the journal."""
        self._transact(self._take_journal)

    def dropped(self, *keys: str) -> None:
        """Removes the rows of entries whose directories are gone, and the links that lead to them."""

        def write(connection: sqlite3.Connection) -> None:
            for key in keys:
                drop(connection, key)

        def drop(connection: sqlite3.Connection, key: str) -> None:
            for (source_key,) in connection.execute(statements.SOURCES_OF, {"key": key}).fetchall():
                sources.forget(self.root, source_key)
            found = connection.execute(statements.BYTES_OF, {"key": key}).fetchone()
            if found is not None:
                connection.execute(statements.ADD_TOTALS, {"more_bytes": -found[0], "more_entries": -1})
            for statement in (statements.DROP_SOURCES, statements.DROP_FILES, statements.DROP_KERNEL):
                connection.execute(statement, {"key": key})

        self._transact(write)

    # -- queries ----------------------------------------------------------------------------------------------------

    def totals(self) -> tuple[int, int]:
        """(bytes, entries) of the cache."""
        rows = self._query(statements.TOTALS, {})
        return rows[0] if rows else (0, 0)

    def listed(self) -> list[str]:
        """The keys that have a row."""
        return [key for (key,) in self._query(statements.KEYS, {})]

    def least_used(self, count: int, start: int = 0) -> list[tuple[str, int, float]]:
        """(key, bytes, last use) of the ``count`` entries that were not used for longest, pinned ones left out."""
        return self._query(statements.LEAST_USED, {"pin": False, "count": count, "start": start})

    def nearest(self, name: str, inputs: Mapping[str, str]) -> tuple[str, list[str]] | None:
        """The newest entries' key of the same name that differs least from ``inputs``, and the inputs that differ."""
        rows = self._query(statements.SAME_NAME, {"program_name": name, "count": _NEIGHBOURS, "start": 0})
        candidates = [(key, differing(json.loads(theirs), inputs)) for key, theirs in rows]
        return min(candidates, key=lambda candidate: len(candidate[1]), default=None)

    # -- tuning -----------------------------------------------------------------------------------------------------

    def put_trial(self, row: Mapping[str, Any]) -> None:
        """Adds or replaces one tuning result (columns of ``trials``)."""
        self._transact(lambda connection: connection.execute(statements.PUT_TRIAL, dict(row)))

    def trials(self, task: str) -> list[tuple[Any, ...]]:
        """(config digest, values, state, seconds, detail, kernel key) of a tuning task."""
        return self._query(statements.TRIALS, {"of_task": task})

    def count(self, event: str, times: int) -> None:
        """Adds to one of :data:`journal.EVENTS`."""
        self._transact(lambda connection: connection.execute(statements.ADD_COUNT, {"name": event, "count": times}))

    def counts(self) -> dict[str, int]:
        """How often each event happened, and under ``since`` when counting began (seconds since 1970)."""
        return dict(self._query(statements.COUNTS, {}))

    def zero(self) -> None:
        """Sets the counts to zero."""

        def write(connection: sqlite3.Connection) -> None:
            journal.take(self.root)
            connection.execute(statements.DROP_COUNTS)
            connection.execute(statements.SET_COUNT, {"name": "since", "count": int(time.time())})

        self._transact(write)

    def set_space(self, keys: Iterable[str], space: int) -> None:
        """Marks kernels as found by a search: 1, or 2 where the search was for given sizes."""
        rows = [{"key": key, "searched": space} for key in keys]
        self._transact(lambda connection: connection.executemany(statements.SET_SPACE, rows))

    def put_dispatch(self, row: Mapping[str, Any]) -> None:
        """Adds or replaces one row of a dispatch table (columns of ``dispatch``)."""
        self._transact(lambda connection: connection.execute(statements.PUT_DISPATCH, dict(row)))

    def dispatch(self, task: str) -> list[tuple[Any, ...]]:
        """(sizes, kernel key, config, seconds) of a task's dispatch table."""
        return self._query(statements.DISPATCH, {"of_task": task})

    # -- the database -----------------------------------------------------------------------------------------------

    def rebuild(self, progress: Callable[[Iterator[str]], Iterator[str]] = lambda keys: keys) -> int:
        """Makes the rows of all entries from their manifests; returns how many. Bad entries get none."""
        count = 0

        def write(connection: sqlite3.Connection) -> None:
            nonlocal count
            count = self._fill(connection, progress(store.keys(self.root)))

        self._transact(write)
        return count

    def close(self) -> None:
        """Closes this thread's connection."""
        with forks.native:
            connection = self._local.__dict__.pop("connection", None)
            if connection is not None and connection[0] == os.getpid():
                connection[1].close()

    def _transact(self, work: Callable[[sqlite3.Connection], Any]) -> None:
        def run() -> None:
            connection = self._connection()
            # The write lock at once: a read lock that has to be upgraded fails without a wait where another process has written.
            connection.execute("BEGIN IMMEDIATE")
            try:
                work(connection)
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

        self._guarded(run, None)

    def _query(self, statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        return self._guarded(lambda: self._connection().execute(statement, values).fetchall(), [])

    def _guarded(self, work: Callable[[], Result], otherwise: Result) -> Result:
        try:
            with forks.native:  # only one thread waits for a locked database, and the others hear of it
                if time.monotonic() < _left_out_until.get(self.path, 0.0):
                    return otherwise
                try:
                    return self._repaired(work)
                except (sqlite3.OperationalError, lease.NotReleased):
                    _left_out_until[self.path] = time.monotonic() + LEFT_OUT_SECONDS
                    raise
        except NewerSchema as error:
            warn.once(
                "newer schema",
                f"the index {self.path} is left alone: {error}; the entries themselves are used",
            )
        except Exception as error:  # of SQLite, SQLAlchemy, the disk, or rows that hold nonsense
            warn.once("index", f"the index {self.path} is left out: {warn.describe(error)}; the entries themselves are used")
        return otherwise

    def _repaired(self, work: Callable[[], Result]) -> Result:
        """``work()``, once more on a new database where this one is corrupt."""
        try:
            return work()
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            # SQLite quotes damaged schemas in its messages, which then may not even be text: Python 3.10 leaves them out.
            message = str(error) if isinstance(error, sqlite3.Error) else ""
            if message and not any(sign in message for sign in _CORRUPT):
                raise
            self._replace_corrupt(error)
            return work()

    def _connection(self) -> sqlite3.Connection:
        pid, connection = getattr(self._local, "connection", (0, None))
        # SQLite's documentation, "How To Corrupt": a connection must not be used in a child of fork, nor closed there. It is left
        # as it is.
        if pid != os.getpid():
            connection = None
        # A file that was removed or replaced would still be written to through the old connection.
        if connection is None or not self._is_current():
            self.close()
            connection = self._open()
            found = os.stat(self.path)
            self._local.connection = (os.getpid(), connection)
            self._local.identity = (found.st_ino, found.st_dev)
        return connection

    def _is_current(self) -> bool:
        try:
            found = os.stat(self.path)
        except OSError:
            return False
        return (found.st_ino, found.st_dev) == self._local.identity

    def _open(self) -> sqlite3.Connection:
        _refuse_other_kinds(self.path)
        connection = connect(self.path, BUSY_SECONDS)
        try:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version > statements.VERSION:
                raise NewerSchema(f"its schema is version {version}, this package knows {statements.VERSION}")
            # Write-ahead logging shares memory between processes, which hosts on a network file system cannot.
            mode = "DELETE" if filesystem.is_network(self.root) else "WAL"
            connection.execute(f"PRAGMA journal_mode={mode}")
            connection.execute("PRAGMA synchronous=NORMAL")
            if version < statements.VERSION:
                self._bring_up(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _bring_up(self, connection: sqlite3.Connection) -> None:
        """Creates the tables and fills them from the directories, or migrates an older schema; one process at a time."""
        with lease.exclusive(self.path.parent / "locks" / "index.lock", BUSY_SECONDS):
            # Asked again: another process may have done this while the lock was waited for.
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version == statements.VERSION:
                return
            if version:
                from tilelang.cache.database import migrations  # SQLAlchemy: only when an old database is met

                migrations.run(connection)
                return
            connection.execute("BEGIN IMMEDIATE")
            try:
                for statement in statements.CREATE:
                    connection.execute(statement)
                self._fill(connection, store.keys(self.root))
                connection.execute(f"PRAGMA user_version={statements.VERSION}")
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def _fill(self, connection: sqlite3.Connection, keys: Iterator[str]) -> int:
        count = 0
        for key in keys:
            with contextlib.suppress(store.BadEntry, OSError):
                _put_kernel(connection, store.read_manifest(store.entry_path(self.root, key)))
                count += 1
        for source_key, kernel_key in sources.links(self.root):
            _put_source(connection, source_key, kernel_key, "")
        return count

    def _replace_corrupt(self, error: Exception) -> None:
        self.close()
        shelter = self.root / "quarantine"
        shelter.mkdir(mode=0o700, exist_ok=True)
        stamp = f"{os.getpid()}.{os.urandom(4).hex()}"
        # The log before the database: beside a new database, SQLite would replay it.
        for suffix in ("-wal", "-shm", ""):
            with contextlib.suppress(FileNotFoundError):
                os.rename(f"{self.path}{suffix}", shelter / f"{FILE_NAME}{suffix}.{stamp}")
        warn.once("corrupt index", f"the index {self.path} was corrupt ({error}); it was rebuilt from the entries")

    def _take_journal(self, connection: sqlite3.Connection) -> None:
        taken = journal.take(self.root)
        for use in taken.uses:
            values = {"key": use.key, "more_hits": use.hits, "used_at": use.last_used}
            connection.execute(statements.NOTE_USE, values)
        for event, times in taken.events.items():
            connection.execute(statements.ADD_COUNT, {"name": event, "count": times})


def differing(theirs: Mapping[str, str], ours: Mapping[str, str]) -> list[str]:
    """Names of the inputs that differ, or that only one side has."""
    return sorted(name for name in {*theirs, *ours} if theirs.get(name) != ours.get(name))


def _refuse_other_kinds(path: Path) -> None:
    """SQLite would wait for ever on a pipe."""
    for suffix in ("", "-wal", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(os.lstat(f"{path}{suffix}").st_mode):
                raise plain_files.NotAPlainFile(f"{path}{suffix}")


def _put_kernel(connection: sqlite3.Connection, manifest: Mapping[str, Any]) -> None:
    key = manifest["key"]
    total = sum(size for size, _ in manifest["files"].values())
    before = connection.execute(statements.BYTES_OF, {"key": key}).fetchone()
    connection.execute(statements.PUT_KERNEL, _row(manifest, total))
    connection.execute(statements.DROP_FILES, {"key": key})
    connection.executemany(
        statements.PUT_FILE,
        [{"key": key, "name": name, "bytes": size, "sha256": checksum} for name, (size, checksum) in manifest["files"].items()],
    )
    more = {"more_bytes": total - (before[0] if before else 0), "more_entries": 0 if before else 1}
    connection.execute(statements.ADD_TOTALS, more)


def _row(manifest: Mapping[str, Any], total: int) -> dict[str, Any]:
    return {
        "key": manifest["key"],
        "name": manifest.get("name", ""),
        "target": manifest.get("target", ""),
        "arch": manifest.get("arch", ""),
        "backend": manifest.get("backend", ""),
        "space": manifest.get("space", 0),
        "bytes": total,
        "created": manifest.get("created", 0.0),
        "compile_seconds": manifest.get("compile_seconds", 0.0),
        "hits": 0,
        "last_used": manifest.get("created", 0.0),
        "pinned": False,
        "inputs": json.dumps(manifest.get("inputs", {}), sort_keys=True),
        "reason": manifest.get("reason", ""),
        "shortcut": manifest.get("shortcut", ""),
    }


def _put_source(connection: sqlite3.Connection, source_key: str, kernel_key: str, function: str) -> None:
    values = {
        "source_key": source_key,
        "kernel_key": kernel_key,
        "function": function,
        "recorded": time.time(),
    }
    connection.execute(statements.PUT_SOURCE, values)
