"""Sparse operands of a product: their metadata in the registers that ``mma.sp`` reads, or the operand as a dense tile.

Each group of elements along K has four bits of metadata. For 16- and 32-bit types a lane of an even or odd number in its quad
supplies four groups of two rows (PTX manual, "Sparse matrix storage"): the row of the quad in the low half of its register, the
row eight below in the high half. For 8-bit types it supplies eight groups of one row: odd lanes of a quad those of the row eight
below.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.target.cuda.ir.code import counted
from tilelang.target.cuda.ir.instructions import Assign, DeclareArray
from tilelang.target.cuda.ir.values import Array, Call, Convert, Literal, Value
from tilelang.target.cuda.ops.gemm_operand import matrix_index
from tilelang.target.cuda.tile.build import typed
from tilelang.target.cuda.tile.nest import Axis, Nest


class MetadataLoader:
    """Loads one register of metadata for each tile of A.

    Args:
        product: the product.
        warp: number of the warp along M.
        count: tiles of a warp along M.
    """

    def __init__(self, product: Any, warp: Any, count: int):
        self.p, self.e, self.warp, self.count = product, product.e, warp, count
        self.region = product.op.e
        self.registers = Array(product.e.names.take("e").text, "uint32")

    def prologue(self) -> list[Any]:
        """The declaration of the registers."""
        return [DeclareArray(self.registers, self.count)]

    def register(self, tile: Value) -> Value:
        """The register of a tile."""
        return self.registers.at(tile)

    def load(self) -> list[Any]:
        """The loads of one step."""
        p, e = self.p, self.e
        tile = e.variable("i", self.count, p.i)
        row = self.warp * (self.count * 16) + tile * 16 + p.lane // 4
        # PTX manual, "Sparse matrix storage": for 8-bit types even and odd lanes hold rows g and g + 8, in words of their own;
        # for 16-bit types one word has row g in its lower and row g + 8 in its upper half.
        if p.mma.pack == 4:
            word = self._piece(row + p.lane % 2 * 8, p.step * 2 + p.lane // 2 % 2, 32)
        else:
            part = p.step * 2 + p.lane % 2
            word = self._piece(row, part, 16) | self._piece(row + 8, part, 16) << 16
        return [counted(p.i, self.count, [Assign(self.registers.at(p.i), Call("tl::sparse_metadata", (word,)))])]

    def _piece(self, row: Any, number: Any, bits: int) -> Value:
        """The ``number``-th group of ``bits`` bits of a row's metadata."""
        width = canonical(self.region.dtype).bits
        if width > bits:
            element = self._element(row, number // (width // bits))
            return element >> self.e.index(number % (width // bits) * bits) & Literal((1 << bits) - 1, "uint32")
        parts = bits // width
        found = [self._element(row, number * parts + part) << part * width for part in range(parts)]
        return functools.reduce(operator.or_, found)

    def _element(self, row: Any, column: Any) -> Value:
        region = self.region
        indices = matrix_index(region, row, column, self.p.op.transpose_e)
        bits = canonical(region.dtype).bits
        element = Convert("uint64" if bits == 64 else "uint32", self.e.places.place(region.buffer, indices))
        return element & Literal((1 << bits) - 1, "uint32") if bits < 32 else element


def expansion_nest(op: Any, dense: Any, span: Any) -> Nest:
    """A sparse operand written out to a dense tile: of each group along K, the kept elements at their places, zero elsewhere.

    Four bits of metadata a group, groups from the low bits of a word up. A group of four keeps two, whose positions are two
    bits each, the lower one first; a group of two 32-bit elements keeps one, and the positions are those of its 16-bit halves."""
    row, column = ir.Var("i", "int32"), ir.Var("j", "int32")
    words, size = canonical(op.e.dtype).bits // 4, op.group
    group, place = column // size, column % size
    word = ir.Cast("int32", ir.BufferLoad(op.e.buffer, matrix_index(op.e, row, group // words, op.transpose_e)))
    code = (word >> (group % words * 4)) & 15
    indices = [group * (size // 2) + number for number in range(size // 2)]
    kept = [ir.BufferLoad(op.a.buffer, matrix_index(op.a, row, index, op.transpose_a)) for index in indices]
    zero = typed(0, op.a.dtype)
    if size == 2:
        value = ir.Select((code >> 3) == place, kept[0], zero)
    else:
        value = ir.Select((code & 3) == place, kept[0], ir.Select((code >> 2) == place, kept[1], zero))
    axes = (Axis(row, as_int(op.m)), Axis(column, as_int(op.k)))
    return Nest.build(axes, ir.BufferStore(dense, value, [row, column], span), span, "T.gemm_sp")
