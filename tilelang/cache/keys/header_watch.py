"""Device headers, and other files of the compiler, that change under a running process.

A header is read at every compilation, so that a kernel in memory is stale once one has changed. Linux reports changes: inotify
queues an event before the write returns, and checking whether the queue is empty takes a tenth of a microsecond, where a
``stat`` of every header takes twenty. Without inotify the ``stat`` data are compared.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilelang.cache.keys import fingerprint
from tilelang.cache.keys.fingerprint import Fingerprint
from tilelang.fingerprint import watch

_IN_NONBLOCK, _IN_CLOEXEC = 0o4000, 0o2000000
# inotify(7): MODIFY, CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE, DELETE_SELF, MOVE_SELF
_MASK = 0x2 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800

generation = object()
"""Replaced whenever headers may have changed; records compare it by identity."""
_queue: int | None = None


def records() -> list[tuple[int, Any, Any, Any]]:
    """Watch records that hold until a header changes; to be made before the headers are read."""
    global _queue
    if _queue is None or not watch.nothing_pending(_queue, None, None):
        _renew()
    if _queue is None:
        return [(watch.CALL, _stats, None, _stats())]
    return [(watch.ITEM, globals(), "generation", generation), (watch.PENDING, _queue, None, None)]


def _renew() -> None:
    """A new queue over the directories that hold headers now."""
    global generation, _queue
    if _queue is not None:
        os.close(_queue)
    generation = object()
    _queue = _open(fingerprint.folders({"headers"}))


def _open(folders: list[str]) -> int | None:
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "inotify_init1"):
        return None
    queue = libc.inotify_init1(_IN_NONBLOCK | _IN_CLOEXEC)
    if queue < 0:
        return None
    for folder in folders:
        if libc.inotify_add_watch(queue, os.fsencode(folder), _MASK) < 0 and ctypes.get_errno() != errno.ENOENT:
            os.close(queue)
            return None
    return queue


def _stats() -> tuple[Any, ...]:
    return tuple((file.path, file.stat) for file in fingerprint.files() if file.kind == "headers")


_steady: tuple[Callable[..., Any], int, Fingerprint] | None = None


def steady(fingerprint_of: Callable[[Path | None], Fingerprint], memo_file: Path | None) -> Fingerprint:
    """``fingerprint_of(memo_file)``, which looks at hundreds of files; read again only after one of them has changed."""
    global _steady
    if _steady is not None and _steady[0] is fingerprint_of and watch.nothing_pending(_steady[1], None, None):
        return _steady[2]
    if _steady is not None:
        os.close(_steady[1])
        _steady = None
    queue = _open(fingerprint.folders())
    found = fingerprint_of(memo_file)
    if queue is not None:
        _steady = fingerprint_of, queue, found
    return found


def _after_fork() -> None:
    # The queues are shared with the parent: what one of them takes out, the other never sees.
    global generation, _queue, _steady
    generation, _queue, _steady = object(), None, None


os.register_at_fork(after_in_child=_after_fork)
