"""One recommended configuration."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from tilelang.carver.roller.rasterization import NoRasterization, Rasterization


@dataclass(frozen=True)
class Hint:
    """How to divide a problem.

    Attributes:
        block: the tile of the result that a block computes.
        warp: the part of it that a warp computes; empty where warps do not share it out in tiles.
        thread: the part of it that a thread computes; empty where tensor cores do.
        rstep: how far one step goes along each contracted axis.
        reduce_thread: threads that share each contracted axis.
        threads: threads of a block.
        pipeline_stage: steps whose tiles are in memory at once; 1 without a pipeline.
        use_async: whether copies run ahead of the computation.
        use_tc: whether tensor cores multiply.
        rasterization_plan: the order of blocks.
        shared_bytes: shared memory of a block.
        time: what the model of the device expects, in seconds; for ranking.
    """

    block: list[int]
    warp: list[int] = field(default_factory=list)
    thread: list[int] = field(default_factory=list)
    rstep: list[int] = field(default_factory=list)
    reduce_thread: list[int] = field(default_factory=list)
    threads: int = 128
    pipeline_stage: int = 1
    use_async: bool = False
    use_tc: bool = False
    rasterization_plan: Rasterization = NoRasterization()
    shared_bytes: int = 0
    time: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Hint:
        """The hint that :meth:`to_dict` describes."""
        return cls(**fields)
