"""``T.gemm`` on a warp group's tensor cores (sm_90a): when it is possible, which layouts it demands, and its instructions.

wgmma reads B, and A unless it is in registers, straight from shared memory through a descriptor; one instruction multiplies
64 rows by up to 256 columns over 32 bytes of K. The product of a tile is a batch of instructions between one fence and one
commit. Shared operands lie in panels (:mod:`tilelang.layout.panels`), the bytes that the tensor memory accelerator writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tilelang.dtypes import canonical
from tilelang.errors import LayoutError
from tilelang.ir.access import READ
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_fragment, is_shared, lies_in_shared
from tilelang.ir.region import Region
from tilelang.ir.span import location_of
from tilelang.layout import FragmentLayout, TileLayout, on_register, on_thread
from tilelang.layout.fragment import Mode, join_modes
from tilelang.layout.panels import panel_bytes_of, panel_layout, panel_widths
from tilelang.records import Record
from tilelang.target.cuda.arch import WARP_GROUP
from tilelang.target.cuda.codegen.emitter import WARP_GROUP_NUMBER, Emitter
from tilelang.target.cuda.inference.problem import Problem
from tilelang.target.cuda.inference.shared_layouts import is_panels
from tilelang.target.cuda.ir.access import Agent
from tilelang.target.cuda.ir.code import Block, Code, leaf
from tilelang.target.cuda.ir.cpp_types import ptx_operand, ptx_type
from tilelang.target.cuda.ir.instructions import (
    CommitProducts,
    Define,
    FenceProducts,
    PinRegisters,
    WaitProducts,
    WarpGroupMultiply,
)
from tilelang.target.cuda.ir.values import Array, Call, Cast, Name, Number, Pointer, Unary, Value, value_of
from tilelang.target.cuda.ir.wgmma import ACCUMULATORS, K_OF, Wgmma, is_valid_n
from tilelang.target.cuda.operators import TileDemand
from tilelang.target.cuda.ops.gemm_plan import COMPLETE, Product, is_asynchronous, is_counted, tiles_fit
from tilelang.tileop.gemm import GemmWarpPolicy

ROWS = 64
K_BYTES = 32
"""Bytes of K that one instruction contracts, whatever the type."""

_PRODUCT_TILE = 64
"""Elements; the instructions of a warp group read operands from multiples of this."""


class WarpGroupProduct(Product):
    """A product by ``wgmma``.

    Attributes:
        instruction: the one that is repeated over rows, columns and K.
        m, n, k: extents of the product.
        groups_m, groups_n: warp groups along the rows and columns of C; group ``g`` has part ``g % groups_m`` of the rows.
        a: the layout of A in registers, or None where A is in shared memory.
        a_panel, b_panel: the widest panels, in bytes, that the operands in shared memory may lie in; a_panel is None where A is
            in registers.
    """

    instruction: Wgmma
    m: int
    n: int
    k: int
    groups_m: int
    groups_n: int
    a: FragmentLayout | None
    a_panel: int | None
    b_panel: int

    def tiles(self, op: Any) -> Iterator[TileDemand]:
        """Panels; as narrow as the pickiest of the products of warp groups that share a tile needs, before all others."""
        for region, width in ((op.a, self.a_panel), (op.b, self.b_panel)):
            if width is not None:
                shape = [as_int(extent) for extent in region.buffer.shape]
                layout = panel_layout(shape, canonical(str(region.buffer.dtype)).bits, width)
                yield TileDemand(region.buffer, layout, (0, width))

    def pinned(self, node: Any, emitter: Emitter) -> list[Any]:
        return self.pins(emitter.array(node.op.c.buffer))

    def lower(self, node: Any, generator: Any) -> list[Code]:
        generator.in_flight.start(node)
        emitter, op = generator.emitter, node.op
        if op.wg_wait <= COMPLETE:
            return [leaf(self.complete(emitter.array(op.c.buffer), COMPLETE - op.wg_wait))]
        shared = [_operand(emitter, region, op) for region in (op.a, op.b) if is_shared(region)]
        if not all(operand.is_readable(emitter.facts.divisible) for operand in shared):
            raise LayoutError(
                f"T.gemm: the layout of {op.a.buffer.name} or {op.b.buffer.name} is not one that warp group instructions read",
                location_of(node.span), "leave the layout to the compiler, or set TL_DISABLE_WGMMA",
            )  # fmt: skip
        left = shared[0] if self.a is None else emitter.array(op.a.buffer)
        clear = bool(op.clear_accum) if isinstance(op.clear_accum, (bool, int)) else emitter.value(op.clear_accum)
        with emitter.names.block():
            product = self.multiply(
                left, shared[-1], emitter.array(op.c.buffer), lower=emitter.index, take=emitter.names.take, clear=clear,
                wait=not is_asynchronous(op), first_group=emitter.threads.start // WARP_GROUP,
            )  # fmt: skip
        # The results of those before it may be read behind it, too.
        others = generator.in_flight.complete() if is_counted(op) and not is_asynchronous(op) else []
        return [leaf([product]), *others]

    def multiply(
        self,
        a: SharedOperand | Array,
        b: SharedOperand,
        c: Array,
        *,
        lower: Callable[[Any], Value],
        take: Callable[[str], Name],
        clear: bool | Value = False,
        wait: bool = True,
        first_group: int = 0,
    ) -> Block:
        """The code of the product of tiles, or of registers of A and a tile.

        Args:
            a: the left operand, a tile in shared memory or registers of the threads.
            b: the right operand, a tile in shared memory.
            c: the accumulator's registers.
            lower: gives the value of an offset expression.
            take: gives a name like the wanted one, which the kernel does not have yet.
            clear: whether to overwrite C instead of adding to it, or a condition.
            wait: whether the product is complete at the end; otherwise a later wait completes it.
            first_group: number of the first warp group that takes part.
        """
        rows, columns = self.m // self.groups_m, self.n // self.groups_n
        group_row, group_column = self._group_number(first_group)
        code: list[Any] = []
        a_tile, b_tile = take("a_tile"), take("b_tile")
        if isinstance(a, SharedOperand):
            code.append(Define(a_tile, "uint64", _tile_descriptor(a, group_row, _group_step(a, rows), lower)))
        code.append(Define(b_tile, "uint64", _tile_descriptor(b, group_column, _group_step(b, columns), lower)))
        # The fence orders the threads' writes of C and A before the instructions; the pins keep the compiler from moving such
        # writes behind it.
        code += [*self.pins(c, a if isinstance(a, Array) else None), FenceProducts()]
        per_row_tile = self.c.registers // (rows // ROWS)
        for k in range(0, self.k, self.instruction.k):
            # Only the first step over K may overwrite C: the others add to what it has left.
            scale = Number(1) if clear is False or k > 0 else Number(0) if clear is True else Unary("!", clear)
            for row in range(0, rows, ROWS):
                registers = row // ROWS * (self.k // 2) + k // 2
                left = _advance(a_tile, a.offset(row, k)) if isinstance(a, SharedOperand) else a.to(registers)
                for column in range(0, columns, self.instruction.n):
                    register = row // ROWS * per_row_tile + column // 2
                    right = _advance(b_tile, b.offset(column, k))
                    code.append(WarpGroupMultiply(self.instruction, c.to(register), left, right, scale))
        code.append(CommitProducts())
        return Block([*code, *(self.complete(c) if wait else [])], braces=True)

    def complete(self, c: Array, pending: int = 0) -> list[Any]:
        """Waits until C holds the result of all products but the newest ones; ``pending`` of these may remain in flight."""
        # The wait names no registers: without the pins the compiler may read C before it.
        return [WaitProducts(pending), *self.pins(c)]

    def pins(self, c: Array, a: Array | None = None) -> list[Any]:
        """Keeps the compiler from moving accesses of C, and of A in registers, across this point."""
        halves = self.instruction.accumulator == "f16"
        pointer = c.to(0)
        code = [PinRegisters(self.c.registers // (2 if halves else 1), Cast(pointer, "word") if halves else pointer)]
        if a is not None and self.a is not None:
            words = self.a.registers * K_BYTES // (4 * self.instruction.k)
            code.append(PinRegisters(words, Cast(a.to(0), "word")))
        return code

    def _group_number(self, first: int) -> tuple[Value | None, Value | None]:
        """Which part of the rows and of the columns this warp group has; None where there is one."""
        group = WARP_GROUP_NUMBER - first
        if self.groups_n == 1:
            return (group if self.groups_m > 1 else None), None
        if self.groups_m == 1:
            return None, group
        return group % self.groups_m, group // self.groups_m


# When it is possible -------------------------------------------------------------------------------------------------


def plan_by_warp_groups(node: Any, problem: Problem, memory: Mapping[Any, Any]) -> WarpGroupProduct | None:
    """The plan of a product whose threads are warp groups; None where the target, the kernel or the product has none, or the
    user fixed the layout of a shared tile otherwise (``memory``)."""
    threads, op = problem.threads_of[node], node.op
    # The hardware's warp groups begin at multiples of four warps.
    if not problem.wgmma or threads.start % WARP_GROUP or not _allows_panels(op, memory, problem):
        return None
    return problem.known(_planned, op, len(threads))


def _planned(op: Any, threads: int) -> WarpGroupProduct | None:
    return plan_gemm(op, threads) if tiles_fit(op) else None


def _allows_panels(op: Any, chosen: Mapping[Any, Any], problem: Problem) -> bool:
    """Whether nothing keeps the shared operands of a product from lying as warp group instructions want them."""
    for region in (op.a, op.b):
        buffer = region.buffer
        if not lies_in_shared(region):
            continue
        if buffer in problem.aliased or (buffer in chosen and not is_panels(chosen[buffer], buffer)):
            return False
        # A panel holds consecutive rows.
        if not region.has_neighbouring_rows:
            return False
        if not all(problem.facts.divisible(low, _PRODUCT_TILE) for low in region.mins[-2:]):
            return False
    return True


def plan_gemm(gemm: Any, threads: int) -> WarpGroupProduct | None:
    """The plan of a product by ``threads`` threads, or None where mma.sync must do it."""
    a_type, b_type, c_type = ptx_operand(gemm.a.dtype), ptx_operand(gemm.b.dtype), ptx_type(gemm.c.dtype)
    if b_type not in ACCUMULATORS or c_type not in ACCUMULATORS.get(a_type, ()) or threads % WARP_GROUP:
        return None
    extents = (gemm.m, gemm.n, gemm.k)
    is_placed = is_fragment(gemm.c) and is_shared(gemm.b) and (is_shared(gemm.a) or is_fragment(gemm.a))
    if not is_placed or not all(isinstance(extent, int) for extent in extents):
        return None
    m, n, k = extents
    a_in_registers = is_fragment(gemm.a)
    a_rows_along_m, b_rows_along_n = gemm.transpose_a, not gemm.transpose_b
    # The tensor cores transpose 16-bit types only: wgmma has no flags for the others.
    if k % K_OF[a_type] or (K_OF[a_type] != 16 and (a_rows_along_m or b_rows_along_n)) or (a_in_registers and a_rows_along_m):
        return None
    for groups_m, groups_n in _partitions(m, n, threads // WARP_GROUP, gemm.policy):
        rows, columns = m // groups_m, n // groups_n
        a_panel = None if a_in_registers else _panel(gemm.a, rows if a_rows_along_m else k)
        b_panel = _panel(gemm.b, columns if b_rows_along_n else k)
        width = _instruction_width(columns, a_type, b_panel, canonical(gemm.b.dtype).bits, b_rows_along_n)
        if (a_panel is None and not a_in_registers) or b_panel is None or width is None:
            continue
        try:
            instruction = Wgmma(width, c_type, a_type, b_type, a_in_registers, a_rows_along_m, b_rows_along_n)
        except ValueError:
            continue
        layout = _a_layout(m, k, canonical(gemm.a.dtype).bits, groups_m, groups_n) if a_in_registers else None
        c = accumulator_layout(m, n, groups_m, groups_n)
        fragments = ((gemm.c.buffer, c), *([] if layout is None else [(gemm.a.buffer, layout)]))
        return WarpGroupProduct(c, fragments, instruction, m, n, k, groups_m, groups_n, layout, a_panel, b_panel)
    return None


def _partitions(m: int, n: int, groups: int, policy: int) -> list[tuple[int, int]]:
    """How warp groups may share C, the best first: as the policy says, else the squarest parts, rows first."""
    found = [
        (by_row, groups // by_row)
        for by_row in range(groups, 0, -1)
        if groups % by_row == 0 and m % (ROWS * by_row) == 0 and n % (8 * (groups // by_row)) == 0
    ]
    key: Mapping[int, Callable[[tuple[int, int]], Any]] = {
        GemmWarpPolicy.FullRow: lambda part: -part[0],
        GemmWarpPolicy.FullCol: lambda part: -part[1],
        GemmWarpPolicy.Square: lambda part: m // part[0] + n // part[1],
    }
    # Sorting is stable: of parts that are equally good, those with more groups along m stay in front.
    return sorted(found, key=key[GemmWarpPolicy(policy)])


def _panel(operand: Region, run: int) -> int | None:
    """The widest panel of an operand, where each warp group reads ``run`` contiguous elements of a row."""
    bits = canonical(operand.dtype).bits
    widths = panel_widths([int(extent) for extent in operand.buffer.shape], bits)
    return next((width for width in widths if run % (width * 8 // bits) == 0), None)


def _instruction_width(columns: int, a_type: str, b_panel: int | None, bits: int, along_n: bool) -> int | None:
    """The widest instruction that divides the columns of a group; whole panels where B's rows run along N."""
    if b_panel is None:
        return None
    # Along N a panel is a piece of the row: an instruction may cover several panels, one after the other by the leading offset,
    # or a part of one, but no panel and a half.
    panel = b_panel * 8 // bits
    for width in range(min(256, columns), 7, -8):
        whole = not along_n or width % panel == 0 or panel % width == 0
        if columns % width == 0 and whole and is_valid_n(width, a_type):
            return width
    return None


