"""Pickling of kernels, programs and decorated functions.

A kernel travels as its key and its artifact: where the receiving process finds the key, in memory or on disk, it takes that
entry, else it loads the artifact. One that is interpreted travels as its program. A decorated function travels by name, as
functions do. A program has no other form than the compiler's own objects; their nodes travel as plain values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilelang.artifact import KernelArtifact
from tilelang.cache.kernel_cache import default_cache

if TYPE_CHECKING:
    from tilelang.jit.kernel import JITKernel

_MEASURED = ("latency", "config", "ref_latency", "source_reason")


def packed(kernel: JITKernel) -> tuple[Any, ...]:
    """The picklable state of a kernel."""
    measured = {name: getattr(kernel, name) for name in _MEASURED}
    if kernel.made_by is not None:
        return (*kernel.made_by, measured)
    return unpacked, (kernel.cache_key, kernel.artifact, measured)


def unpacked(key: str, artifact: KernelArtifact, measured: Mapping[str, Any]) -> JITKernel:
    """The kernel whose state :func:`packed` gave.

    Args:
        key: its kernel key.
        artifact: what to load where neither memory nor disk has the key.
        measured: attributes of the kernel that the autotuner set (``latency``, ``config``, ``ref_latency``).

    Returns:
        The kernel, loaded.
    """
    from tilelang.jit.kernel import JITKernel

    cache = default_cache()
    entry = cache.lookup(key) if key else None
    kernel = JITKernel(entry if entry is not None and entry.artifact == artifact else cache.private_entry(key, artifact))
    for name, value in measured.items():
        setattr(kernel, name, value)
    return kernel


def by_name(decorated: Any) -> str:
    """A decorated function by its importable name.

    Raises:
        PicklingError: it is no global of its module.
    """
    import pickle
    import sys

    found: Any = sys.modules.get(decorated.__module__)
    for part in decorated.__qualname__.split("."):
        found = getattr(found, part, None)
    if found is not decorated:
        raise pickle.PicklingError(f"{decorated.__qualname__} is no global of {decorated.__module__}: it cannot be found by name")
    return decorated.__qualname__
