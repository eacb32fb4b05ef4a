"""Matrix products as code: ``ldmatrix`` and ``mma.sync``, or scalar loops where no instruction fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.layout.memory import TileLayout
from tilelang.target.cuda.code import Code, leaf_of
from tilelang.target.cuda.element_types import c_type, converted
from tilelang.target.cuda.emitter import Emitter
from tilelang.target.cuda.products import Product
from tilelang.target.cuda.tree import Operator

_CHUNK_BYTES = 16


def emit_product(emitter: Emitter, node: Operator, plan: Product) -> list[Code]:
    """The code of a product."""
    with emitter.names.scope():
        return PRODUCTS[plan.kind](emitter, node, plan)


def shared_operands(emitter: Emitter, op: Any) -> set[Any]:
    """Shared storage that a product reads."""
    return {emitter.root(region.buffer) for region in (op.a, op.b) if region.scope.startswith("shared")}


def clear_lines(emitter: Emitter, op: Any, count: int) -> list[str]:
    """Lines that zero the accumulators where the product does not use their old values."""
    if op.clear_accum in (False, 0):
        return []
    at = emitter.names.take("z")
    zero = f"for (int {at} = 0; {at} < {count}; ++{at}) {emitter.name(op.c.buffer)}[{at}] = {c_type(op.c.dtype)}(0);"
    if op.clear_accum in (True, 1):
        return ["#pragma unroll", zero]
    return [f"if ({emitter.text(op.clear_accum)}) {{", "  #pragma unroll", "  " + zero, "}"]


# Tensor cores --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Operand:
    """One operand of a product as the loader sees it.

    Attributes:
        region: where it is.
        name: of the register array that it is loaded to.
        count: tiles of a warp along M or N.
        rows: 16 for A, 8 for B: extent of a tile along M or N.
        warp: number of the warp along M or N.
        along_k: whether K is contiguous in memory.
        each: elements in one lane of a tile.
        is_a: A or B.
    """

    region: Any
    name: str
    count: int
    rows: int
    warp: Any
    along_k: bool
    each: int
    is_a: bool


def _emit_mma(emitter: Emitter, node: Operator, plan: Product) -> list[Code]:
    return _MmaText(emitter, node, plan).emit()


class _MmaText:
    def __init__(self, emitter: Emitter, node: Operator, plan: Product):
        self.e, self.op, self.plan, self.unit = emitter, node.op, plan, plan.unit
        self.lane, self.warp = ir.Var("lane", "int32"), ir.Var("warp", "int32")
        self.step = ir.Var("k", "int32")
        grid = plan.grid
        m, n = as_int(self.op.m), as_int(self.op.n)
        names = emitter.names
        warp_m = self.warp % grid.m if grid.m > 1 else 0
        warp_n = self.warp // grid.m % grid.n if grid.n > 1 else 0
        self.a = _Operand(
            self.op.a,
            names.take("a"),
            m // self.unit.m // grid.m,
            self.unit.m,
            warp_m,
            not self.op.transpose_a,
            self.unit.a_elements,
            True,
        )
        self.b = _Operand(
            self.op.b,
            names.take("b"),
            n // self.unit.n // grid.n,
            self.unit.n,
            warp_n,
            self.op.transpose_b,
            self.unit.b_elements,
            False,
        )
        self.steps = as_int(self.op.k) // self.unit.k
        self.i, self.j, self.r = names.take("i"), names.take("j"), names.take("r")

    def emit(self) -> list[Code]:
        e = self.e
        lane, warp, step = (e.names.take(name) for name in ("lane", "warp", "k"))
        e.var_text.update({self.lane: lane, self.warp: warp, self.step: step})
        e.facts.bind_range(self.lane, 32)
        e.facts.bind_range(self.warp, max(1, e.scope.count // 32))
        e.facts.bind_range(self.step, self.steps)
        tiles = self.a.count * self.b.count
        lines = clear_lines(e, self.op, tiles * self.unit.c_elements)
        body = [*self._load(self.a), *self._load(self.b), *self._multiply()]
        lines += [
            "{",
            f"  const int {lane} = {e.thread} & 31, {warp} = {e.thread} >> 5;",
            *("  " + line for line in [*self.prologue(self.a), *self.prologue(self.b)]),
            "  #pragma unroll",
            f"  for (int {step} = 0; {step} < {self.steps}; ++{step}) {{",
            *("    " + line for line in body),
            "  }",
            "}",
        ]
        return [leaf_of(lines, shared_operands(e, self.op))]

    # Registers ---------------------------------------------------------------------------------------------------------

    def prologue(self, operand: _Operand) -> list[str]:
        """Declarations of an operand's registers and of its base address."""
        if self._in_registers(operand):
            return []
        element = self.unit.operand or operand.region.dtype
        lines = [f"alignas(16) {c_type(element)} {operand.name}[{operand.count * self._storage(operand)}];"]
        loader = self._matrix_loader(operand)
        return [*lines, *(loader.prologue() if loader is not None else [])]

    def _storage(self, operand: _Operand) -> int:
        """C++ elements that hold one lane's part of a tile (4-bit elements lie two in a byte)."""
        bits = canonical(operand.region.dtype).bits
        return operand.each // 2 if bits == 4 else operand.each

    def _in_registers(self, operand: _Operand) -> bool:
        return operand.region.scope == "local.fragment" and self.unit.operand is None

    def pointer(self, operand: _Operand, tile: str) -> str:
        """The registers of one tile of an operand at this step."""
        if self._in_registers(operand):
            name = self.e.name(operand.region.buffer)
            step = self.e.var_text[self.step]
            return f"&{name}[({tile} * {self.steps} + {step}) * {self._storage(operand)}]"
        return f"&{operand.name}[{tile} * {self._storage(operand)}]"

    def _multiply(self) -> list[str]:
        columns = self.b.count
        i, j = self.i, self.j
        accumulator = f"&{self.e.name(self.op.c.buffer)}[({i} * {columns} + {j}) * {self.unit.c_elements}]"
        return [
            "#pragma unroll",
            f"for (int {i} = 0; {i} < {self.a.count}; ++{i}) {{",
            "  #pragma unroll",
            f"  for (int {j} = 0; {j} < {columns}; ++{j})",
            f"    {self.unit.function}({accumulator}, {self.pointer(self.a, i)}, {self.pointer(self.b, j)});",
            "}",
        ]

    # Loads -------------------------------------------------------------------------------------------------------------

    def _load(self, operand: _Operand) -> list[str]:
        if self._in_registers(operand):
            return []
        loader = self._matrix_loader(operand)
        return loader.load() if loader is not None else self._element_loads(operand)

    def _matrix_loader(self, operand: _Operand) -> _MatrixLoader | None:
        region = operand.region
        layout = self.e.layouts.memory.get(region.buffer)
        bits = canonical(region.dtype).bits
        if not region.scope.startswith("shared") or self.unit.operand is not None or bits > 32:
            return None
        if not isinstance(layout, TileLayout) or (bits != 16 and not operand.along_k):
            return None
        chunk = _CHUNK_BYTES * 8 // bits
        if layout.vector < chunk or layout.modes[-1][0][1] != 1 or len(layout.modes[-1]) > 1 or len(layout.modes[-2]) > 1:
            return None
        row_min, column_min = region.mins[-2:]
        if not self.e.facts.divisible(row_min, 8) or not self.e.facts.divisible(column_min, chunk):
            return None
        return _MatrixLoader(self, operand, layout, chunk)

    def _element_loads(self, operand: _Operand) -> list[str]:
        """One load an element, for types and orders that ldmatrix does not have."""
        e, unit = self.e, self.unit
        tile, part = ir.Var("i", "int32"), ir.Var("r", "int32")
        i, r = self.i, self.r
        e.var_text.update({tile: i, part: r})
        e.facts.bind_range(tile, operand.count)
        e.facts.bind_range(part, operand.each)
        rows = unit.rows if operand.is_a else 1
        row = operand.warp * (operand.count * operand.rows) + tile * operand.rows + self.lane // 4
        if rows > 1:
            row = row + part // unit.pack % rows * 8
        column = self.step * unit.k + part // (unit.pack * rows) * (4 * unit.pack) + self.lane % 4 * unit.pack
        if unit.pack > 1:
            column = column + part % unit.pack
        index = (row, column) if operand.along_k else (column, row)
        region = operand.region
        indices = [*region.mins[:-2], region.mins[-2] + index[0], region.mins[-1] + index[1]]
        indices = [ir.IntImm("int32", i) if isinstance(i, int) else i for i in indices]
        element = self.unit.operand or region.dtype
        if region.scope == "local.fragment":
            place = f"{e.name(region.buffer)}[({i} * {self.steps} + {e.var_text[self.step]}) * {operand.each} + {r}]"
        else:
            place = e.place(region.buffer, indices)
        value = converted(place, region.dtype, element)
        return [
            "#pragma unroll",
            f"for (int {i} = 0; {i} < {operand.count}; ++{i}) {{",
            "  #pragma unroll",
            f"  for (int {r} = 0; {r} < {operand.each}; ++{r}) {operand.name}[{i} * {operand.each} + {r}] = {value};",
            "}",
        ]


