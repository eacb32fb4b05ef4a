"""Writing a layer: a directory of kernels that every user may read, for a container image (``TILELANG_CACHE_LAYERS``)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tilelang.cache.entries import sources, store
from tilelang.cache.entries.files import MANIFEST_PATH
from tilelang.errors import CacheError

Progress = Callable[[Iterable[Any]], Iterable[Any]]


def write(root: Path, keys: Iterable[str], layer: Path, progress: Progress = iter) -> int:
    """Copies the entries of ``keys``, each verified, and the links that lead to them; returns how many entries.

    Args:
        root: the cache's directory.
        keys: of the entries.
        layer: the directory to write: empty, missing, or a layer.
        progress: wraps the keys, to show how far the work is.

    Raises:
        CacheError: the directory holds something else.
        store.BadEntry: an entry is damaged.
        OSError: the layer cannot be written.
    """
    if layer.is_dir() and any(layer.iterdir()) and not (layer / "kernels").is_dir():
        raise CacheError(f"{layer} is neither empty nor a layer")  # its permissions are about to change
    wanted = dict.fromkeys(sorted(keys))
    for name in ("kernels", "sources", "staging"):
        (layer / name).mkdir(mode=0o755, parents=True, exist_ok=True)
    for key in progress(wanted):
        path = store.entry_path(root, key)
        files = dict(store.verified_files(path, store.read_manifest(path)))
        files[MANIFEST_PATH] = (path / MANIFEST_PATH).read_bytes()
        store.publish(layer, key, *store.from_files(key, files), for_all=True)
    for link, key in sources.links(root):
        if key in wanted:
            sources.record(layer, link, key)
    shutil.rmtree(layer / "staging")
    # The process's mask may have taken bits from the modes that `mkdir` was given.
    for folder in (layer / "kernels", layer / "sources"):
        folder.chmod(0o755)
    layer.chmod(0o755)
    store.open_to_all(layer / "sources")
    return len(wanted)
