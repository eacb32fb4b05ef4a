"""Locks of the operating system: they die with the process that holds them, however it dies.

``flock`` belongs to an open file, so two threads of one process exclude each other as two processes do. A child made by
``fork`` shares the open file; it closes its copy, which leaves the parent's lock as it is.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import weakref
from collections.abc import Iterator
from pathlib import Path

_WITHOUT_LOCKS = frozenset((errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL))
_held: weakref.WeakSet[Lock] = weakref.WeakSet()


class LocksUnsupported(OSError):
    """The file system has no working locks."""


class Lock:
    """An open file with a lock on it."""

    def __init__(self, descriptor: int):
        self._descriptor: int | None = descriptor
        _held.add(self)

    def release(self) -> None:
        """Gives the lock back; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
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
def exclusive(path: Path) -> Iterator[None]:
    """Holds the lock file ``path``; waits for whoever has it. The file is gone when nobody wants it.

    Raises:
        LocksUnsupported: the file system has no locks.
        OSError: the file cannot be made.
    """
    lock = _acquire(path, fcntl.LOCK_EX)
    try:
        yield
    finally:
        # Removed while still held: who waits on the old file sees below that it is no longer the one at this path.
        with contextlib.suppress(OSError):
            os.unlink(path)
        lock.release()


def _acquire(path: Path, operation: int) -> Lock:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        lock = Lock(descriptor)
        _flock(descriptor, operation)
        if _is_at(descriptor, path):
            return lock
        lock.release()


def remove_if_free(path: Path) -> bool:
    """Removes the lock file ``path`` of a process that was killed, unless somebody holds it at this moment."""
    try:
        lock = Lock(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW))
        free = _flock(lock._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB) and _is_at(lock._descriptor, path)
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
    """
    # An exclusive holder is about to remove the directory, so there is nothing to wait for.
    return _lock_directory(path, fcntl.LOCK_SH)


def claim_directory(path: Path) -> Lock | None:
    """An exclusive lock on the directory ``path``, or None where someone uses it or it cannot be had."""
    return _lock_directory(path, fcntl.LOCK_EX)


def _lock_directory(path: Path, mode: int) -> Lock | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    lock = Lock(descriptor)
    try:
        held = _flock(descriptor, mode | fcntl.LOCK_NB) and _is_at(descriptor, path)
    except LocksUnsupported:
        held = False
    if not held:
        lock.release()
        return None
    return lock


def locks_work(directory: Path) -> bool:
    """Whether two open files in ``directory`` really exclude each other (some network file systems only pretend)."""
    path = directory / f".locks-{os.getpid()}-{os.urandom(4).hex()}"
    first = Lock(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    try:
        second = Lock(os.open(path, os.O_RDWR | os.O_CLOEXEC))
        try:
            return _flock(first._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB) and not _flock(
                second._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB
            )
        finally:
            second.release()
    except LocksUnsupported:
        return False
    finally:
        first.release()
        os.unlink(path)
