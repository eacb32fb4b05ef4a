"""Locks of the operating system: they die with the process that holds them, however it dies.

``flock`` belongs to an open file, so two threads of one process exclude each other as two processes do. A child made by
``fork`` shares the open file; it closes its copy, which leaves the parent's lock as it is.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import math
import os
import time
import weakref
from collections.abc import Generator
from pathlib import Path

from tilelang.cache.places import plain_files

_WITHOUT_LOCKS = frozenset((errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL))
_held: weakref.WeakSet[Lock] = weakref.WeakSet()
_STOPPED_SECONDS = 0.5
_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.02


class LocksUnsupported(OSError):
    """The file system has no working locks."""


class NotReleased(OSError):
    """The holder of a lock makes no progress: it is stopped, or exceeds the longest wait."""

    def __init__(self, holder: int, problem: str):
        super().__init__(errno.ETIMEDOUT, f"process {holder or 'unknown'}, which has it, {problem}")


class Lock:
    """An open file with a lock on it."""

    def __init__(self, descriptor: int):
        self._descriptor: int | None = descriptor
        _held.add(self)

    def fileno(self) -> int:
        """The descriptor of the open file; -1 after :meth:`release`."""
        return -1 if self._descriptor is None else self._descriptor

    def release(self) -> None:
        """Gives the lock back; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(descriptor)

    __del__ = release


def _close_inherited() -> None:
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_close_inherited)


def _flock(descriptor: int, operation: int) -> bool:
    """Takes the lock; False where ``LOCK_NB`` is set and another holds it."""
    try:
        fcntl.flock(descriptor, operation)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _WITHOUT_LOCKS:
            raise LocksUnsupported(error.errno, f"no file locks: {error.strerror}") from error
        raise
    return True


@contextlib.contextmanager
def exclusive(path: Path, patience: float = math.inf) -> Generator[None]:
    """Holds the lock file ``path``, after waiting for its holder. The last process that uses the file removes it.

    Args:
        patience: seconds to wait for a holder that runs; one that is stopped is waited for half a second.

    Raises:
        LocksUnsupported: the file system has no locks.
        NotReleased: the holder is stopped, or patience has ended.
        OSError: the file cannot be made.
    """
    lock = _acquire(path, patience)
    try:
        yield
    finally:
        # Removed while still held: who waits on the old file sees below that it is no longer the one at this path.
        with contextlib.suppress(OSError):
            os.unlink(path)
        lock.release()


def _acquire(path: Path, patience: float) -> Lock:
    while True:
        started = time.monotonic()
        descriptor = plain_files.descriptor_of(path, os.O_RDWR | os.O_CREAT)
        lock = Lock(descriptor)
        _wait(descriptor, patience)
        # The holder removes the file before it lets go. A lock on a removed file excludes no other process, which may have made a
        # new file at this path and locked that.
        if _is_at(descriptor, path):
            os.truncate(descriptor, 0)
            os.write(descriptor, b"%d" % os.getpid())
            return lock
        lock.release()
        patience -= time.monotonic() - started


def _wait(descriptor: int, patience: float) -> None:
    """Asks for the lock again and again: a wait inside of the system could not be ended when the holder is stopped."""
    pause = _FIRST_PAUSE
    started = running_at = time.monotonic()
    while not _flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB):
        now = time.monotonic()
        holder = _holder(descriptor)
        if not _is_stopped(holder):
            # When the holder was last seen running: only one that is stopped for half a second on end is given up.
            running_at = now
        elif now - running_at > _STOPPED_SECONDS:
            raise NotReleased(holder, "is stopped")
        if now - started > patience:
            raise NotReleased(holder, f"has not given it back for {patience:.0f} s")
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _holder(descriptor: int) -> int:
    """The process that wrote its number into a lock file; 0 where none did."""
    text = os.pread(descriptor, 20, 0)
    return int(text) if text.isdigit() else 0


def _is_stopped(process: int) -> bool:
    try:
        # proc(5): the state follows the name, which is in parentheses and may hold anything
        state = Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state in ("T", "t")


def remove_if_free(path: Path) -> bool:
    """Removes the lock file ``path`` of a process that was killed, unless a process holds it at this moment."""
    try:
        lock = Lock(plain_files.descriptor_of(path, os.O_RDWR))
        free = _flock(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB) and _is_at(lock.fileno(), path)
        if free:
            os.unlink(path)
    except OSError:
        return False
    lock.release()
    return free


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        there = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    here = os.fstat(descriptor)
    return (there.st_ino, there.st_dev) == (here.st_ino, here.st_dev)


def share_directory(path: Path) -> Lock | None:
    """A shared lock on the directory ``path``: while it is held, :func:`claim_directory` fails.

    None where there is no such directory (any more), or no locks; then only the grace period of eviction protects it.

    Raises:
        BlockingIOError: someone is about to remove the directory.
    """
    lock = _open_directory(path)
    if lock is not None and _holds(lock, path, fcntl.LOCK_SH) is False:
        raise BlockingIOError(errno.EWOULDBLOCK, "it is being removed", str(path))
    return lock


def claim_directory(path: Path) -> Lock | None:
    """An exclusive lock on the directory ``path``, or None where someone uses it or it cannot be had."""
    lock = _open_directory(path)
    return lock if lock is not None and _holds(lock, path, fcntl.LOCK_EX) else None


def _open_directory(path: Path) -> Lock | None:
    try:
        return Lock(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW))
    except OSError:
        return None


def _holds(lock: Lock, path: Path, mode: int) -> bool | None:
    """Whether ``path`` was locked; None where the file system has no locks. A file that could not be locked is closed."""
    try:
        held = _flock(lock.fileno(), mode | fcntl.LOCK_NB) and _is_at(lock.fileno(), path)
    except OSError:
        held = None
    if not held:
        lock.release()
    return held


def locks_work(directory: Path) -> bool:
    """Whether two open files in ``directory`` really exclude each other (some network file systems only pretend)."""
    path = directory / f".locks-{os.getpid()}-{os.urandom(4).hex()}"
    # The first lock must succeed and the second fail. Where both succeed, locks are pretended.
    first = Lock(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    try:
        second = Lock(os.open(path, os.O_RDWR | os.O_CLOEXEC))
        try:
            return _flock(first.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB) and not _flock(
                second.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB
            )
        finally:
            second.release()
    except LocksUnsupported:
        return False
    finally:
        first.release()
        os.unlink(path)
