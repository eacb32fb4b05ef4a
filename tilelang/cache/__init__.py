"""The kernel cache: artifacts in immutable directories, an SQLite index, and the keys of both.

Imports nothing heavy: names are resolved on first use, so that a process that only reads a kernel from disk loads neither
SQLAlchemy nor a compiler.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilelang.cache.kernel_cache import (
        CacheEntry,
        KernelCache,
        cached,
        clear_cache,
        compile_fixed,
        default_cache,
        disable_cache,
        enable_cache,
        is_cache_enabled,
    )
    from tilelang.cache.keys.key import KernelKey
    from tilelang.cache.keys.source_key import (
        FunctionTracker,
        SourceKey,
    )

_HOMES = {
    "KernelCache": "kernel_cache",
    "CacheEntry": "kernel_cache",
    "default_cache": "kernel_cache",
    "cached": "kernel_cache",
    "clear_cache": "kernel_cache",
    "compile_fixed": "kernel_cache",
    "enable_cache": "kernel_cache",
    "disable_cache": "kernel_cache",
    "is_cache_enabled": "kernel_cache",
    "KernelKey": "keys.key",
    "FunctionTracker": "keys.source_key",
    "SourceKey": "keys.source_key",
}

__all__ = [
    "CacheEntry",
    "FunctionTracker",
    "KernelCache",
    "KernelKey",
    "SourceKey",
    "cached",
    "clear_cache",
    "compile_fixed",
    "default_cache",
    "disable_cache",
    "enable_cache",
    "is_cache_enabled",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
