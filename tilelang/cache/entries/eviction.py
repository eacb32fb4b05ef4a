"""Keeping the cache below its cap: the entries that were not used for longest go first.

An entry is spared while it is pinned, while a process holds its lease, and for some minutes after its last use; the
library of an evicted kernel that is already loaded stays mapped, so that no running kernel is lost.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tilelang.cache.entries import store
from tilelang.cache.locks import lease

if TYPE_CHECKING:
    from tilelang.cache.database.index import Index

GRACE_SECONDS = 60.0
LOW_WATER = 0.9
_BATCH = 64


@dataclass(frozen=True, slots=True)
class Eviction:
    """What was removed."""

    entries: int
    bytes: int


def enforce(root: Path, index: Index, cap: int, grace: float = GRACE_SECONDS) -> Eviction:
    """Evicts entries until the cache takes at most 90% of its cap, if it takes more than the cap now.

    Args:
        root: the cache's directory.
        index: its index, which knows sizes and last uses.
        cap: bytes; 0 is no cap.
        grace: seconds after its last use for which an entry is spared.
    """
    total = index.totals()[0]
    if not cap or total <= cap:
        return Eviction(0, 0)
    index.take_journal()
    return evict(root, index, total - int(cap * LOW_WATER), grace)


def evict(root: Path, index: Index, wanted: int, grace: float = GRACE_SECONDS) -> Eviction:
    """Evicts the least recently used entries until enough is free or all others are protected.

    Args:
        root: the cache's directory.
        index: its index.
        wanted: bytes to free.
        grace: seconds after its last use for which an entry is spared.
    """
    entries = freed = spared = 0
    newest = time.time() - grace
    while freed < wanted:
        batch = index.least_used(_BATCH, spared)
        gone: list[str] = []
        for key, size, last_used in batch:
            # A last use in the future means that the clock went back; such an entry must not stay for ever.
            recent = newest < last_used <= time.time()
            # What is spared stays in the list of the least used, so the next batch starts behind it.
            if recent or not (remove(root, key) or is_gone(root, key)):
                spared += 1
                continue
            gone.append(key)
            entries, freed = entries + 1, freed + size
            if freed >= wanted:
                break
        index.dropped(*gone)
        if len(batch) < _BATCH:
            break
    if entries:
        index.count("evicted", entries)
    return Eviction(entries, freed)


def is_gone(root: Path, key: str) -> bool:
    """Whether nothing lies in an entry's place."""
    return not os.path.lexists(store.entry_path(root, key))


def remove(root: Path, key: str) -> bool:
    """Removes an entry, or what lies in its place; False where it is gone, in use, or cannot be removed."""
    path = store.entry_path(root, key)
    if os.path.islink(path) or not os.path.isdir(path):
        return store.discard(root, path)
    claim = lease.claim_directory(path)
    if claim is None:
        return False
    try:
        return store.discard(root, path)
    finally:
        claim.release()
