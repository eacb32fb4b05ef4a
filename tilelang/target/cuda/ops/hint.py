"""Hints about the kernel (:class:`~tilelang.target.cuda.tile.tree.Hints`). Only one is an instruction: the reallocation of
registers between warp groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilelang.layout import from_text
from tilelang.target.cuda.arch import Feature, arch_of
from tilelang.target.cuda.ir.code import Code, leaf
from tilelang.target.cuda.ir.instructions import SetRegisters
from tilelang.target.cuda.operators import OperatorRule, implements
from tilelang.target.cuda.tile.tree import Hints
from tilelang.tileop.hint import AnnotateLayout, L2HitRatio, MaxRegisters, MinBlocksPerSM, RestrictBuffers, SafeValue, UseSwizzle

_NOTES: Mapping[type, Callable[[Any, Any, Hints], Mapping[str, Any]]] = {
    AnnotateLayout: lambda op, span, hints: {"layouts": [*hints.layouts, (op.buffer.buffer, from_text(op.layout), span)]},
    SafeValue: lambda op, span, hints: {"safe_values": {**hints.safe_values, op.buffer.buffer: op.value}},
    RestrictBuffers: lambda op, span, hints: {"may_overlap": hints.may_overlap | set(op.names)},
    MinBlocksPerSM: lambda op, span, hints: {"blocks_per_sm": op.count},
    UseSwizzle: lambda op, span, hints: {"rasterisation": ("column" if op.order.startswith("col") else "row", op.panel_size)},
    L2HitRatio: lambda op, span, hints: {},  # persisting lines belong to a stream, and are none of a kernel
}
"""Operator -> the hints that it changes."""


@implements(*_NOTES)
class HintRule(OperatorRule):
    """A hint becomes no code; later steps read it from the tree's hints."""

    cooperative = collective = False

    def read(self, op: Any, span: Any, reader: Any) -> list[Any]:
        self.hint(op, span, reader.tree.hints)
        return []

    def hint(self, op: Any, span: Any, hints: Any) -> bool:
        for name, value in _NOTES[type(op)](op, span, hints).items():
            setattr(hints, name, value)
        return True


@implements(MaxRegisters)
class RegistersRule(OperatorRule):
    """``T.set_max_nreg`` and its relatives; without effect where the architecture has no such instruction."""

    cooperative = collective = False

    def registers(self, op: Any) -> tuple[str, int]:
        return op.change, op.count

    def lower(self, node: Any, generator: Any) -> list[Code]:
        op = node.op
        if op.change not in ("inc", "dec") or not arch_of(generator.emitter.target).uses(Feature.SET_MAX_NREG):
            return []
        return [leaf([SetRegisters(op.change, op.count)])]
