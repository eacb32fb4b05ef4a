"""A sparse operand written out as a dense tile, for products that the tensor cores do not do as they are."""

from __future__ import annotations

from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.ir.region import Region
from tilelang.target.cuda.tile.build import typed
from tilelang.target.cuda.tile.nest import Axis, Nest


def expansion_nest(op: Any, dense: Any, span: Any) -> Nest:
    """A sparse operand written out: of each group of elements along K, the kept ones at their places, zero elsewhere.

    Four bits of metadata a group, groups from the low bits of a word up. A group of four keeps two, whose positions are two bits
    each, the lower one first; a group of two 32-bit elements keeps one, and the positions are those of its 16-bit halves.
    """
    row, column = ir.Var("i", "int32"), ir.Var("j", "int32")
    words, size = canonical(op.e.dtype).bits // 4, op.group
    group, place = column // size, column % size
    at = (group // words, row) if op.transpose_e else (row, group // words)
    word = ir.Cast("int32", _load_matrix(op.e, at))
    code = (word >> (group % words * 4)) & 15
    indices = [group * (size // 2) + number for number in range(size // 2)]
    kept = [_load_matrix(op.a, (index, row) if op.transpose_a else (row, index)) for index in indices]
    zero = typed(0, op.a.dtype)
    if size == 2:
        value = ir.Select((code >> 3) == place, kept[0], zero)
    else:
        value = ir.Select((code & 3) == place, kept[0], ir.Select((code >> 2) == place, kept[1], zero))
    axes = (Axis(row, as_int(op.m)), Axis(column, as_int(op.k)))
    return Nest.build(axes, ir.BufferStore(dense, value, [row, column], span), span, "T.gemm_sp")


def _load_matrix(region: Region, index: tuple[Any, Any]) -> Any:
    mins = [constant(low) if isinstance(low, int) else low for low in region.mins]
    return ir.BufferLoad(region.buffer, [*mins[:-2], mins[-2] + index[0], mins[-1] + index[1]])
