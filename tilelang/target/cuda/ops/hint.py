"""Remarks about the kernel (``TileTree.hints``), of which one is an instruction: registers moved between warps."""

from __future__ import annotations

from typing import Any

from tilelang.target.cuda.arch import Feature, arch_of
from tilelang.target.cuda.ir.code import Code, leaf
from tilelang.target.cuda.ir.instructions import SetRegisters
from tilelang.target.cuda.operators import OperatorRule, implements
from tilelang.tileop.hint import (
    AnnotateLayout,
    L2HitRatio,
    MaxRegisters,
    MinBlocksPerSM,
    RestrictBuffers,
    SafeValue,
    UseSwizzle,
)


@implements(AnnotateLayout, L2HitRatio, MinBlocksPerSM, RestrictBuffers, SafeValue, UseSwizzle)
class Remark(OperatorRule):
    """Nothing to run: later steps read it among the hints."""

    scoped = collective = False

    def read(self, op: Any, span: Any, reader: Any) -> list[Any]:
        reader.hint(op, span)
        return []


@implements(MaxRegisters)
class Registers(OperatorRule):
    """``T.set_max_nreg`` and its relatives; without effect where the architecture has no such instruction."""

    scoped = collective = False

    def read(self, op: Any, span: Any, reader: Any) -> list[Any]:
        reader.hint(op, span)
        return [reader.operator(op, span)]

    def lower(self, node: Any, generator: Any) -> list[Code]:
        op = node.op
        if op.change not in ("inc", "dec") or not arch_of(generator.emitter.target).uses(Feature.SET_MAX_NREG):
            return []
        generator.max_registers = True
        return [leaf([SetRegisters(op.change, op.count)])]
