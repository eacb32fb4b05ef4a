"""Read-only caches beneath the writable one, for example baked into a container image (``TILELANG_CACHE_LAYERS``)."""

from __future__ import annotations

import os
from pathlib import Path

from tilelang import env
from tilelang.cache import warn
from tilelang.cache.places import location

_admitted: dict[str, tuple[Path, ...]] = {}


def roots() -> tuple[Path, ...]:
    """The layers in force, uppermost first; one that cannot be trusted is left out with a warning."""
    text = env.get("TILELANG_CACHE_LAYERS")
    if not text:
        return ()
    if text not in _admitted:
        _admitted[text] = tuple(path for path in map(Path, text.split(os.pathsep)) if str(path) != "." and _admit(path))
    return _admitted[text]


def _admit(path: Path) -> bool:
    # An administrator may provide a layer for everyone, so root's directories are trusted too.
    owners = (os.geteuid(), 0)
    below = [path / name for name in ("kernels", "sources") if name == "kernels" or os.path.exists(path / name)]
    problem = next(filter(None, (location.distrust(folder, owners) for folder in (path, *below))), None)
    if problem is not None:
        warn.once("layer", f"the cache layer {path} is left out: {problem}")
    return problem is None