# Operands in shared memory -------------------------------------------------------------------------------------------


class SharedOperand(Record):
    """A shared tile that descriptors read.

    Attributes:
        pointer: to the buffer's first byte.
        layout: the buffer's layout, in panels.
        region: the tile.
        bits: of an element.
        along_k: whether the contiguous axis is K.
    """

    pointer: Value
    layout: TileLayout
    region: Region
    bits: int
    along_k: bool

    @property
    def panel_bytes(self) -> int:
        """Panel width."""
        width = panel_bytes_of(self.layout, self.bits)
        assert width is not None, self.region.buffer
        return width

    def is_readable(self, divides: Callable[[Any, int], bool]) -> bool:
        """Whether the tile lies in panels, and starts where a descriptor can say: whole panels along rows, groups of eight rows.

        Along K it may also start at every multiple of 32 bytes inside a panel, where one instruction ends and the next begins.
        """
        if panel_bytes_of(self.layout, self.bits) is None:
            return False
        row, column = self.region.mins[-2:]
        period = K_BYTES if self.along_k else self.panel_bytes
        # The swizzle takes bits of the address (`panels.py`), so that a tile may start wherever the pattern begins again: at
        # every eighth row.
        return divides(row, 8) and divides(column, period * 8 // self.bits)

    def strides(self) -> tuple[int, int]:
        """Leading and stride byte offsets of the descriptor."""
        width, rows = self.panel_bytes, self.layout.shape[-2]
        # PTX manual, "Matrix Descriptor Format" and "Strides": along K the leading offset is not used in swizzled layouts, and
        # the stride offset leads to the next eight rows; M/N-major, the leading offset leads to the next panel.
        return (16, 8 * width) if self.along_k else (rows * width, 8 * width)

    def start(self) -> Any:
        """Byte offset of the tile's first element."""
        return self.layout.linear(list(self.region.mins)) * self.bits // 8

    def offset(self, across: Any, k: int) -> Any:
        """Bytes from the tile's first element to the one at ``across`` (along M or N) and ``k``."""
        row, column = (across, k) if self.along_k else (k, across)
        leading = [0] * (len(self.layout.shape) - 2)
        return self.layout.linear([*leading, row, column]) * self.bits // 8

    def descriptor(self, start: Value) -> Value:
        """The descriptor of the tile from a byte on."""
        leading, stride = self.strides()
        arguments = (self.pointer + start, Number(leading), Number(stride))
        return Call("tl::wgmma_desc", arguments, (self.panel_bytes,))


def _tile_descriptor(operand: SharedOperand, group: Value | None, step: int, lower: Callable[[Any], Value]) -> Value:
    """The descriptor of a group's part of a tile.

    What changes from one iteration to the next (the slot of a ring) is added to the descriptor of what does not, which is then
    computed once.
    """
    start = as_int(operand.start())
    part = Number(0) if group is None else group * step
    if isinstance(start, int):
        return operand.descriptor(Number(start) + part)
    return _advance(operand.descriptor(part), lower(start))


def _group_step(operand: SharedOperand, extent: int) -> int:
    # Where each group uses the whole extent, all groups read the same tile.
    whole = operand.layout.shape[-2 if operand.along_k else -1]
    return int(operand.offset(extent, 0)) if extent < whole else 0


def _advance(descriptor: Value, offset: Any) -> Value:
    offset = value_of(offset)
    return descriptor if offset == Number(0) else Call("tl::wgmma_desc_advance", (descriptor, offset))


def _operand(emitter: Emitter, region: Region, op: Any) -> SharedOperand:
    along_k = not op.transpose_a if region is op.a else bool(op.transpose_b)
    buffer, bits = region.buffer, canonical(region.dtype).bits
    pointer: Value = Cast(Pointer(emitter.array(buffer), kind=READ, agent=Agent.TENSOR_CORE), "byte", constant=True)
    if buffer in emitter.slots:
        pointer = pointer + emitter.slots[buffer][0] * (emitter.places.slot_elements(buffer) * bits // 8)
    return SharedOperand(pointer, emitter.layouts.memory[buffer], region, bits, along_k)


# Registers ------------------------------------------------------------------------------------------------------------


def _rows(rows: int, groups: int, half: int, tile: int) -> tuple[Mode, ...]:
    """Rows over warp groups, in tiles of 64: registers of the lower half of an octet pair, and of a tile, come so far after."""
    # Row r of a tile of 64 (PTX manual, figures of "Matrix fragments for wgmma"): r % 8 chooses one of eight quads of lanes, r //
    # 8 % 2 a register, r // 16 the warp of the group.
    tiles = on_register(rows // groups // ROWS, tile)
    return join_modes((on_thread(8, 4), on_register(2, half), on_thread(4, 32), tiles, on_thread(groups, WARP_GROUP)))


def accumulator_layout(m: int, n: int, groups_m: int, groups_n: int) -> FragmentLayout:
    """The fragment layout of C (PTX manual, "Register Fragments for wgmma … Matrix D").

    A warp group holds m / groups_m rows as tiles of 64, and n / groups_n columns.
    """
    width = n // groups_n
    columns = (on_register(2, 1), on_thread(4, 1), on_register(width // 8, 4), on_thread(groups_n, WARP_GROUP * groups_m))
    return FragmentLayout((m, n), (_rows(m, groups_m, 2, width // 2), join_modes(columns)))


def _a_layout(m: int, k: int, element_bits: int, groups_m: int, groups_n: int) -> FragmentLayout:
    """A (m, k) in registers; groups that share rows hold copies ("Register Fragments … Matrix A")."""
    packed = 32 // element_bits
    columns = (on_register(packed, 1), on_thread(4, 1), on_register(2, 2 * packed), on_register(k // (8 * packed), 4 * packed))
    copies = (on_thread(groups_n, WARP_GROUP * groups_m),) if groups_n > 1 else ()
    return FragmentLayout((m, k), (_rows(m, groups_m, packed, k // 2), join_modes(columns)), copies)
