"""Work on a whole cache: clear, verify, collect garbage."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilelang.cache.database.index import Index
from tilelang.cache.entries import eviction, scripts, sources, store
from tilelang.cache.locks import lease

_STALE_SECONDS = 3600.0
Progress = Callable[[Iterable[Any]], Iterable[Any]]


@dataclass
class Verification:
    """What :func:`verify` found.

    Attributes:
        good: how many entries are what was published.
        bad: key -> what is wrong.
        missing_rows, missing_directories: keys that only the directories, or only the index, know.
    """

    good: int = 0
    bad: dict[str, str] = field(default_factory=dict)
    missing_rows: list[str] = field(default_factory=list)
    missing_directories: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Collection:
    """What :func:`collect` removed."""

    evicted: int
    bytes: int
    litter: int
    links: int
    rows: int


def clear(root: Path, index: Index) -> int:
    """Removes every entry that no other process uses, pinned ones too, and all links; returns how many entries."""
    keys = list(store.keys(root))
    removed = sum([eviction.remove(root, key) for key in keys])
    index.dropped(*(key for key in keys if eviction.is_gone(root, key)))
    scripts.sweep(root)
    for source_key, kernel_key in list(sources.links(root)):
        if not store.entry_path(root, kernel_key).is_dir():
            sources.forget(root, source_key)
    return removed


def verify(root: Path, index: Index, repair: bool = False, progress: Progress = iter) -> Verification:
    """Reads every file of every entry.

    Args:
        root: the cache's directory.
        index: its index.
        repair: move bad entries to quarantine, and make the index agree with the directories.
        progress: wraps the keys, to show how far the work is.
    """
    result = Verification()
    for key in progress(list(store.keys(root))):
        path = store.entry_path(root, key)
        try:
            store.load(path)
        # Evicted since the keys were listed.
        except FileNotFoundError:
            continue
        except (store.BadEntry, OSError) as error:
            result.bad[key] = str(error)
            # An entry that cannot be read at the moment (too many open files, a network) may still be good.
            if repair and isinstance(error, store.BadEntry):
                store.move_aside(root, path)
            continue
        result.good += 1
    present, listed = set(store.keys(root)), set(index.listed())
    result.missing_rows = sorted(present - listed - set(result.bad))
    result.missing_directories = sorted(listed - present)
    if repair:
        for key in result.missing_directories:
            index.dropped(key)
        index.rebuild()
    return result


def collect(root: Path, index: Index, cap: int, grace: float = eviction.GRACE_SECONDS) -> Collection:
    """Removes entries over the cap, leftovers of killed processes, quarantined entries and dead links.

    Args:
        root: the cache's directory.
        index: its index, which knows when entries were used.
        cap: bytes that may stay; 0 is no cap.
        grace: seconds after its last use for which an entry is spared.
    """
    litter = _sweep(root / "staging", _STALE_SECONDS) + _sweep(root / "quarantine", 0.0)
    litter += sum(map(lease.remove_if_free, (root / "locks").glob("*.lock"))) + _sweep(root, _STALE_SECONDS, "journal.")
    rows = [key for key in index.listed() if not store.entry_path(root, key).is_dir()]
    for key in rows:
        index.dropped(key)
    evicted = eviction.enforce(root, index, cap, grace)
    litter += scripts.sweep(root)
    dangling = [link for link, key in sources.links(root) if not store.entry_path(root, key).is_dir()]
    for link in dangling:
        sources.forget(root, link)
    return Collection(evicted.entries, evicted.bytes, litter, len(dangling), len(rows))


def _sweep(folder: Path, age: float, prefix: str = "") -> int:
    """Removes files that were not modified for ``age`` seconds; a time in the future counts as old, since clocks can go back."""
    removed = 0
    now = time.time()
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in [entry for entry in entries if entry.name.startswith(prefix)]:
            with contextlib.suppress(OSError):
                idle = now - entry.stat(follow_symlinks=False).st_mtime
                if 0 <= idle < age:
                    continue
                shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
                removed += 1
    return removed
