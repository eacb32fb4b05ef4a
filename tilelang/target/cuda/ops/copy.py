"""Copies: by threads, by matrices of registers, or by the tensor memory accelerator; transposed, and of image patches; fills."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.errors import UnsupportedError
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.ir.memory import is_global, lies_in_shared
from tilelang.target.cuda.arch import Feature, arch_of
from tilelang.target.cuda.ir.code import Code
from tilelang.target.cuda.ir.instructions import CommitCopies
from tilelang.target.cuda.operators import OperatorRule, TileDemand, Transfer, implements
from tilelang.target.cuda.ops.copy_bulk import bulk_layout, bulk_store, emit_bulk_copy, is_candidate, natural_layout
from tilelang.target.cuda.ops.copy_matrix import emit_matrix_store
from tilelang.target.cuda.tile.build import axes_of, copy_nest, load_at, store_at, typed
from tilelang.target.cuda.tile.nest import Nest
from tilelang.tileop.copy import Copy, Fill, Im2Col, Transpose


@implements(Copy)
class CopyRule(OperatorRule):
    """``T.copy`` and ``T.async_copy`` are nests, ``T.tma_copy`` is one instruction of the accelerator."""

    collective = False
    local = True

    def read(self, op: Any, span: Any, reader: Any) -> list[Any]:
        return [reader.operator(op, span) if op.kind == "tma" else reader.parallel(copy_nest(op, span), op)]

    def destination(self, op: Any) -> Any:
        return op.dst

    def read_after(self, op: Copy) -> set[Any]:
        return {op.src.buffer} if op.kind == "tma" and is_global(op.dst) else set()

    def transfer(self, op: Any) -> Transfer:
        return Transfer(op.src, op.dst, may_run_ahead=op.kind == "copy")

    def load(self, op: Any, facts: Any) -> Callable[[Any, Any], Copy] | None:
        free = op.kind == "copy" and not op.disable_tma and op.loop_layout is None
        if not free or not is_candidate(op.src, op.dst, facts):
            return None
        return lambda tile, barrier: Copy(op.src, tile, barrier, kind="tma", eviction_policy=op.eviction_policy)

    def moved_in_bulk(self, op: Any, problem: Any) -> list[TileDemand]:
        if op.kind == "tma":
            tiles = [region for region in (op.src, op.dst) if lies_in_shared(region)]
            return [TileDemand(tile.buffer, bulk_layout(tile, problem.facts)) for tile in tiles]
        stored = arch_of(problem.target).uses(Feature.TMA) and lies_in_shared(op.src)
        tiles = [op.src] if stored and is_candidate(op.src, op.dst, problem.facts) else []
        return [TileDemand(tile.buffer, natural_layout(tile)) for tile in tiles]

    def lower(self, node: Any, generator: Any) -> list[Code]:
        why = arch_of(generator.emitter.target).refusal(Feature.TMA, lowered=True)
        if why is not None:
            raise UnsupportedError(f"T.tma_copy {why}", hint="T.copy works everywhere")
        return [emit_bulk_copy(generator, node)]

    def lower_nest(self, node: Any, generator: Any) -> list[Code]:
        e, op = generator.emitter, node.op
        stored = emit_matrix_store(e, op)
        if stored is not None:
            return stored
        bulk = bulk_store(generator, node) if op.kind == "copy" and not op.disable_tma else None
        if bulk is not None:
            return [bulk]
        # By cp.async threads move bytes as they are, and fill with zeros. The compiler's own wait cannot stand in code that
        # threads run at different times; the program's can.
        loads = is_global(op.src) and lies_in_shared(op.dst) and op.src.dtype == op.dst.dtype
        loads = loads and (op.kind == "async" or not generator.divergent)
        # Threads that each make the copy, to places on which neighbours agree, would have several writes of an element in flight.
        alike = node in e.layouts.per_thread and e.uniformity.group(map(constant, op.dst.mins)) > 1
        code = generator.nest(node, self.overwritten(op), loads and e.options.use_async and not alike)
        if op.kind == "async":  # the program waits for it itself
            for group in code:
                group.body.append(CommitCopies())
                group.detached = True
        return code


@implements(Fill)
class FillRule(OperatorRule):
    """A fill is element-wise."""

    local = True

    def read(self, op: Any, span: Any, reader: Any) -> list[Any]:
        axes, offsets = axes_of([op.dst])
        body = store_at(op.dst, offsets, typed(op.value, op.dst.dtype), span)
        return [reader.parallel(Nest.build(axes, body, span, "T.fill"), op)]

    def lower_nest(self, node: Any, generator: Any) -> list[Code]:
        return generator.nest(node, self.overwritten(node.op))


@implements(Transpose)
class TransposeRule(OperatorRule):
    """``T.transpose`` is element-wise."""

    def read(self, op: Any, span: Any, reader: Any) -> list[Any]:
        axes, offsets = axes_of([op.dst])
        body = store_at(op.dst, offsets, load_at(op.src, op.source_offsets(offsets)), span)
        return [reader.parallel(Nest.build(axes, body, span, "T.transpose"), op)]


@implements(Im2Col)
class Im2ColRule(OperatorRule):
    """``T.c2d_im2col`` is element-wise."""

    def read(self, op: Any, span: Any, reader: Any) -> list[Any]:
        return [reader.parallel(_im2col(op, span), op)]


def _im2col(op: Im2Col, span: Any) -> Nest:
    axes, offsets = axes_of([op.col])
    rows, columns = op.col.matrix_extents
    moving = iter(offsets)
    row, place_in_row = (next(moving) if extent != 1 else 0 for extent in (rows, columns))
    count, height, width, channels = (as_int(size) for size in op.img.buffer.shape)
    reach = (op.kernel - 1) * op.dilation + 1
    out_height = (height + 2 * op.pad - reach) // op.stride + 1
    out_width = (width + 2 * op.pad - reach) // op.stride + 1
    place, part = op.nhw_step * rows + row, op.c_step * columns + place_in_row
    column = part % channels
    y = place % (out_height * out_width) // out_width * op.stride + part // (op.kernel * channels) * op.dilation - op.pad
    x = place % out_width * op.stride + part // channels % op.kernel * op.dilation - op.pad
    beyond = part // (op.kernel * op.kernel * channels)  # what lies right of the matrix is of no image, and zero
    load = ir.BufferLoad(op.img.buffer, [place // (out_height * out_width) + beyond * count, y, x, column])
    return Nest.build(axes, store_at(op.col, offsets, load, span), span, "T.c2d_im2col")
