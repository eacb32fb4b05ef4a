"""Entries that are not kept: the key cannot be made, the cache is off, or no directory can be written to."""

from __future__ import annotations

import os
from pathlib import Path

from tilelang.artifact import KernelArtifact
from tilelang.cache import warn
from tilelang.cache.disk import with_texts
from tilelang.cache.entries import store
from tilelang.cache.entries.entry import CacheEntry
from tilelang.cache.entries.manifest import storable
from tilelang.cache.keys.key import KernelKey
from tilelang.cache.places import location


def digest_of(key: KernelKey) -> str | None:
    """The key in hexadecimal; None where it cannot be made, after a warning."""
    if key.unknown:
        warn.once("unknown", f"{key.name} is compiled at every call: {key.unknown}")
        return None
    return warn.guarded(lambda: key.digest, None, f"the kernel {key.name} has no key and is not kept")


def entry_of(key: KernelKey, artifact: KernelArtifact, seconds: float) -> CacheEntry:
    """An entry that ends with this process.

    Args:
        key: of the kernel; one that cannot be made is replaced by a random one.
        artifact: what was compiled.
        seconds: how long that took.
    """
    digest = digest_of(key)
    if digest is None:
        digest = os.urandom(32).hex()
        return CacheEntry(digest, materialise(digest, artifact), artifact, "compiled", seconds)
    return CacheEntry(digest, materialise(digest, with_texts(key, artifact)), artifact, "compiled", seconds, key.inputs)


def materialise(digest: str, artifact: KernelArtifact) -> Path:
    """The artifact's files in a private directory that ends with this process."""
    root = location.private().root
    path = store.entry_path(root, digest)
    # Publishing keeps what is there, and this process has just compiled the kernel again.
    if os.path.lexists(path):
        store.discard(root, path)
    return store.publish(root, digest, artifact, {"name": storable(artifact.name)})
