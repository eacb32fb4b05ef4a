"""Hints: dropped on a CPU, except for the value of out-of-bounds reads."""

from __future__ import annotations

from typing import Any

from tilelang.target.cpu.emit import no_op
from tilelang.target.cpu.lower import Scope, rule
from tilelang.tileop.hint import (
    AnnotateLayout,
    L2HitRatio,
    MaxRegisters,
    MinBlocksPerSM,
    RestrictBuffers,
    SafeValue,
    UseSwizzle,
)
from tilelang.tileop.warp_group import FenceOperand


def _nothing(record: Any, scope: Scope) -> Any:
    return no_op()


for _hint in (AnnotateLayout, FenceOperand, L2HitRatio, MaxRegisters, MinBlocksPerSM, RestrictBuffers, UseSwizzle):
    rule(_hint)(_nothing)


@rule(SafeValue)
def lower_safe_value(record: SafeValue, scope: Scope) -> Any:
    """From here on, out-of-bounds reads of the buffer give the value."""
    scope.safe_values[record.buffer.buffer] = record.value
    return no_op()
