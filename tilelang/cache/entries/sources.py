"""Source keys on disk: ``<root>/sources/<two digits>/<source key>`` holds the kernel key that it leads to.

One small file is opened by name, which costs the same at ten entries and at a million and needs no database; the index
keeps a copy of the link for queries. A link whose kernel is gone is a miss.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from tilelang.cache.entries.manifest import is_key
from tilelang.cache.places import plain_files


def find(root: Path, source_key: str) -> str | None:
    """The kernel key of ``source_key``, or None."""
    try:
        text = plain_files.read(_path(root, source_key), 129).decode("ascii", "replace")
    except OSError:
        return None
    # The source key is repeated in the file, so that a cut or swapped file is a miss.
    kernel_key, _, own = text.partition(" ")
    return kernel_key if own == source_key and is_key(kernel_key) else None


def record(root: Path, source_key: str, kernel_key: str) -> None:
    """Links a source key to a kernel, in one step.

    Args:
        root: the cache's directory.
        source_key: of a call.
        kernel_key: of the kernel that it leads to.

    Raises:
        OSError: a full disk, a missing permission.
    """
    path = _path(root, source_key)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{source_key[:16]}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        plain_files.write_new(draft, f"{kernel_key} {source_key}")
        draft.replace(path)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def forget(root: Path, source_key: str) -> None:
    """Removes a link."""
    with contextlib.suppress(OSError):
        _path(root, source_key).unlink()


def links(root: Path) -> Iterator[tuple[str, str]]:
    """(source key, kernel key) of every link."""
    for folder in _names(root / "sources"):
        for name in _names(root / "sources" / folder):
            kernel_key = find(root, name) if is_key(name) else None
            if kernel_key is not None:
                yield name, kernel_key


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _path(root: Path, source_key: str) -> Path:
    if not is_key(source_key):
        raise ValueError(f"not a source key: {source_key!r}")
    return root / "sources" / source_key[:2] / source_key
