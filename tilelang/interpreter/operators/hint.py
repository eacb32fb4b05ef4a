"""Hints, which change nothing; and ``T.annotate_safe_value``, which does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.interpreter.compiler import Compiler
from tilelang.interpreter.expressions import compiled, type_of
from tilelang.interpreter.numbers import convert
from tilelang.interpreter.operators.table import rule
from tilelang.interpreter.state import Lanes
from tilelang.ir.expr import constant
from tilelang.tileop.hint import (
    AnnotateLayout,
    L2HitRatio,
    MaxRegisters,
    MinBlocksPerSM,
    RestrictBuffers,
    SafeValue,
    UseSwizzle,
)

Effect = Callable[[Lanes], Any]


def _nothing(c: Compiler, record: Any) -> Effect:
    return lambda x: None


for _hint in (AnnotateLayout, L2HitRatio, MaxRegisters, MinBlocksPerSM, RestrictBuffers, UseSwizzle):
    rule(_hint)(_nothing)


@rule(SafeValue)
def _safe_value(c: Compiler, record: SafeValue) -> Effect:
    slot, given = c.view(record.buffer.buffer), constant(record.value)
    value = compiled(c, given)

    def effect(x: Lanes) -> None:
        x.views[slot] = x.views[slot].with_safe(convert(value(x), type_of(given), x.views[slot].kind))

    return effect
