"""The metadata of a sparse product: which elements of K the stored ones of A are, in the registers that ``mma.sp`` reads.

Each group of elements has four bits. For 16- and 32-bit types a lane of an even or odd number in its quad supplies four groups of
two rows (PTX manual, "Sparse matrix storage"): the row of the quad in the low half of its register, the row eight below in the
high half. For 8-bit types it supplies eight groups of one row: odd lanes of a quad those of the row eight below.
"""

from __future__ import annotations

from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir


class MetadataText:
    """The lines that load one register of metadata for each tile of A.

    Args:
        product: the product's text.
        warp: number of the warp along M.
        count: tiles of a warp along M.
    """

    def __init__(self, product: Any, warp: Any, count: int):
        self.p, self.e, self.warp, self.count = product, product.e, warp, count
        self.region = product.op.e
        self.name = product.e.names.take("e")

    def prologue(self) -> list[str]:
        """The declaration of the registers."""
        return [f"uint {self.name}[{self.count}];"]

    def register(self, tile: str) -> str:
        """The register of a tile."""
        return f"{self.name}[{tile}]"

    def load(self) -> list[str]:
        """The loads of one step."""
        p, e = self.p, self.e
        tile = ir.Var("i", "int32")
        e.var_text[tile] = p.i
        e.facts.bind_range(tile, self.count)
        row = self.warp * (self.count * 16) + tile * 16 + p.lane // 4
        if p.unit.pack == 4:
            word = self._piece(row + p.lane % 2 * 8, p.step * 2 + p.lane // 2 % 2, 32)
        else:
            part = p.step * 2 + p.lane % 2
            word = f"{self._piece(row, part, 16)} | {self._piece(row + 8, part, 16)} << 16"
        header = f"for (int {p.i} = 0; {p.i} < {self.count}; ++{p.i})"
        return ["#pragma unroll", f"{header} {self.name}[{p.i}] = tl::sparse_metadata({word});"]

    def _piece(self, row: Any, number: Any, bits: int) -> str:
        """``bits`` consecutive bits of a row's metadata, the ``number``-th such."""
        width = canonical(self.region.dtype).bits
        if width > bits:
            element = self._element(row, number // (width // bits))
            shift = self.e.simple(number % (width // bits) * bits)
            return f"(({element} >> ({shift})) & {(1 << bits) - 1:#x}u)"
        parts = bits // width
        found = [self._element(row, number * parts + part) for part in range(parts)]
        return "(" + " | ".join(text if not at else f"{text} << {at * width}" for at, text in enumerate(found)) + ")"

    def _element(self, row: Any, column: Any) -> str:
        region = self.region
        index = (column, row) if self.p.op.transpose_e else (row, column)
        indices = [*region.mins[:-2], region.mins[-2] + index[0], region.mins[-1] + index[1]]
        indices = [ir.IntImm("int32", i) if isinstance(i, int) else i for i in indices]
        bits = canonical(region.dtype).bits
        word = "uint64_t" if bits == 64 else "uint"
        mask = f" & {(1 << bits) - 1:#x}u" if bits < 32 else ""
        return f"({word}({self.e.places.place(region.buffer, indices)}){mask})"
