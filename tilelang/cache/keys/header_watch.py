"""Device headers, tools, and other files of the compiler, that change under a running process.

A header is read at every compilation, and a tool is run, so that a kernel in memory is stale once one has changed. Linux reports
changes: inotify queues an event before the write returns, and checking whether the queue is empty takes a tenth of a microsecond,
where a ``stat`` of every header takes twenty. Without inotify the ``stat`` data are compared.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tilelang.cache.keys import fingerprint, tool_files
from tilelang.cache.keys.fingerprint import Fingerprint
from tilelang.fingerprint import watch

_IN_NONBLOCK, _IN_CLOEXEC = 0o4000, 0o2000000
# inotify(7): MODIFY, CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE, DELETE_SELF, MOVE_SELF
_MASK = 0x2 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800

generation = object()
"""Replaced whenever headers or tools may have changed; records compare it by identity."""
_queue: int | None = None
_tools: dict[str, None] = {}


def also(tools: Iterable[str]) -> None:
    """Watches the files of tools too, from now on: to be called before they are read."""
    fresh = [path for path in tools if path not in _tools]
    _tools.update(dict.fromkeys(fresh))
    if fresh and _queue is not None and not _add(_queue, _folders_of(fresh)):
        _renew()


def records() -> list[tuple[int, Any, Any, Any]]:
    """Watch records that hold until a header or a tool changes; to be made before they are read."""
    global _queue
    # Events are never read from the queue: one is enough to know that something changed, and a new queue begins empty.
    if _queue is None or not watch.nothing_pending(_queue, None, None):
        _renew()
    if _queue is None:
        return [(watch.CALL, _stats, None, _stats())]
    return [(watch.ITEM, globals(), "generation", generation), (watch.PENDING, _queue, None, None)]


def _renew() -> None:
    """A new queue over the directories that hold headers and tools now."""
    global generation, _queue
    if _queue is not None:
        os.close(_queue)
    generation = object()
    _queue = _open([*fingerprint.folders({"headers"}), *_folders_of(_tools)])


def _folders_of(tools: Iterable[str]) -> list[str]:
    return sorted({folder for path in tools for folder in tool_files.folders_to(os.path.abspath(path))})


def _open(folders: list[str]) -> int | None:
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "inotify_init1"):
        return None
    queue = libc.inotify_init1(_IN_NONBLOCK | _IN_CLOEXEC)
    if queue < 0:
        return None
    if not _add(queue, folders):
        os.close(queue)
        return None
    return queue


def _add(queue: int, folders: list[str]) -> bool:
    """Whether changes in the directories are reported to the queue from now on; one that is not there has none."""
    libc = ctypes.CDLL(None, use_errno=True)
    added = (libc.inotify_add_watch(queue, os.fsencode(folder), _MASK) >= 0 for folder in folders)
    return all(each or ctypes.get_errno() == errno.ENOENT for each in added)


def _stats() -> tuple[Any, ...]:
    headers = ((file.path, file.stat) for file in fingerprint.files() if file.kind == "headers")
    return (*headers, *((path, _identity(path)) for path in _tools))


def _identity(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


_steady: tuple[Callable[..., Any], int, Fingerprint] | None = None


def steady(fingerprint_of: Callable[[Path | None], Fingerprint], memo_file: Path | None) -> Fingerprint:
    """``fingerprint_of(memo_file)``, which looks at hundreds of files; read again only after one of them has changed."""
    global _steady
    if _steady is not None and _steady[0] is fingerprint_of and watch.nothing_pending(_steady[1], None, None):
        return _steady[2]
    if _steady is not None:
        os.close(_steady[1])
        _steady = None
    # Watched first and read afterwards: a change in between is in the queue, and the next call reads again.
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
