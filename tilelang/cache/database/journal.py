"""What happens in a cache, as lines appended to ``<root>/journal``: hits of kernels, and counts of other events.

A hit must not open a database: a line of some hundred bytes, appended in one write, takes microseconds and never waits.
A process that writes to the index takes the lines over; a journal that is never taken over is cut when it reaches a megabyte.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

from tilelang.cache.entries.manifest import is_key
from tilelang.cache.places import plain_files
from tilelang.records import Record

_NAME = "journal"
_LAST_MOMENT = 1e12  # seconds since 1970: a damaged line must not hold a number that the index cannot
MAX_BYTES = 1 << 20
EVENTS = ("hit", "miss", "evicted", "error", "uncacheable")
"""What is counted: kernels found on disk; compiled and kept; removed to make room; troubles; compiled and not kept."""


class Use(Record):
    """What the journal tells of one key: how often it was hit, and when last (seconds since 1970)."""

    key: str
    hits: int
    last_used: float


class Taken(Record):
    """What was in the journal: uses of kernels, and the number of each other event."""

    uses: list[Use]
    events: Counter[str]


def append(root: Path, key: str) -> int:
    """Notes a hit of ``key``; returns the journal's size in bytes. A cache that cannot be written to notes nothing."""
    return _append(root, f"{key} {time.time():.3f}\n")


def count(root: Path, event: str, times: int = 1) -> int:
    """Notes an event; as :func:`append`.

    Args:
        root: the cache's directory.
        event: one of :data:`EVENTS`.
        times: how often it happened.
    """
    return _append(root, f"{event} {times}\n")


def _append(root: Path, line: str) -> int:
    try:
        descriptor = plain_files.descriptor_of(root / _NAME, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    except OSError:
        return 0
    try:
        # One write of O_APPEND: lines of several processes do not mix (write(2)).
        os.write(descriptor, line.encode())
        return os.fstat(descriptor).st_size
    except OSError:
        return 0
    finally:
        os.close(descriptor)


def take(root: Path) -> Taken:
    """Takes all lines out of the journal. Lines of a process that appends at this very moment may be lost: they are
    statistics."""
    taken = root / f"{_NAME}.{os.getpid()}.{os.urandom(4).hex()}"
    try:
        # Renamed first, so that two processes never take the same lines, and appended lines begin a new file.
        os.rename(root / _NAME, taken)
    except OSError:
        return Taken([], Counter())
    try:
        text = plain_files.read(taken, 2 * MAX_BYTES).decode("ascii", "replace")
    except OSError:
        text = ""
    remove(taken)
    return _parsed(text)


def remove(path: Path) -> None:
    """Removes a journal, or any other file or directory at its path."""
    try:
        path.rmdir() if path.is_dir() else path.unlink()
    except OSError:
        return


def cut(root: Path) -> None:
    """Forgets what waits in the journal."""
    remove(root / _NAME)


def _parsed(text: str) -> Taken:
    hits: Counter[str] = Counter()
    events: Counter[str] = Counter()
    last: dict[str, float] = {}
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        try:
            if is_key(key):
                last[key] = max(last.get(key, 0.0), min(float(value), _LAST_MOMENT))
                hits[key] += 1
            elif key in EVENTS:
                events[key] += min(int(value), MAX_BYTES)
        except ValueError:
            continue
    if hits:
        events["hit"] += hits.total()
    return Taken([Use(key, hits[key], last[key]) for key in hits], events)
