"""Copies from accumulators to shared tiles by ``stmatrix``: a warp stores four 8 x 8 matrices of 16-bit elements at once.

Lane ``l`` holds two neighbours of row ``l // 4`` of each matrix, as accumulators lie, and gives the address of row ``l % 8`` of
matrix ``l // 8`` (PTX manual, "Warp-level matrix store instruction: stmatrix"). The matrices of one instruction are the
upper and lower half of sixteen rows, of two neighbouring tiles of eight columns: eight registers in a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

from tilelang.ir.memory import is_shared
from tilelang.layout import FragmentLayout, Mode, TileLayout, on_register, on_thread
from tilelang.layout.fragment import REGISTER, THREAD
from tilelang.target.cuda.arch import WARP, Feature, arch_of
from tilelang.target.cuda.codegen.emitter import Emitter
from tilelang.target.cuda.ir.code import Code, leaf, scoped
from tilelang.target.cuda.ir.instructions import DeclareArray, DefinePointer, StoreMatrix
from tilelang.target.cuda.ir.values import Array, Call, Number, Value, total

_CHUNK = 8
"""Elements in a row of a matrix: 16 aligned bytes."""

_STORED = 8
"""Registers (32-bit, or 16-bit elements of a fragment of those) that one instruction stores."""

_PACKED: Mapping[tuple[str, str], str | None] = {
    ("float32", "float16"): "tl::cvt_f16x2_f32",
    ("float32", "bfloat16"): "tl::cvt_bf16x2_f32",
    ("float16", "float16"): None,
    ("bfloat16", "bfloat16"): None,
}
"""(element type of the fragment, of the tile) -> what makes a 32-bit word of two registers; None where they are one already."""

_ROWS = (on_thread(8, 4), on_register(2, 2))
_COLUMNS = (on_register(2, 1), on_thread(4, 1))


def emit_matrix_store(e: Emitter, op: Any) -> list[Code] | None:
    """The code of a copy; None where it is no copy of whole accumulators to rows of aligned chunks, or there is no stmatrix."""
    if not arch_of(e.target).uses(Feature.STMATRIX) or not _is_whole_tile(op) or (op.src.dtype, op.dst.dtype) not in _PACKED:
        return None
    layout = e.layouts.fragments.get(op.src.buffer)
    if layout is None or not _is_accumulator(layout, e.threads) or not _has_chunks(e, op.dst):
        return None
    with e.names.block():
        code = _stores(e, op, layout)
    return [leaf(code, {e.array(op.dst.buffer).storage} if op.dst.is_whole else ())]


def _is_whole_tile(op: Any) -> bool:
    """Whether a whole fragment goes to a shared tile, distributed as the compiler likes."""
    placed = op.kind == "copy" and op.coalesced_width is None and op.loop_layout is None
    matrices = len(op.src.shape) == len(op.src.buffer.shape) == 2 and op.src.is_whole
    return placed and matrices and is_shared(op.dst)


def _is_accumulator(layout: FragmentLayout, threads: range) -> bool:
    """Whether whole warps hold pairs of tiles as tensor cores leave them, each element in one thread."""
    rows, columns = layout.modes
    if rows[:2] != _ROWS or columns[:2] != _COLUMNS or layout.replicas or layout.threads != len(threads):
        return False
    tiles = columns[2] if len(columns) > 2 else on_thread(1, 0)
    paired = tiles.coord == REGISTER and tiles.stride == 4 and tiles.extent % 2 == 0
    # All that is left of the layout counts whole warps, or whole groups of the registers that one instruction stores.
    warps = all(mode.stride % (WARP if mode.coord == THREAD else _STORED) == 0 for mode in (*rows[2:], *columns[3:]))
    filled = all(prod(mode.extent for mode in modes) == size for modes, size in zip(layout.modes, layout.shape))
    return paired and warps and filled and threads.start % WARP == 0


def _has_chunks(e: Emitter, region: Any) -> bool:
    """Whether eight neighbours along the last axis of a region are 16 aligned bytes in memory."""
    layout = e.layouts.memory.get(region.buffer)
    if not isinstance(layout, TileLayout) or layout.vector < _CHUNK or not e.facts.divisible(region.mins[-1], _CHUNK):
        return False
    strides = [stride for axis in layout.modes for _, stride in axis if stride != 1]
    return region.extents[-1] != 1 and all(stride % _CHUNK == 0 for stride in strides)


def _stores(e: Emitter, op: Any, layout: FragmentLayout) -> list[Any]:
    rows, (_, _, tiles, *columns) = layout.modes
    lane = e.variable("lane", WARP, e.thread & WARP - 1)
    pairs = Mode(tiles.extent // 2, _STORED, REGISTER)
    row_digits, column_digits = list(_digits(e, "row", rows[2:])), list(_digits(e, "column", (pairs, *columns)))
    # Lanes 0 to 7 name the rows of the upper left matrix, 8 to 15 of the lower left one, 16 to 31 those of the two on the right:
    # the order in which an accumulator's registers hold the four.
    row = lane % 16 + _position(row_digits, 16)
    column = lane // 16 * _CHUNK + _position(column_digits, 2 * _CHUNK)
    loops_over = [(mode, var) for mode, var in (*row_digits, *column_digits) if mode.coord == REGISTER and mode.extent > 1]
    registers = [(mode, e.name_of(var)) for mode, var in loops_over]
    first = total(number * mode.stride for mode, number in registers)
    address = e.places.address(op.dst.buffer, op.dst.index([row, column]))
    body = _store(e, op, first, address)
    return scoped([(number, mode.extent) for mode, number in registers], body)


def _store(e: Emitter, op: Any, first: Value, address: Value) -> list[Any]:
    """The instruction for the registers from ``first`` on."""
    source, pack = e.array(op.src.buffer), _PACKED[op.src.dtype, op.dst.dtype]
    if pack is None:
        return [StoreMatrix("x4", address, source.to(first))]
    registers = Array(e.names.take("registers").text, "float32")
    words = Array(e.names.take("words").text, "uint32")
    pairs = (Call(pack, (registers.at(at), registers.at(at + 1))) for at in range(0, _STORED, 2))
    return [
        DefinePointer(registers, source.to(first), constant=True),
        DeclareArray(words, _STORED // 2, values=tuple(pairs), constant=True),
        StoreMatrix("x4", address, words.to(0)),
    ]


def _digits(e: Emitter, name: str, modes: Sequence[Mode]) -> Iterator[tuple[Mode, Any]]:
    """A variable for each mode: a loop's for registers, a digit of the thread's number for threads."""
    for mode in modes:
        value = Number(0) if mode.extent == 1 else None
        if mode.coord == THREAD:
            value = e.digit(mode)
        yield mode, e.variable(name, mode.extent, value)


def _position(digits: Sequence[tuple[Mode, Any]], weight: int) -> Any:
    """What digits above the first ``weight`` positions of an axis add up to."""
    position: Any = 0
    for mode, var in digits:
        position = position + var * weight
        weight *= mode.extent
    return position
