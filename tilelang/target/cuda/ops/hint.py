"""Remarks about the kernel (:class:`~tilelang.target.cuda.tile.tree.Hints`), of which one is an instruction: registers that move
between warps."""

from __future__ import annotations

from typing import Any

from tilelang.layout import from_text
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


@implements(L2HitRatio)
class Remark(OperatorRule):
    """Nothing to run: later steps read it among the hints. Persisting lines belong to a stream, and are none of a kernel."""

    scoped = collective = False

    def read(self, op: Any, span: Any, reader: Any) -> list[Any]:
        self.hint(op, span, reader.tree.hints)
        return []

    def hint(self, op: Any, span: Any, hints: Any) -> bool:
        self.note(op, span, hints)
        return True

    def note(self, op: Any, span: Any, hints: Any) -> None:
        """Adds the remark to ``hints``.

        Args:
            op: the operator.
            span: its source location.
            hints: the hints of the kernel so far.
        """


@implements(AnnotateLayout)
class LayoutRemark(Remark):
    """``T.annotate_layout``."""

    def note(self, op: Any, span: Any, hints: Any) -> None:
        hints.layouts.append((op.buffer.buffer, from_text(op.layout), span))


@implements(SafeValue)
class SafeValueRemark(Remark):
    """``T.annotate_safe_value``."""

    def note(self, op: Any, span: Any, hints: Any) -> None:
        hints.safe_values[op.buffer.buffer] = op.value


@implements(RestrictBuffers)
class OverlapRemark(Remark):
    """``T.annotate_restrict_buffers``."""

    def note(self, op: Any, span: Any, hints: Any) -> None:
        hints.may_overlap.update(op.names)


@implements(MinBlocksPerSM)
class BlocksRemark(Remark):
    """``T.annotate_min_blocks_per_sm``."""

    def note(self, op: Any, span: Any, hints: Any) -> None:
        hints.blocks_per_sm = op.count


@implements(UseSwizzle)
class RasterisationRemark(Remark):
    """``T.use_swizzle``."""

    def note(self, op: Any, span: Any, hints: Any) -> None:
        hints.rasterisation = ("column" if op.order.startswith("col") else "row", op.panel_size)


@implements(MaxRegisters)
class Registers(OperatorRule):
    """``T.set_max_nreg`` and its relatives; without effect where the architecture has no such instruction."""

    scoped = collective = False

    def registers(self, op: Any) -> tuple[str, int]:
        return op.change, op.count

    def lower(self, node: Any, generator: Any) -> list[Code]:
        op = node.op
        if op.change not in ("inc", "dec") or not arch_of(generator.emitter.target).uses(Feature.SET_MAX_NREG):
            return []
        generator.emitter.output.moves_registers = True
        return [leaf([SetRegisters(op.change, op.count)])]