class _MatrixLoader:
    """Loads an operand by ldmatrix: each lane gives the address of a row of eight 16-byte chunks.

    Addresses are a base, known before the loop over K, plus multiples of rows, XORed with the part of the column's chunk that
    the swizzle covers; so a step costs one XOR and the immediate offsets of the loads.
    """

    def __init__(self, product: _MmaText, operand: _Operand, layout: TileLayout, chunk: int):
        self.p, self.operand, self.layout, self.chunk = product, operand, layout, chunk
        self.base = f"{operand.name}_base"

    def _origin(self) -> tuple[Any, Any]:
        """Row and column of this lane's address in the first tile of the first step, in memory's axes."""
        lane, o = self.p.lane, self.operand
        start = o.warp * (o.count * o.rows)
        if o.is_a and o.along_k:
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
        """The base address."""
        if not self.separable:
            return []
        e, region = self.p.e, self.operand.region
        row, column = self._origin()
        return [f"const int {self.base} = {e.offset(region.buffer, [*self._leading(), row, column])};"]

    def _leading(self) -> list[Any]:
        return [ir.IntImm("int32", i) if isinstance(i, int) else i for i in self.operand.region.mins[:-2]]

    def load(self) -> list[str]:
        """The loads of all tiles of one step."""
        o, i, j = self.operand, self.p.i, self.p.j
        suffix = "" if o.along_k else "_trans"
        storage = self.p._storage(o)
        if o.is_a:
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
        e, o, unit = self.p.e, self.operand, self.p.unit
        step = e.var_text[self.p.step]
        pitch = self.layout.modes[-2][0][1]
        along, across = (f"{step} * {unit.k}", f"{tile} * {rows}")
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
        return e.offset(self.operand.region.buffer, indices)


