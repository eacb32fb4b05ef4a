"""Matrix products as scalar loops, for shapes and types that no tensor-core instruction has."""

from __future__ import annotations

from math import prod
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.span import warn_slow
from tilelang.layout.fragment import THREAD, FragmentLayout
from tilelang.target.cuda.codegen.conversions import converted
from tilelang.target.cuda.codegen.emitter import Emitter
from tilelang.target.cuda.codegen.nest_loops import thread_digit
from tilelang.target.cuda.ir.code import Block, Code, counted, leaf, nested, under
from tilelang.target.cuda.ir.instructions import Assign, DeclareArray, Define
from tilelang.target.cuda.ir.values import Array, Convert, Name, Number, Select, Value, both, total
from tilelang.target.cuda.ops.gemm_operand import matrix_index
from tilelang.target.cuda.ops.gemm_plan import Product
from tilelang.target.cuda.tile.tree import Operator


def emit_scalar(emitter: Emitter, node: Operator, plan: Product) -> list[Code]:
    """Code of a product without tensor cores: each thread sums its own elements of C, all of them in each step along K.

    The loop along K stays a loop: written out for every element it would be most of a kernel, and minutes of compilation.

    Args:
        emitter: the emitter of the kernel.
        node: the product in the tile tree.
        plan: its plan, with the reason why no instruction computes it.
    """
    e, op = emitter, node.op
    warn_slow(f"T.gemm becomes scalar code, which is many times slower than tensor cores: {plan.way}", node.span)
    dtype = canonical(op.c.dtype)
    wide = "float32" if dtype.is_float and dtype.bits < 32 else str(dtype)
    share = _Share(e, plan.c)
    row, column, inner = (ir.Var(name, "int32") for name in ("m", "n", "k"))
    e.names.values.update({row: share.names[0], column: share.names[1]})
    step = e.named(inner)
    for var, extent in ((row, op.m), (column, op.n), (inner, op.k)):
        e.facts.bind_range(var, extent)
    a = _element(e, op.a, row, inner, op.transpose_a, wide)
    b = _element(e, op.b, inner, column, op.transpose_b, wide)
    own = e.array(op.c.buffer)
    sums = own if wide == str(dtype) else Array(e.names.take("sums").text, wide)
    place, result = own.at(share.register), sums.at(share.register)
    add = [*share.definitions, *under(both(share.guards), [Assign(result, result + a * b)])]
    code = counted(step, e.index(op.k), nested(share.loops, add), unroll=1)
    start = nested(share.loops, [Assign(result, _start(e, op, converted(place, dtype, wide), wide))])
    if sums is own:
        return [leaf([Block([*start, code], scoped=True)])]
    end = nested(share.loops, [Assign(place, converted(result, wide, dtype))])
    return [leaf([Block([DeclareArray(sums, share.count), *start, code, *end], scoped=True)])]


class _Share:
    """The elements of C that a thread sums up.

    Attributes:
        names: of the row and the column.
        loops: over the thread's registers, by name and extent.
        definitions: of the row and the column.
        register: the number of the register in C.
        count: of registers.
        guards: conditions under which there is such an element.
    """

    def __init__(self, e: Emitter, layout: FragmentLayout):
        self.loops: list[tuple[Name, int]] = []
        self.names: list[Name] = []
        self.definitions: list[Define] = []
        self.guards = [e.thread.is_("<", layout.threads)] if layout.threads < e.threads.count else []
        registers: list[Value] = []
        for axis, (modes, extent) in enumerate(zip(layout.modes, layout.shape)):
            parts, weight = [], 1
            for mode in modes:
                if mode.unit == THREAD:
                    digit = thread_digit(e.thread, mode.extent, mode.stride, e.threads.count)
                else:
                    digit = e.names.take("c")
                    self.loops.append((digit, mode.extent))
                    registers.append(digit * mode.stride)
                parts.append(digit * weight)
                weight *= mode.extent
            name = e.names.take("mn"[axis])
            self.names.append(name)
            self.definitions.append(Define(name, "int32", total(parts)))
            if weight != extent:
                self.guards.append(name.is_("<", extent))
        self.register = total(registers)
        self.count = prod(extent for _, extent in self.loops)


def _start(e: Emitter, op: Any, old: Value, wide: str) -> Value:
    """What a sum starts with: zero, or the old value of C."""
    zero, clear = Convert(wide, Number(0)), op.clear_accum
    if isinstance(clear, (bool, int)):
        return zero if clear else old
    return Select(e.value(clear), zero, old)


def _element(e: Emitter, region: Any, row: Any, column: Any, transposed: bool, wide: str) -> Value:
    return converted(e.places.element(region.buffer, matrix_index(region, row, column, transposed)), region.dtype, wide)
