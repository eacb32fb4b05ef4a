"""Two kernels of one name side by side: which inputs of their keys differ, and which lines of their programs."""

from __future__ import annotations

import difflib
from pathlib import Path

from tilelang.cache.entries import store
from tilelang.cache.entries.files import PROGRAM_PATH
from tilelang.cache.places import plain_files

_MAX_BYTES = 1 << 20
_MAX_LINES = 5000


def program_diff(root: Path, here: str, there: str) -> list[str]:
    """The unified diff from one entry's program to another's.

    Args:
        root: the cache's directory.
        here, there: keys of the entries; lines of ``here`` are the added ones.

    Returns:
        Lines without line breaks; none where the programs are the same, too long to compare, or one cannot be read.
    """
    old, new = _lines(root, there), _lines(root, here)
    if not old or not new or max(len(old), len(new)) > _MAX_LINES:
        return []
    return list(difflib.unified_diff(old, new, there[:12], here[:12], lineterm=""))


def _lines(root: Path, key: str) -> list[str]:
    try:
        raw = plain_files.read(store.entry_path(root, key) / PROGRAM_PATH, _MAX_BYTES)
    except OSError:
        return []
    return raw.decode("utf-8", "replace").splitlines()
