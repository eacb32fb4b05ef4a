"""How a tensor-core product gets its operands: by ``ldmatrix`` where their type and order allow it, else element by element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir.access import READ
from tilelang.ir.expr import constant
from tilelang.ir.memory import is_fragment, lies_in_shared
from tilelang.ir.visit import variables
from tilelang.layout.memory import TileLayout
from tilelang.target.cuda.ir.code import counted, nested
from tilelang.target.cuda.ir.conversions import converted
from tilelang.target.cuda.ir.instructions import Assign, DeclareArray, Define, LoadMatrix
from tilelang.target.cuda.ir.values import Array, Call, Field, Name, Number, Value, Word, total
from tilelang.target.cuda.ops.gemm_mma import Side

_CHUNK_BYTES = 16


def matrix_index(region: Any, row: Any, column: Any, transposed: bool = False) -> list[Any]:
    """The indices of an element of a product's operand, by its row and column there, in the buffer that holds it, perhaps
    transposed."""
    row, column = (column, row) if transposed else (row, column)
    return [constant(index) for index in region.matrix_index(row, column)]


@dataclass(eq=False)
class Operand:
    """One operand of a product, and how it comes to registers.

    Attributes:
        p: the product: its emitter, instruction, variables and names of loops.
        side: what the instruction takes of it.
        is_a: A or B.
        region: where it is.
        registers: the array that it is loaded to.
        count: tiles of a warp along M or N.
        warp: number of the warp along M or N.
        along_k: whether K is contiguous in memory.
        paired: whether neighbours along M or N belong to one lane: rows eight apart of A's tile, or two tiles of B.
    """

    p: Any
    side: Side
    is_a: bool
    region: Any
    registers: Array
    count: int
    warp: Any
    along_k: bool
    paired: bool = False

    def __post_init__(self) -> None:
        self.e, self.mma = self.p.e, self.p.mma
        self.loader = self._matrix_loader()

    @property
    def start(self) -> Any:
        """The first row of the warp along M or N."""
        return self.warp * (self.count * self.side.rows)

    @property
    def in_registers(self) -> bool:
        """Whether the program holds it in a fragment as the instruction takes it."""
        return is_fragment(self.region) and self.mma.operand is None and not self.is_rounded

    @property
    def is_rounded(self) -> bool:
        """Whether elements are rounded to tf32 on the way; the tensor core would drop their low bits."""
        return str(self.region.dtype) == "float32"

    @property
    def storage(self) -> int:
        """C++ elements that hold one lane's part of a tile (4-bit elements lie two in a byte)."""
        bits = canonical(self.region.dtype).bits
        return self.side.elements // 2 if bits == 4 else self.side.elements

    def prologue(self) -> list[Any]:
        """Declarations of the registers and of the base address."""
        if self.in_registers:
            return []
        declared = DeclareArray(self.registers, self.count * self.storage, 16)
        return [declared, *(self.loader.prologue() if self.loader is not None else [])]

    def pointer(self, tile: Value) -> Value:
        """The registers of one tile at this step."""
        if self.in_registers:
            return self.e.array(self.region.buffer).to(self._number(tile) * self.side.elements)
        return self.registers.to(tile * self.side.elements)

    def _number(self, tile: Value) -> Value:
        """The number of a tile at this step among those of the fragment that holds the operand."""
        return tile * self.p.steps + self.e.names.values[self.p.step]

    def load(self) -> list[Any]:
        """The loads of one step."""
        if self.in_registers:
            return []
        if self.loader is not None:
            code = self.loader.load(self.side.elements)
        else:
            code = self._pair_loads() or self._element_loads()
        return [*code, *self._rounding()]

    def _rounding(self) -> list[Any]:
        if not self.is_rounded:
            return []
        element = self.registers.at(self.p.r)
        return [counted(self.p.r, self.count * self.storage, [Assign(element, Call("tl::round_tf32", (element,)))])]

    def _matrix_loader(self) -> MatrixLoader | None:
        region = self.region
        layout = self.e.layouts.memory.get(region.buffer)
        bits = canonical(region.dtype).bits
        if not lies_in_shared(region) or self.mma.operand is not None or bits > 32:
            return None
        # ldmatrix moves 32-bit words of a row to each lane, and transposes 16-bit elements only.
        # Words of 32 bits along K are what each lane holds for any type, so that without a transposition only bytes count.
        bytewise = bits == 8 and self.paired
        if not isinstance(layout, TileLayout) or not (bits == 16 or self.along_k or bytewise):
            return None
        chunk = _CHUNK_BYTES * 8 // bits
        row_axis, column_axis = region.matrix_axes
        rows, columns = layout.modes[row_axis], layout.modes[column_axis]
        # Each lane names 16 contiguous, aligned bytes.
        if layout.vector < chunk or columns[0][1] != 1 or len(rows) > 1 or not (len(columns) == 1 or _in_panels(layout, columns)):
            return None
        row_min, column_min = region.mins[row_axis], region.mins[column_axis]
        if not self.e.facts.divisible(row_min, 8) or not self.e.facts.divisible(column_min, chunk):
            return None
        return MatrixLoader(self, layout, chunk)

    def _pair_loads(self) -> list[Any] | None:
        """Loads of two neighbouring 32-bit elements each; None where they may not be adjacent."""
        e, p = self.e, self.p
        layout = e.layouts.memory.get(self.region.buffer)
        if not self.paired or canonical(self.region.dtype).bits != 32 or not isinstance(layout, TileLayout) or layout.vector < 2:
            return None
        # Eight bytes at once need an even column.
        if not self.region.has_rows or not e.facts.divisible(self.region.mins[-1], 2):
            return None
        count, each = (self.count, self.side.elements) if self.is_a else (self.count // 2, 2 * self.side.elements)
        tile, part = e.variable("i", count, p.i), e.variable("r", each // 2, p.r)
        column = self.start + tile * 16 + p.lane // 4 * 2
        row = p.step * self.side.depth + part * 4 + p.lane % 4
        source = Word(e.places.address(self.region.buffer, matrix_index(self.region, row, column), READ), 8, "float2")
        first = p.i * each
        if self.is_a:
            move = [Assign(Word(self.registers.to(first + p.r * 2), 8, "float2"), source)]
        else:
            # Neighbours along n belong to two tiles of B: a register of each tile takes one of them.
            pair = e.names.take("pair")
            halves = [self.registers.at(first + p.r), self.registers.at(first + self.side.elements + p.r)]
            move = [Define(pair, "float2", source), *(Assign(half, Field(pair, at)) for half, at in zip(halves, "xy"))]
        return nested([(p.i, count), (p.r, each // 2)], move)

    def _element_loads(self) -> list[Any]:
        """One load an element, for types and orders that ldmatrix does not have."""
        e, mma, p = self.e, self.mma, self.p
        tile, part = e.variable("i", self.count, p.i), e.variable("r", self.side.elements, p.r)
        # Element r of a lane: its low digit runs along K in one register (`pack`), the next one over rows eight apart, the rest
        # over the registers along K.
        rows = self.side.groups
        if self.paired:
            row = self.start + (tile * 16 + part // mma.pack % 2 if self.is_a else tile // 2 * 16 + tile % 2) + p.lane // 4 * 2
        else:
            row = self.start + tile * self.side.rows + p.lane // 4 + (part // mma.pack % rows * 8 if rows > 1 else 0)
        column = p.step * self.side.depth + part // (mma.pack * rows) * (4 * mma.pack) + p.lane % 4 * mma.pack
        if mma.pack > 1:
            column = column + part % mma.pack
        region = self.region
        if is_fragment(region):
            element = e.array(region.buffer).at(self._number(p.i) * self.side.elements + p.r)
        else:
            element = e.places.place(region.buffer, matrix_index(region, row, column, not self.along_k))
        value = converted(element, region.dtype, mma.operand or region.dtype)
        load = Assign(self.registers.at(p.i * self.side.elements + p.r), value)
        return nested([(p.i, self.count), (p.r, self.side.elements)], [load])


def _in_panels(layout: TileLayout, columns: Any) -> bool:
    """Whether the columns lie in panels that are as wide as what the swizzle exchanges."""
    return len(columns) == 2 and layout.swizzle is not None and columns[0][0] == layout.swizzle.reach


class MatrixLoader:
    """Loads an operand by ldmatrix: each lane gives the address of a row of eight 16-byte chunks.

    Addresses are a base, known before the loop over K, plus multiples of rows and of panels, XORed with the part of the column's
    chunk that the swizzle covers; so a step costs one XOR and the immediate offsets of the loads.
    """

    def __init__(self, operand: Operand, layout: TileLayout, chunk: int):
        self.p, self.operand, self.layout, self.chunk = operand.p, operand, layout, chunk
        self.base = Name(f"{operand.registers.name}_base")
        self.bytewise = operand.paired and not operand.along_k

    def _origin(self) -> tuple[Any, Any]:
        """Row and column of this lane's address in the operand as it lies: in the first tile of the first step."""
        # ldmatrix.x4 loads four 8 x 8 matrices: lanes 0 to 7 give the rows of the first one, 8 to 15 of the second, and so on
        # (PTX manual, "ldmatrix").
        lane, o = self.p.lane, self.operand
        row, low, high = lane % 8, lane // 8 % 2, lane // 16  # the row in its matrix, and the digits of the matrix's number
        if self.bytewise:
            # Two matrices are the even and the odd rows of sixteen: together they hold four neighbours along K for each lane.
            return high * 16 + row * 2 + low, o.start
        # The matrices are ordered as the registers of the instruction are: those of A first along M, those of B first along K,
        # of two tiles; where the four are one tile's they lie along K.
        if o.side.halves == 4:
            across, along = 0, lane // 8
        else:
            across, along = (low, high) if o.is_a else (high, low)
        if o.along_k:
            return across * 8 + row + o.start, along * self.chunk
        return along * 8 + row, across * 8 + o.start

    @property
    def separable(self) -> bool:
        """Whether a tile's column can be XORed into the base address."""
        swizzle = self.layout.swizzle
        if swizzle is None:
            return True
        # Rows that are less than a period apart are XORed with different numbers.
        if self._row_step() % (1 << (swizzle.shift + swizzle.bits)):
            return False
        reach = swizzle.reach
        o = self.operand
        facts = self.p.e.facts
        # The XOR of a sum is the sum of the XORs only where nothing carries into the bits that the swizzle covers.
        if not facts.divisible(o.region.mins[o.region.matrix_axes[1]], reach):
            return False
        if o.along_k:
            return True
        width = o.count * o.side.rows
        # The base has the warp's start in it, a multiple of the width: it and a tile's column must have no bit in common.
        return width % reach == 0 or width & (width - 1) == 0

    def _row_step(self) -> int:
        """Rows of memory from one load to the next: of the next tile, or of the next step where K runs along the rows."""
        o = self.operand
        if not o.along_k:
            return o.side.depth
        return o.side.rows if o.is_a or o.side.halves == 4 else 2 * o.side.rows

    def prologue(self) -> list[Any]:
        """The base address; what depends on the thread alone is computed once, before all loops."""
        if not self.separable:
            return []
        e, buffer = self.p.e, self.operand.region.buffer
        indices = self._indices(*self._origin())
        if any(set(variables(index)) - {self.p.lane, self.p.warp} for index in indices if not isinstance(index, int)):
            return [Define(self.base, "int32", e.places.offset(buffer, indices))]
        with e.substituting({self.p.lane: e.thread & 31, self.p.warp: e.thread >> 5}):
            lane = e.keep(e.places.tile_offset(buffer, indices), f"{self.operand.registers.name}_lane")
        return [Define(self.base, "int32", total(e.places.in_slot(buffer, lane)))]

    def _indices(self, row: Any, column: Any) -> list[Any]:
        return matrix_index(self.operand.region, row, column)

    def load(self, each: int) -> list[Any]:
        """The loads of all tiles of one step, each of so many elements."""
        o, i, j = self.operand, self.p.i, self.p.j
        suffix = "" if o.along_k else "_trans"
        if self.bytewise and o.is_a:
            return self._loads("bytes_rows", i, o.count, each, 16)
        if self.bytewise:
            return self._loads("bytes_columns", i, o.count // 2, 2 * each, 16)
        if o.is_a or o.side.halves == 4:
            return self._loads(f"x4{suffix}", i, o.count, each, o.side.rows)
        code, pairs = [], o.count // 2
        if pairs:
            code += self._loads(f"x4{suffix}", j, pairs, 2 * each, 2 * o.side.rows)
        if o.count % 2:
            last = self._address(Number(pairs), 2 * o.side.rows)
            code.append(LoadMatrix(f"x2{suffix}", o.registers.to((o.count - 1) * each), last))
        return code

    def _loads(self, form: str, at: Name, count: int, each: int, rows: int) -> list[Any]:
        return [counted(at, count, [LoadMatrix(form, self.operand.registers.to(at * each), self._address(at, rows))])]

    def _address(self, tile: Value, rows: int) -> Value:
        """The address for a tile (variable or number) of ``rows`` along M or N at this step."""
        e, o = self.p.e, self.operand
        along, across = e.names.values[self.p.step] * o.side.depth, tile * rows
        row, column = (across, along) if o.along_k else (along, across)
        start = e.array(o.region.buffer).to(0)
        if not self.separable:
            return start + self._full_offset(row, column)
        swizzle = self.layout.swizzle
        # The mask depends on the row, and rows of all tiles and steps are whole periods apart: the base has it already. The
        # column's low part meets it by XOR, the rest lies above the masked bits and is added.
        (row_mode,), columns = (self.layout.modes[axis] for axis in o.region.matrix_axes)
        row_part = row * row_mode[1]
        if swizzle is None:
            return start + self.base + column + row_part
        reach = swizzle.reach
        high = column & ~(reach - 1)
        if len(columns) > 1:  # a panel holds all rows
            high = high * (columns[1][1] // reach)
        return start + (self.base ^ (column & reach - 1)) + high + row_part

    def _full_offset(self, row: Value, column: Value) -> Value:
        e = self.p.e
        origin_row, origin_column = self._origin()
        extra_row, extra_column = e.variable("row", 1 << 20, row), e.variable("column", 1 << 20, column)
        indices = self._indices(origin_row + extra_row, origin_column + extra_column)
        return e.places.offset(self.operand.region.buffer, indices)
