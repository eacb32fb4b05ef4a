"""The tier that hosts share: index rows and files in one database behind ``TILELANG_CACHE_URL``.

    local directory -> shared tier (read through) -> compile, publish locally, send (write behind)

The server is never needed: every request runs on a thread of its own and is given up after
``TILELANG_CACHE_URL_TIMEOUT`` seconds; after a failure the tier is left out for a while, with one warning. What arrives is
verified like a bundle before it is used. On PostgreSQL an advisory lock, which dies with its connection, keeps two hosts
from compiling one kernel; it is held until the kernel has been sent.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import queue
import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tilelang import env
from tilelang.cache import warn
from tilelang.cache.entries import store
from tilelang.cache.entries.files import MANIFEST_PATH

RETRY_SECONDS = 30.0
PATIENCE_SECONDS = 120.0
"""The longest wait for another host that compiles the same kernel."""
_POLL_SECONDS = 0.05
_LOCK_SPACE = 0x746C  # "tl": other programs' advisory locks in the same database are not ours
_KEEPALIVE = "-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=3 -c tcp_keepalives_count=3"
Result = TypeVar("Result")


class TierDown(Exception):
    """The server did not answer in time, or refused."""


class SharedTier:
    """One database.

    Args:
        url: any SQLAlchemy URL; single flight between hosts needs PostgreSQL.
        timeout: seconds that one request may take.
    """

    def __init__(self, url: str, timeout: float):
        self.url = url
        self.timeout = timeout
        self._down_until = 0.0
        self._engine: Any = None
        self._engine_guard = threading.Lock()  # held by the one thread that may wait for the server
        self._sender_guard = threading.Lock()
        self._outbox: queue.Queue[Callable[[], None]] = queue.Queue()
        self._sender: threading.Thread | None = None

    # -- reading ----------------------------------------------------------------------------------------------------

    def find_source(self, source_key: str) -> str | None:
        """The kernel key that a source key leads to, or None."""
        return self.ask(lambda: self._find_source(source_key), None)

    def fetch(self, key: str) -> dict[str, bytes] | None:
        """The files of a kernel, not yet verified, or None."""
        return self.ask(lambda: self._fetch(key), None)

    @contextlib.contextmanager
    def flight(self, key: str) -> Generator[Flight]:
        """Looks ``key`` up and, where it is missing, keeps other hosts from compiling it as well.

        The lock goes with :meth:`Flight.send`, or at the end of the block where nothing was sent.
        """
        flight = self._take_off(key)
        try:
            yield flight
        finally:
            flight.land()

    def _take_off(self, key: str) -> Flight:
        end = time.monotonic() + PATIENCE_SECONDS
        connection = None
        while True:
            files = self.fetch(key)
            if files is not None or not self.is_up or time.monotonic() > end:
                break
            if connection is None:
                connection = self.ask(self._locking_connection, None)
                if connection is None:
                    break
            if self.ask(functools.partial(_try_lock, connection, key), False):
                # The host that held it before may just have sent the kernel.
                return Flight(self, key, self.fetch(key), connection)
            time.sleep(_POLL_SECONDS)
        if connection is not None:
            self.ask(connection.close, None)
        return Flight(self, key, files, None)

    # -- writing ----------------------------------------------------------------------------------------------------

    def send_later(self, work: Callable[[], None]) -> None:
        """Runs ``work`` in the background; what is still waiting when the process ends gets one more timeout."""
        with self._sender_guard:
            self._outbox.put(work)
            if self._sender is None or not self._sender.is_alive():
                self._sender = threading.Thread(target=self._send_all, name="tilelang-shared-tier", daemon=True)
                self._sender.start()

    def send_source(self, source_key: str, kernel_key: str, function: str) -> None:
        """Links a source key, in the background.

        Args:
            source_key: of a call.
            kernel_key: of the kernel that it leads to.
            function: the factory's name, which lists of kernels show.
        """
        self.send_later(lambda: self.ask(lambda: self._insert_source(source_key, kernel_key, function), None))

    def flush(self, seconds: float) -> bool:
        """Waits until everything was sent, at most ``seconds``."""
        end = time.monotonic() + seconds
        while self._outbox.unfinished_tasks and time.monotonic() < end:
            time.sleep(0.005)
        return not self._outbox.unfinished_tasks

    def _send_all(self) -> None:
        while True:
            work = self._outbox.get()
            try:
                work()
            except Exception as error:  # a background thread has no caller that could handle it
                self._fail(error)
            finally:
                self._outbox.task_done()

    # -- the server -------------------------------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        """Whether the tier is asked at all: not for a while after a failure."""
        return time.monotonic() >= self._down_until

    def ask(self, work: Callable[[], Result], otherwise: Result) -> Result:
        """``work()`` on another thread, within the timeout; ``otherwise`` where it fails."""
        if not self.is_up:
            return otherwise
        answer: queue.Queue[tuple[bool, Any]] = queue.Queue(1)

        def run() -> None:
            try:
                answer.put((True, work()))
            except Exception as error:  # whatever a driver raises means the same: no answer
                answer.put((False, error))

        # A driver may hang in a system call that no timeout of its own ends (a lost network). The thread is given up then, and
        # this call goes on without it.
        threading.Thread(target=run, daemon=True).start()
        value: Any
        try:
            good, value = answer.get(timeout=self.timeout)
        except queue.Empty:
            good, value = False, TierDown(f"no answer within {self.timeout:g} s")
        if not good:
            self._fail(value)
            return otherwise
        return value

    def _fail(self, error: Exception) -> None:
        self._down_until = time.monotonic() + RETRY_SECONDS
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        warn.once("shared tier", f"the shared kernel cache is left out for {RETRY_SECONDS:g} s: {reason[:200]}")

    def _connected(self) -> Any:
        """The engine; the first call makes the tables."""
        with self._engine_guard:
            if self._engine is None:
                self._engine = _make_engine(self.url, self.timeout)
            return self._engine

    def _find_source(self, source_key: str) -> str | None:
        from sqlalchemy import select

        from tilelang.cache.database.schema import shared_sources as sources

        with self._connected().connect() as connection:
            query = select(sources.c.kernel_key).where(sources.c.source_key == source_key)
            found = connection.execute(query).scalar_one_or_none()
        return found if isinstance(found, str) and store.is_key(found) else None

    def _fetch(self, key: str) -> dict[str, bytes] | None:
        from sqlalchemy import select

        from tilelang.cache.database.schema import blobs

        with self._connected().connect() as connection:
            rows = connection.execute(select(blobs.c.name, blobs.c.content).where(blobs.c.key == key)).all()
        files = {name: bytes(content) for name, content in rows}
        return files if MANIFEST_PATH in files else None

    def _locking_connection(self) -> Any:
        engine = self._connected()
        return engine.connect() if engine.dialect.name == "postgresql" else None

    def add_entry(self, key: str, manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
        """Adds a kernel, unless another host has sent it already.

        Args:
            key: of the kernel.
            manifest: its manifest, without the files.
            files: their contents by name.
        """
        from sqlalchemy import insert
        from sqlalchemy.exc import IntegrityError

        from tilelang.cache.database.schema import blobs, shared_kernels

        row = {"key": key, "name": manifest.get("name", ""), "target": manifest.get("target", ""), "sent": time.time()}
        contents = [{"key": key, "name": name, "content": content} for name, content in files.items()]
        with contextlib.suppress(IntegrityError), self._connected().begin() as connection:
            # Another host that was faster has sent the same kernel.
            connection.execute(insert(shared_kernels), row)
            connection.execute(insert(blobs), contents)

    def _insert_source(self, source_key: str, kernel_key: str, function: str) -> None:
        from sqlalchemy import delete, insert

        from tilelang.cache.database.schema import shared_sources as sources

        with self._connected().begin() as connection:
            connection.execute(delete(sources).where(sources.c.source_key == source_key))
            row = {"source_key": source_key, "kernel_key": kernel_key, "function": function}
            connection.execute(insert(sources), row)


@dataclass
class Flight:
    """One look-up in the shared tier.

    Attributes:
        files: what the tier has, not yet verified; None where this host is to compile.
    """

    tier: SharedTier
    key: str
    files: dict[str, bytes] | None
    connection: Any

    def send(self, path: Path) -> None:
        """Sends the local entry at ``path`` in the background, then releases the lock."""
        connection, self.connection = self.connection, None

        def work() -> None:
            try:
                manifest = store.read_manifest(path)
                files = dict(store.verified_files(path, manifest))
                files[MANIFEST_PATH] = (path / MANIFEST_PATH).read_bytes()
                self.tier.ask(lambda: self.tier.add_entry(self.key, manifest, files), None)
            finally:
                if connection is not None:
                    self.tier.ask(connection.close, None)

        self.tier.send_later(work)

    def land(self) -> None:
        """Releases the lock, unless :meth:`send` has taken it over."""
        connection, self.connection = self.connection, None
        if connection is not None:
            self.tier.ask(connection.close, None)


def _make_engine(url: str, timeout: float) -> Any:
    from sqlalchemy import create_engine, make_url
    from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError
    from sqlalchemy.pool import NullPool

    from tilelang.cache.database.schema import shared_metadata

    arguments: dict[str, Any] = {}
    if make_url(url).get_backend_name() == "postgresql":
        milliseconds = int(timeout * 1000)
        options = f"{_KEEPALIVE} -c statement_timeout={milliseconds}"
        arguments = {"connect_timeout": max(2, int(timeout)), "options": options}
    engine = create_engine(url, poolclass=NullPool, connect_args=arguments)
    try:
        shared_metadata.create_all(engine)
    except (IntegrityError, ProgrammingError, OperationalError):
        # Another host makes the same tables at this very moment; then they are there now.
        shared_metadata.create_all(engine)
    return engine


def _try_lock(connection: Any, key: str) -> bool:
    from sqlalchemy import text

    # A session lock: it goes when the connection is closed, also by a kill.
    # pg_try_advisory_lock takes two signed 32-bit integers. Two kernels with one number wait for each other needlessly, and
    # nothing worse.
    number = int(key[:8], 16) - (1 << 31)
    found = connection.execute(text("SELECT pg_try_advisory_lock(:space, :key)"), {"space": _LOCK_SPACE, "key": number})
    taken = bool(found.scalar_one())
    connection.commit()
    return taken


_tiers: dict[tuple[str, int], SharedTier] = {}


def current() -> SharedTier | None:
    """The tier that the environment names, or None."""
    url = env.get("TILELANG_CACHE_URL")
    if not url:
        return None
    key = (url, os.getpid())
    tier = _tiers.get(key)
    if tier is None:
        tier = _tiers[key] = SharedTier(url, env.get("TILELANG_CACHE_URL_TIMEOUT"))
    return tier


@atexit.register
def _flush_all() -> None:
    for (_, pid), tier in _tiers.items():
        if pid == os.getpid():
            tier.flush(tier.timeout)
