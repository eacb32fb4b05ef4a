"""What each CUDA architecture can do, as records: everything else asks them and compares no names.

Numbers are those of the CUDA programming guide (technical specifications by compute capability), features those of the PTX
manual. An architecture may have what the operators here do not use yet: :meth:`Arch.uses` says what they may lower to,
:meth:`Arch.has` what a program may ask for by name.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Mapping
from typing import Any

from tilelang.records import Record


class Feature(enum.Enum):
    """An ability that not every architecture has, with the words that an error uses for it."""

    CP_ASYNC = "asynchronous copies by threads"
    MBARRIER = "barriers in shared memory"
    MMA = "products by mma.sync"
    FP8_MMA = "float8 products by mma.sync"
    TMA = "the tensor memory accelerator"
    CLUSTER = "clusters of blocks"
    STMATRIX = "stores of matrices from registers"
    WGMMA = "products by warp groups"
    PDL = "dependent launches"
    VECTOR_ATOMICS = "atomic additions of vectors of floats"
    SET_MAX_NREG = "registers moved between warps"
    TCGEN05 = "products in tensor memory"


_SINCE: Mapping[Feature, int] = {
    Feature.CP_ASYNC: 80,
    Feature.MBARRIER: 80,
    Feature.MMA: 80,
    Feature.FP8_MMA: 89,
    Feature.TMA: 90,
    Feature.CLUSTER: 90,
    Feature.STMATRIX: 90,
    Feature.PDL: 90,
    Feature.VECTOR_ATOMICS: 90,
}
"""Features that every later compute capability has, too."""

_ONLY: Mapping[Feature, frozenset[int]] = {
    Feature.WGMMA: frozenset({90}),
    Feature.SET_MAX_NREG: frozenset({90, 100, 103, 110, 120, 121}),
    Feature.TCGEN05: frozenset({100, 103, 110}),
}
"""Features of these compute capabilities, in their architecture-specific form (``sm_90a``) only."""

_NOT_LOWERED_TO = frozenset({Feature.TMA, Feature.STMATRIX, Feature.SET_MAX_NREG, Feature.TCGEN05})
"""What operators leave unused from compute capability 100 on: no rule for those architectures has been checked."""

_NOT_GENERATED = frozenset({Feature.TCGEN05})
"""What programs can ask for by name and nothing is generated for yet, whatever the architecture."""

_SHARED_BYTES: Mapping[int, int] = {
    75: 65536,
    80: 166912,
    86: 101376,
    87: 166912,
    89: 101376,
    90: 232448,
    100: 232448,
    103: 232448,
    110: 232448,
    120: 101376,
    121: 101376,
}
"""Compute capability -> largest dynamic shared memory of a block in bytes."""

_SWIZZLE_PERIOD = 1024
_LINE = 128

WARP, WARP_GROUP = 32, 128
"""Threads of a warp, and of the four warps that ``wgmma`` is an instruction of."""


class Arch(Record):
    """One architecture.

    Attributes:
        name: ``"sm_90a"`` …
        sm: compute capability as an integer.
        features: what the hardware has.
        lowered_to: those of the features that operators are lowered to.
        shared_bytes: largest dynamic shared memory of a block.
        registers: 32-bit registers that one thread can have.
    """

    name: str
    sm: int
    features: frozenset[Feature]
    lowered_to: frozenset[Feature]
    shared_bytes: int
    registers: int = 255

    def has(self, feature: Feature) -> bool:
        """Whether the hardware has a feature."""
        return feature in self.features

    def uses(self, feature: Feature) -> bool:
        """Whether operators may be lowered to a feature."""
        return feature in self.lowered_to

    def refusal(self, feature: Feature, lowered: bool = False) -> str | None:
        """Why a program cannot ask for a feature by name, as the end of a sentence; None where it can.

        Args:
            lowered: whether it asks for an operator that is to be lowered to the feature, and not for an instruction.
        """
        if not self.has(feature):
            return f"needs {architectures_with(feature)}, the target is {self.name}"
        if lowered and not self.uses(feature):
            return f"needs {feature.value}, for which nothing is generated on {self.name} yet"
        return f"is of {architectures_with(feature)}, for which nothing is generated yet" if feature in _NOT_GENERATED else None

    @property
    def tile_alignment(self) -> int:
        """Bytes: where a shared tile may start; a swizzle that the accelerator writes repeats over 1024."""
        return _SWIZZLE_PERIOD if self.uses(Feature.TMA) else _LINE


@functools.cache
def arch_named(name: str) -> Arch:
    """The record of ``"sm_90a"`` …"""
    digits = name.removeprefix("sm_").rstrip("af")
    sm, specific = int(digits), not name.endswith(digits)
    found = {feature for feature, since in _SINCE.items() if sm >= since}
    found |= {feature for feature, which in _ONLY.items() if specific and sm in which}
    lowered = found - _NOT_LOWERED_TO if sm >= 100 else found
    return Arch(name, sm, frozenset(found), frozenset(lowered), _SHARED_BYTES[sm])


def is_whole_warps(threads: range) -> bool:
    """Whether neighbouring threads are whole warps."""
    return threads.start % WARP == 0 and len(threads) % WARP == 0


def in_one_warp(threads: range) -> bool:
    """Whether neighbouring threads are of one warp."""
    return threads.start // WARP == (threads.stop - 1) // WARP


def arch_of(target: Any) -> Arch:
    """The architecture of a CUDA target."""
    return arch_named(target.arch)


def architectures_with(feature: Feature) -> str:
    """Which architectures have a feature, for an error message: ``"sm_80 or later"``, ``"sm_90a"``."""
    if feature in _SINCE:
        return f"sm_{_SINCE[feature]} or later"
    return ", ".join(f"sm_{sm}a" for sm in sorted(_ONLY[feature]))
