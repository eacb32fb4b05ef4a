"""Atomic tiles: ``T.atomic_add(tile, tile)`` and the like, element by element or by the tensor memory accelerator."""

from __future__ import annotations

from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.memory import lies_in_shared
from tilelang.target.cuda.arch import Feature, arch_of
from tilelang.target.cuda.ir.code import Code
from tilelang.target.cuda.operators import OperatorRule, TileDemand, implements
from tilelang.target.cuda.ops.copy_bulk import bulk_store, is_candidate, natural_layout
from tilelang.target.cuda.tile.build import axes_of, cast_to, load_at
from tilelang.target.cuda.tile.nest import Nest
from tilelang.tileop.atomic import AtomicTile
from tilelang.tileop.thread import intrinsic_call


@implements(AtomicTile)
class AtomicRule(OperatorRule):
    """An atomic tile is element-wise."""

    def read(self, op: Any, span: Any, reader: Any) -> list[Any]:
        axes, offsets = axes_of([op.src, op.dst])
        value = cast_to(load_at(op.src, offsets), op.dst.dtype)
        order = {"memory_order": op.memory_order}
        call = intrinsic_call(f"atomic_{op.op}", load_at(op.dst, offsets), value, attrs=order, span=span)
        return [reader.parallel(Nest.build(axes, ir.Evaluate(call, span), span, f"T.atomic_{op.op}"), op)]

    def destination(self, op: Any) -> Any:
        return op.dst

    def moved_in_bulk(self, op: Any, problem: Any) -> list[TileDemand]:
        wanted = op.use_tma and op.op in _REDUCTIONS and arch_of(problem.target).uses(Feature.TMA)
        stored = wanted and lies_in_shared(op.src) and is_candidate(op.src, op.dst, problem.facts)
        return [TileDemand(op.src.buffer, natural_layout(op.src))] if stored else []

    def lower_nest(self, node: Any, generator: Any) -> list[Code]:
        op = node.op
        reduction = op.op if op.use_tma and op.op in _REDUCTIONS else None
        stored = None if reduction is None else bulk_store(generator, node, reduction)
        return generator.nest(node) if stored is None else [stored]


_REDUCTIONS = ("add", "max", "min")
"""What the accelerator can do in global memory."""
