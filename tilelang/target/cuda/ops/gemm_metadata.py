"""The metadata of a sparse product: which elements of K the stored ones of A are, in the registers that ``mma.sp`` reads.

Each group of elements has four bits. For 16- and 32-bit types a lane of an even or odd number in its quad supplies four groups of
two rows (PTX manual, "Sparse matrix storage"): the row of the quad in the low half of its register, the row eight below in the
high half. For 8-bit types it supplies eight groups of one row: odd lanes of a quad those of the row eight below.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.target.cuda.ir.code import counted
from tilelang.target.cuda.ir.instructions import Assign, DeclareArray
from tilelang.target.cuda.ir.values import Array, Call, Convert, Literal, Value


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
        tile = ir.Var("i", "int32")
        e.values[tile] = p.i
        e.facts.bind_range(tile, self.count)
        row = self.warp * (self.count * 16) + tile * 16 + p.lane // 4
        if p.unit.pack == 4:
            word = self._piece(row + p.lane % 2 * 8, p.step * 2 + p.lane // 2 % 2, 32)
        else:
            part = p.step * 2 + p.lane % 2
            word = self._piece(row, part, 16) | self._piece(row + 8, part, 16) << 16
        return [counted(p.i, self.count, [Assign(self.registers.at(p.i), Call("tl::sparse_metadata", (word,)))])]

    def _piece(self, row: Any, number: Any, bits: int) -> Value:
        """``bits`` consecutive bits of a row's metadata, the ``number``-th such."""
        width = canonical(self.region.dtype).bits
        if width > bits:
            element = self._element(row, number // (width // bits))
            return element >> self.e.index(number % (width // bits) * bits) & Literal((1 << bits) - 1, "uint32")
        parts = bits // width
        found = [self._element(row, number * parts + part) << part * width for part in range(parts)]
        return functools.reduce(operator.or_, found)

    def _element(self, row: Any, column: Any) -> Value:
        region = self.region
        index = (column, row) if self.p.op.transpose_e else (row, column)
        indices = [*region.mins[:-2], region.mins[-2] + index[0], region.mins[-1] + index[1]]
        indices = [ir.IntImm("int32", i) if isinstance(i, int) else i for i in indices]
        bits = canonical(region.dtype).bits
        element = Convert("uint64" if bits == 64 else "uint32", self.e.places.place(region.buffer, indices))
        return element & Literal((1 << bits) - 1, "uint32") if bits < 32 else element
