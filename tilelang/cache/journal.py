"""Hits on disk, as lines appended to ``<root>/journal``.

A hit must not open a database: a line of some hundred bytes, appended in one write, takes microseconds and never waits.
Whoever writes to the index takes the lines over.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tilelang.cache.store import is_key

_NAME = "journal"


@dataclass(frozen=True, slots=True)
class Use:
    """What the journal tells of one key: how often it was hit, and when last (seconds since 1970)."""

    key: str
    hits: int
    last_used: float


def append(root: Path, key: str) -> None:
    """Notes a hit of ``key``; a cache that cannot be written to notes nothing."""
    line = f"{key} {time.time():.3f}\n".encode()
    with contextlib.suppress(OSError):
        descriptor = os.open(root / _NAME, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)


def size(root: Path) -> int:
    """Bytes that wait in the journal."""
    try:
        return os.stat(root / _NAME).st_size
    except OSError:
        return 0


def take(root: Path) -> list[Use]:
    """Takes all lines out of the journal. Lines of a process that appends at this very moment may be lost: they are
    statistics."""
    taken = root / f"{_NAME}.{os.getpid()}.{os.urandom(4).hex()}"
    try:
        os.rename(root / _NAME, taken)
        text = taken.read_text("ascii", "replace")
        taken.unlink()
    except OSError:
        return []
    hits: Counter[str] = Counter()
    last: dict[str, float] = {}
    for line in text.splitlines():
        key, _, stamp = line.partition(" ")
        if not is_key(key):
            continue
        with contextlib.suppress(ValueError):
            last[key] = max(last.get(key, 0.0), float(stamp))
            hits[key] += 1
    return [Use(key, hits[key], last[key]) for key in hits]
