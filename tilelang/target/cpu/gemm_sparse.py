"""``T.gemm_sp``: the sparse operand is expanded into a dense tile, and multiplied like any other.

Each group of four consecutive K elements keeps two; four bits of metadata say where: two positions of two bits, the lower one
first. A group of two 32-bit elements keeps one, and the positions are those of its 16-bit halves. A metadata element of w bits
describes ``w / 4`` groups, from its low bits up.
"""

from __future__ import annotations

from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.ir.memory import ARRAY
from tilelang.ir.region import Region
from tilelang.target.cpu.emit import alloc, loop, nest, seq, zero
from tilelang.target.cpu.gemm import lower_gemm
from tilelang.target.cpu.lower import Scope, rule
from tilelang.target.cpu.tiles import element
from tilelang.tileop.gemm import Gemm, GemmSparse


@rule(GemmSparse)
def lower_gemm_sparse(record: GemmSparse, scope: Scope) -> Any:
    """Expands A, then ``C (+)= op(A) op(B)``."""
    m, k, size = as_int(record.m), as_int(record.k), record.group
    dense = ir.decl_buffer((m, k), record.a.dtype, name="a_dense", layout=None, scope=ARRAY, data_alignment=64)
    # Four bits of metadata for each group: two indices of two bits (PTX ISA, Sparse matrix storage). For 32-bit elements, groups
    # of two, the second index alone decides.
    groups_per_word = canonical(record.e.dtype).bits // 4

    def kept(row: Any, column: Any) -> Any:
        return element(record.a, column, row) if record.transpose_a else element(record.a, row, column)

    def word(row: Any, column: Any) -> Any:
        return element(record.e, column, row) if record.transpose_e else element(record.e, row, column)

    def group(at: list[Any]) -> Any:
        row, g = at[0], constant(at[1])
        code = ir.Var("code", "int32")
        bits = ir.Cast("int32", word(row, ir.FloorDiv(g, constant(groups_per_word))))
        shifted = bits >> (ir.FloorMod(g, constant(groups_per_word)) * 4)
        first, second, none = code & 3, (code >> 2) & 3, zero(record.a.dtype)

        def store(place: Any) -> Any:
            if size == 2:
                value = ir.Select((second >> 1) == place, kept(row, g), none)
            else:
                value = ir.Select(first == place, kept(row, g * 2), ir.Select(second == place, kept(row, g * 2 + 1), none))
            return ir.BufferStore(dense, value, [row, g * size + place])

        return seq(ir.Bind(code, shifted), loop("place", size, store))

    product = Gemm(
        Region.whole(dense), record.b, record.c, record.clear_accum, transpose_b=record.transpose_b, policy=record.policy
    )
    return seq(alloc(dense), nest([m, k // size], group), lower_gemm(product, scope))
