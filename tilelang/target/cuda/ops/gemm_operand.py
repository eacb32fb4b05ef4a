"""How a tensor-core product gets its operands: by ``ldmatrix`` where their type and order allow it, else element by element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.visit import variables
from tilelang.layout.memory import TileLayout
from tilelang.target.cuda.codegen.element_types import c_type, converted

_CHUNK_BYTES = 16


@dataclass(frozen=True, eq=False)
class Operand:
    """One operand of a product as the loader sees it.

    Attributes:
        region: where it is.
        name: of the register array that it is loaded to.
        count: tiles of a warp along M or N.
        rows: 16 for A, 8 for B: extent of a tile along M or N.
        warp: number of the warp along M or N.
        along_k: whether K is contiguous in memory.
        halves: registers of one row along K.
        depth: elements along K that one step takes.
        each: elements in one lane of a tile.
        is_a: A or B.
        paired: whether neighbours along M or N belong to one lane: rows eight apart of A's tile, or two tiles of B.
    """

    region: Any
    name: str
    count: int
    rows: int
    warp: Any
    along_k: bool
    halves: int
    depth: int
    each: int
    is_a: bool
    paired: bool = False


class OperandText:
    """The lines that bring one operand to registers.

    Args:
        product: the product's text: its emitter ``e``, ``unit``, variables ``lane``, ``warp``, ``step``, and names of indices.
    """

    def __init__(self, product: Any, operand: Operand):
        self.p, self.o, self.e, self.unit = product, operand, product.e, product.unit
        self.loader = self._matrix_loader()

    @property
    def in_registers(self) -> bool:
        """Whether the program holds it in a fragment as the instruction takes it."""
        return self.o.region.scope == "local.fragment" and self.unit.operand is None and not self.is_rounded

    @property
    def is_rounded(self) -> bool:
        """Whether elements are rounded to tf32 on the way; the tensor core would drop their low bits."""
        return str(self.o.region.dtype) == "float32"

    @property
    def storage(self) -> int:
        """C++ elements that hold one lane's part of a tile (4-bit elements lie two in a byte)."""
        bits = canonical(self.o.region.dtype).bits
        return self.o.each // 2 if bits == 4 else self.o.each

    def prologue(self) -> list[str]:
        """Declarations of the registers and of the base address."""
        if self.in_registers:
            return []
        element = self.unit.operand or self.o.region.dtype
        lines = [f"alignas(16) {c_type(element)} {self.o.name}[{self.o.count * self.storage}];"]
        return [*lines, *(self.loader.prologue() if self.loader is not None else [])]

    def pointer(self, tile: str) -> str:
        """The registers of one tile at this step."""
        if self.in_registers:
            name = self.e.name(self.o.region.buffer)
            step = self.e.var_text[self.p.step]
            return f"&{name}[({tile} * {self.p.steps} + {step}) * {self.storage}]"
        return f"&{self.o.name}[{tile} * {self.storage}]"

    def load(self) -> list[str]:
        """The loads of one step."""
        if self.in_registers:
            return []
        if self.loader is not None:
            lines = self.loader.load(self.storage)
        else:
            lines = self._pair_loads() or self._element_loads()
        return [*lines, *self._rounding()]

    def _rounding(self) -> list[str]:
        if not self.is_rounded:
            return []
        r, name = self.p.r, self.o.name
        header = f"for (int {r} = 0; {r} < {self.o.count * self.storage}; ++{r})"
        return ["#pragma unroll", f"{header} {name}[{r}] = tl::round_tf32({name}[{r}]);"]

    def _matrix_loader(self) -> MatrixLoader | None:
        region = self.o.region
        layout = self.e.layouts.memory.get(region.buffer)
        bits = canonical(region.dtype).bits
        if not region.scope.startswith("shared") or self.unit.operand is not None or bits > 32:
            return None
        bytewise = bits == 8 and self.o.paired
        if not isinstance(layout, TileLayout) or not (bits == 16 or self.o.along_k or bytewise):
            return None
        chunk = _CHUNK_BYTES * 8 // bits
        if layout.vector < chunk or layout.modes[-1][0][1] != 1 or len(layout.modes[-1]) > 1 or len(layout.modes[-2]) > 1:
            return None
        row_min, column_min = region.mins[-2:]
        if not self.e.facts.divisible(row_min, 8) or not self.e.facts.divisible(column_min, chunk):
            return None
        return MatrixLoader(self.p, self.o, layout, chunk)

    def _pair_loads(self) -> list[str] | None:
        """Loads of two neighbouring 32-bit elements each; None where they may not be adjacent."""
        e, p, o = self.e, self.p, self.o
        layout = e.layouts.memory.get(o.region.buffer)
        if not o.paired or canonical(o.region.dtype).bits != 32 or not isinstance(layout, TileLayout) or layout.vector < 2:
            return None
        if not e.facts.divisible(o.region.mins[-1], 2):
            return None
        tile, part = ir.Var("i", "int32"), ir.Var("r", "int32")
        e.var_text.update({tile: p.i, part: p.r})
        count, each = (o.count, o.each) if o.is_a else (o.count // 2, 2 * o.each)
        e.facts.bind_range(tile, count)
        e.facts.bind_range(part, each // 2)
        column = o.warp * (o.count * o.rows) + tile * 16 + p.lane // 4 * 2
        row = p.step * o.depth + part * 4 + p.lane % 4
        indices = [*o.region.mins[:-2], o.region.mins[-2] + row, o.region.mins[-1] + column]
        indices = [ir.IntImm("int32", index) if isinstance(index, int) else index for index in indices]
        source = f"*reinterpret_cast<const float2*>({e.places.address(o.region.buffer, indices)})"
        if o.is_a:
            move = [f"*reinterpret_cast<float2*>(&{o.name}[{p.i} * {each} + {p.r} * 2]) = {source};"]
        else:
            value = e.names.take("pair")
            low, high = (f"{o.name}[{p.i} * {each} + {at}{p.r}]" for at in ("", f"{o.each} + "))
            move = [f"const float2 {value} = {source};", f"{low} = {value}.x, {high} = {value}.y;"]
        return [
            "#pragma unroll",
            f"for (int {p.i} = 0; {p.i} < {count}; ++{p.i}) {{",
            "  #pragma unroll",
            f"  for (int {p.r} = 0; {p.r} < {each // 2}; ++{p.r}) {{",
            *("    " + line for line in move),
            "  }",
            "}",
        ]

    def _element_loads(self) -> list[str]:
        """One load an element, for types and orders that ldmatrix does not have."""
        e, unit, p, o = self.e, self.unit, self.p, self.o
        tile, part = ir.Var("i", "int32"), ir.Var("r", "int32")
        i, r = p.i, p.r
        e.var_text.update({tile: i, part: r})
        e.facts.bind_range(tile, o.count)
        e.facts.bind_range(part, o.each)
        rows = unit.rows if o.is_a else 1
        row = o.warp * (o.count * o.rows)
        if o.paired:
            row = row + (tile * 16 + part // unit.pack % 2 if o.is_a else tile // 2 * 16 + tile % 2) + p.lane // 4 * 2
        else:
            row = row + tile * o.rows + p.lane // 4 + (part // unit.pack % rows * 8 if rows > 1 else 0)
        column = p.step * o.depth + part // (unit.pack * rows) * (4 * unit.pack) + p.lane % 4 * unit.pack
        if unit.pack > 1:
            column = column + part % unit.pack
        index = (row, column) if o.along_k else (column, row)
        region = o.region
        indices = [*region.mins[:-2], region.mins[-2] + index[0], region.mins[-1] + index[1]]
        indices = [ir.IntImm("int32", i) if isinstance(i, int) else i for i in indices]
        if region.scope == "local.fragment":
            place = f"{e.name(region.buffer)}[({i} * {p.steps} + {e.var_text[p.step]}) * {o.each} + {r}]"
        else:
            place = e.places.place(region.buffer, indices)
        value = converted(place, region.dtype, unit.operand or region.dtype)
        return [
            "#pragma unroll",
            f"for (int {i} = 0; {i} < {o.count}; ++{i}) {{",
            "  #pragma unroll",
            f"  for (int {r} = 0; {r} < {o.each}; ++{r}) {o.name}[{i} * {o.each} + {r}] = {value};",
            "}",
        ]


class MatrixLoader:
    """Loads an operand by ldmatrix: each lane gives the address of a row of eight 16-byte chunks.

    Addresses are a base, known before the loop over K, plus multiples of rows, XORed with the part of the column's chunk that
    the swizzle covers; so a step costs one XOR and the immediate offsets of the loads.
    """

    def __init__(self, product: Any, operand: Operand, layout: TileLayout, chunk: int):
        self.p, self.operand, self.layout, self.chunk = product, operand, layout, chunk
        self.base = f"{operand.name}_base"
        self.bytewise = operand.paired and not operand.along_k

    def _origin(self) -> tuple[Any, Any]:
        """Row and column of this lane's address in the first tile of the first step, in memory's axes."""
        lane, o = self.p.lane, self.operand
        start = o.warp * (o.count * o.rows)
        if self.bytewise:
            # Two matrices are the even and the odd rows of sixteen: together they hold four neighbours along K for each lane.
            row, column = lane // 16 * 16 + lane % 8 * 2 + lane // 8 % 2, 0
        elif o.halves == 4 and o.along_k:
            row, column = lane % 8, lane // 8 * self.chunk
        elif o.halves == 4:
            row, column = lane, 0
        elif o.is_a and o.along_k:
            row, column = lane % 16, lane // 16 * self.chunk
        elif o.is_a:
            row, column = lane % 8 + lane // 16 * 8, lane // 8 % 2 * 8
        elif o.along_k:
            row, column = lane % 8 + lane // 16 * 8, lane // 8 % 2 * self.chunk
        else:
            row, column = lane % 16, lane // 16 * 8
        row, column = (row + start, column) if o.along_k else (row, column + start)
        region = o.region
        return region.mins[-2] + row, region.mins[-1] + column

    @property
    def separable(self) -> bool:
        """Whether a tile's column can be XORed into the base address."""
        swizzle = self.layout.swizzle
        if swizzle is None:
            return True
        if swizzle.shift + swizzle.bits > 4:
            return False
        reach = 1 << (swizzle.position + swizzle.bits)
        o = self.operand
        facts = self.p.e.facts
        if not facts.divisible(o.region.mins[-1], reach):
            return False
        if o.along_k:
            return True
        width = o.count * o.rows
        return width % reach == 0 or width & (width - 1) == 0

    def prologue(self) -> list[str]:
        """The base address; what depends on the thread alone is computed once, before all loops."""
        if not self.separable:
            return []
        e, buffer = self.p.e, self.operand.region.buffer
        indices = [*self._leading(), *self._origin()]
        if any(set(variables(index)) - {self.p.lane, self.p.warp} for index in indices if not isinstance(index, int)):
            return [f"const int {self.base} = {e.places.offset(buffer, indices)};"]
        local = {var: e.var_text[var] for var in (self.p.lane, self.p.warp)}
        e.var_text.update({self.p.lane: f"({e.thread} & 31)", self.p.warp: f"({e.thread} >> 5)"})
        name = e.keep(e.places.tile_offset(buffer, indices), f"{self.operand.name}_lane")
        e.var_text.update(local)
        return [f"const int {self.base} = {e.places.in_slot(buffer, name)};"]

    def _leading(self) -> list[Any]:
        return [ir.IntImm("int32", i) if isinstance(i, int) else i for i in self.operand.region.mins[:-2]]

    def load(self, storage: int) -> list[str]:
        """The loads of all tiles of one step, each ``storage`` C++ elements."""
        o, i, j = self.operand, self.p.i, self.p.j
        suffix = "" if o.along_k else "_trans"
        if self.bytewise:
            kind, each = ("rows", storage) if o.is_a else ("columns", 2 * storage)
            count = o.count if o.is_a else o.count // 2
            call = f"tl::ldmatrix_bytes_{kind}(&{o.name}[{i} * {each}], {self._address(i, 16)});"
            return ["#pragma unroll", f"for (int {i} = 0; {i} < {count}; ++{i})", f"  {call}"]
        if o.is_a or o.halves == 4:
            call = f"tl::ldmatrix_x4{suffix}(&{o.name}[{i} * {storage}], {self._address(i, o.rows)});"
            return ["#pragma unroll", f"for (int {i} = 0; {i} < {o.count}; ++{i})", f"  {call}"]
        lines = []
        pairs = o.count // 2
        if pairs:
            call = f"tl::ldmatrix_x4{suffix}(&{o.name}[{j} * {2 * storage}], {self._address(j, 2 * o.rows)});"
            lines += ["#pragma unroll", f"for (int {j} = 0; {j} < {pairs}; ++{j})", f"  {call}"]
        if o.count % 2:
            call = f"tl::ldmatrix_x2{suffix}(&{o.name}[{(o.count - 1) * storage}], {self._address(str(pairs), 2 * o.rows)});"
            lines.append(call)
        return lines

    def _address(self, tile: str, rows: int) -> str:
        """The address for a tile (variable or number) of ``rows`` along M or N at this step."""
        e, o = self.p.e, self.operand
        step = e.var_text[self.p.step]
        pitch = self.layout.modes[-2][0][1]
        along, across = (f"{step} * {o.depth}", f"{tile} * {rows}")
        row, column = (across, along) if o.along_k else (along, across)
        name = e.name(o.region.buffer)
        if not self.separable:
            return f"{name} + {self._full_offset(row, column)}"
        swizzle = self.layout.swizzle
        row_part = f"({row}) * {pitch}"
        offset = f"{self.base} + {column} + {row_part}"
        if swizzle is not None:
            reach = 1 << (swizzle.position + swizzle.bits)
            low, high = f"(({column}) & {reach - 1})", f"(({column}) & ~{reach - 1})"
            offset = f"({self.base} ^ {low}) + {high} + {row_part}"
        if str(o.region.dtype) in ("int4", "uint4"):
            return f"{name} + ({offset}) / 2"
        return f"{name} + {offset}"

    def _full_offset(self, row: str, column: str) -> str:
        e = self.p.e
        origin_row, origin_column = self._origin()
        extra_row, extra_column = ir.Var("row", "int32"), ir.Var("column", "int32")
        e.var_text.update({extra_row: f"({row})", extra_column: f"({column})"})
        e.facts.bind_range(extra_row, 1 << 20)
        e.facts.bind_range(extra_column, 1 << 20)
        indices = [*self._leading(), origin_row + extra_row, origin_column + extra_column]
        return e.places.offset(self.operand.region.buffer, indices)