# Scalar products -----------------------------------------------------------------------------------------------------


def _emit_scalar(emitter: Emitter, node: Operator, plan: Product) -> list[Code]:
    """Each thread sums its own elements of C."""
    from tilelang.target.cuda.nest_text import thread_digit

    e, op = emitter, node.op
    accumulate = str(op.c.dtype)
    wide = "float32" if canonical(accumulate).is_float and canonical(accumulate).bits < 32 else accumulate
    lines, depth, guards = [], 0, []
    if plan.c.threads < e.scope.count:
        guards.append(f"{e.thread} < {plan.c.threads}")
    variables, register = [], []
    for axis, (modes, extent) in enumerate(zip(plan.c.modes, plan.c.shape)):
        parts, weight = [], 1
        for mode in modes:
            if mode.unit == "thread":
                text = thread_digit(e.thread, mode.extent, mode.stride, e.scope.count)
            else:
                text = e.names.take("c")
                header = f"for (int {text} = 0; {text} < {mode.extent}; ++{text}) {{"
                lines += ["  " * depth + "#pragma unroll", "  " * depth + header]
                depth += 1
                register.append(f"{text} * {mode.stride}")
            parts.append(f"{text} * {weight}")
            weight *= mode.extent
        name = e.names.take("mn"[axis])
        variables.append((name, " + ".join(parts) or "0"))
        if weight != extent:
            guards.append(f"{name} < {extent}")
    lines += ["  " * depth + f"const int {name} = {text};" for name, text in variables]
    row, column, inner = (ir.Var(name, "int32") for name in ("m", "n", "k"))
    k_name = e.names.take("k")
    e.var_text.update({row: variables[0][0], column: variables[1][0], inner: k_name})
    for var, extent in ((row, op.m), (column, op.n), (inner, op.k)):
        e.facts.bind_range(var, extent)
    a = _operand_text(e, op.a, (inner, row) if op.transpose_a else (row, inner), wide)
    b = _operand_text(e, op.b, (column, inner) if op.transpose_b else (inner, column), wide)
    place = f"{e.name(op.c.buffer)}[{' + '.join(register) or '0'}]"
    kept = f"({e.text(op.clear_accum)} ? {c_type(wide)}(0) : {converted(place, accumulate, wide)})"
    start = {0: converted(place, accumulate, wide), 1: f"{c_type(wide)}(0)"}.get(
        int(op.clear_accum) if isinstance(op.clear_accum, (bool, int)) else -1, kept
    )
    sum_name = e.names.take("sum")
    body = [
        f"{c_type(wide)} {sum_name} = {start};",
        f"for (int {k_name} = 0; {k_name} < {e.simple(op.k)}; ++{k_name}) {sum_name} += {a} * {b};",
        f"{place} = {converted(sum_name, wide, accumulate)};",
    ]
    if guards:
        body = [f"if ({' && '.join(guards)}) {{", *("  " + line for line in body), "}"]
    lines += ["  " * depth + line for line in body]
    lines += ["  " * level + "}" for level in range(depth - 1, -1, -1)]
    return [leaf_of(lines, shared_operands(e, op))]


def _operand_text(e: Emitter, region: Any, index: tuple[Any, Any], wide: str) -> str:
    indices = [*region.mins[:-2], region.mins[-2] + index[0], region.mins[-1] + index[1]]
    indices = [ir.IntImm("int32", i) if isinstance(i, int) else i for i in indices]
    return converted(e.element(region.buffer, indices), region.dtype, wide)


PRODUCTS: Mapping[str, Callable[[Emitter, Operator, Product], list[Code]]] = {"mma": _emit_mma, "scalar": _emit_scalar}
"""Rules by the kind of plan."""
