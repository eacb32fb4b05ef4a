"""The ranks of a distributed job do the same: all take a kernel from the cache, or all compile it.

A rank that compiles while the others already wait in a collective can run into their timeout; ranks with different caches
(a node that lost its disk, a tier that one node cannot reach) otherwise do just that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tilelang.cache.entries.entry import CacheEntry
from tilelang.cache.kernel_cache import Compile, KernelCache, default_cache
from tilelang.cache.keys.key import KernelKey

Gather = Callable[[bool], Iterable[bool]]


def gather_with_torch(hit: bool) -> Iterable[bool]:
    """Every rank's ``hit``, over the default process group of ``torch.distributed``; alone where there is none."""
    import torch.distributed as distributed

    if not distributed.is_available() or not distributed.is_initialized():
        return [hit]
    answers = [False] * distributed.get_world_size()
    distributed.all_gather_object(answers, hit)  # pyright: ignore[reportUnknownMemberType] - its types are incomplete
    return answers


def lookup_or_compile_together(
    key: KernelKey, compile: Compile, cache: KernelCache | None = None, gather: Gather = gather_with_torch
) -> CacheEntry:
    """The entry of ``key``: from the cache where every rank has it, else compiled by every rank.

    All ranks must call this with the same keys in the same order. Ranks that share a directory compile one after the other
    only if their caches are enabled; each gets the kernel that it made.

    Args:
        key: what decides the code.
        compile: makes the artifact; its errors go to the caller.
        cache: that of the process by default.
        gather: gives every rank's answer to whether it has the kernel.

    Returns:
        This rank's entry.
    """
    cache = cache or default_cache()
    entry = cache.lookup(key.digest) if cache.enabled else None
    everywhere = all(gather(entry is not None))
    if everywhere and entry is not None:
        return entry
    return cache.compile_anew(key, compile)
