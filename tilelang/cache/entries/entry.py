"""What a look-up gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from tilelang.artifact import KernelArtifact
from tilelang.cache.locks.lease import Lock
from tilelang.records import Record

ORIGINS = ("memory", "disk", "layer", "shared", "compiled")


class CacheEntry(Record):
    """A kernel that can be loaded.

    Attributes:
        key: its kernel key.
        path: the directory with its files; a private one where the kernel is not kept.
        artifact: what the compiler made, verified if it was read.
        origin: where it came from: ``memory``, ``disk``, ``layer``, ``shared`` or ``compiled``.
        compile_seconds: what the compilation took, or had taken.
        lease: keeps eviction away while this object lives.
    """

    key: str
    path: Path
    artifact: KernelArtifact
    origin: str
    compile_seconds: float = 0.0
    inputs: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    lease: Lock | None = field(default=None, repr=False, compare=False)
