"""Matrix products by scalar loops, for shapes and types that no tensor-core instruction has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_fragment
from tilelang.ir.span import warn_slow
from tilelang.layout.fragment import FragmentLayout
from tilelang.target.cuda.codegen.emitter import Emitter
from tilelang.target.cuda.codegen.nest_loops import NestLoops
from tilelang.target.cuda.inference.loop_layout import free_loop, register_form, whole_loop
from tilelang.target.cuda.ir.code import Block, Code, counted, leaf, nested, under
from tilelang.target.cuda.ir.conversions import converted
from tilelang.target.cuda.ir.instructions import Assign, DeclareArray
from tilelang.target.cuda.ir.values import Array, Convert, Number, Select, Value, both
from tilelang.target.cuda.ops.gemm_operand import matrix_index
from tilelang.target.cuda.ops.gemm_plan import Product
from tilelang.target.cuda.tile.build import block
from tilelang.target.cuda.tile.nest import Axis, Nest
from tilelang.target.cuda.tile.tree import Operator


class ScalarProduct(Product):
    """C spread over the threads; each of them sums its own elements.

    Attributes:
        obstacle: why the tensor cores cannot compute it.
    """

    obstacle: str

    def misfits(self, op: Any) -> Iterable[tuple[Any, str]]:
        spread = [region.buffer for region in (op.a, op.b) if is_fragment(region)]
        return [(buffer, "each thread needs whole rows and columns of it") for buffer in spread]

    def code(self, emitter: Emitter, node: Any) -> list[Code]:
        return _sums(emitter, node, self)


def plan_scalar(op: Any, threads: int, obstacle: str) -> ScalarProduct:
    """The plan of a product by single threads, with the reason why tensor cores cannot compute it."""
    shape = (as_int(op.m), as_int(op.n))
    loop = free_loop([Axis(None, size) for size in shape], threads, 1)
    layout = FragmentLayout(shape, tuple(dim.modes for dim in loop.dims), loop.replicas).compact()
    fragments = ((op.c.buffer, layout),) if op.c.is_whole and len(op.c.buffer.shape) == 2 else ()
    return ScalarProduct(layout, fragments, obstacle)


def _sums(emitter: Emitter, node: Operator, plan: ScalarProduct) -> list[Code]:
    """The code of a product: each thread sums all its elements of C in each step along K.

    The loop along K stays a loop: written out for every element it would be most of a kernel, and minutes of compilation.
    """
    e, op = emitter, node.op
    warn_slow(f"T.gemm becomes scalar code, which is many times slower than tensor cores: {plan.obstacle}", node.span)
    dtype = canonical(op.c.dtype)
    wide = "float32" if dtype.is_float and dtype.bits < 32 else str(dtype)
    row, column = (ir.Var(name, "int32") for name in ("m", "n"))
    axes = (Axis(row, as_int(op.m)), Axis(column, as_int(op.n)))
    share = NestLoops(e, Nest.build(axes, block([]), node.span, "T.gemm"), whole_loop(axes, [row, column], plan.c))
    inner = e.variable("k", op.k)
    a = _element(e, op.a, row, inner, op.transpose_a, wide)
    b = _element(e, op.b, inner, column, op.transpose_b, wide)
    own = e.array(op.c.buffer)
    # Narrow floats are summed in float32 and rounded once, at the end.
    sums = own if wide == str(dtype) else Array(e.names.take("sums").text, wide)
    form = register_form([row, column], plan.c, share.layout)
    assert form is not None
    place, result = own.at(share.register(form)), sums.at(share.register(form))
    add = [*share.definitions, *under(both(share.guards), [Assign(result, result + a * b)])]
    code = counted(e.name_of(inner), e.index(op.k), nested(share.loops, add), unroll=1)
    start = nested(share.loops, [Assign(result, _start(e, op, converted(place, dtype, wide), wide))])
    if sums is own:
        return [leaf([Block([*start, code], braces=True)])]
    end = nested(share.loops, [Assign(place, converted(result, wide, dtype))])
    return [leaf([Block([DeclareArray(sums, plan.c.registers), *start, code, *end], braces=True)])]


def _start(e: Emitter, op: Any, old: Value, wide: str) -> Value:
    """What a sum starts with: zero, or the old value of C."""
    zero, clear = Convert(wide, Number(0)), op.clear_accum
    if isinstance(clear, (bool, int)):
        return zero if clear else old
    return Select(e.value(clear), zero, old)


def _element(e: Emitter, region: Any, row: Any, column: Any, transposed: bool, wide: str) -> Value:
    return converted(e.places.element(region.buffer, matrix_index(region, row, column, transposed)), region.dtype, wide)
