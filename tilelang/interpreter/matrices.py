"""Matrix instructions of a warp: ``T.ptx_ldmatrix``, ``T.ptx_stmatrix``, ``T.ptx_mma``.

Fragments of a warp are (32, registers): lane ``l`` of an 8 x 8 matrix of 16-bit elements holds row ``l // 4``, columns
``l % 4 * 2`` and the one after it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilelang.errors import OptionError
from tilelang.interpreter.access import check_arrived, check_free, check_written, locate, mark_written
from tilelang.interpreter.compiler import Compiler
from tilelang.interpreter.expressions import Evaluate, compiled_element, intrinsic
from tilelang.interpreter.memory import View
from tilelang.interpreter.numbers import Element, convert, element
from tilelang.interpreter.state import WARP, Lanes
from tilelang.interpreter.threads import everyone

_LANE = np.arange(WARP)


def _first(x: Lanes, place: tuple[int, list[Evaluate]]) -> tuple[View, np.ndarray]:
    """A view, and the flat position that each lane names in it."""
    slot, indices = place
    view = x.views[slot]
    at, _ = locate(x, view, [index(x) for index in indices])
    return view, np.broadcast_to(at, (x.lanes,))


def _warps(x: Lanes, name: str) -> np.ndarray:
    """The first lanes of the warps that run an instruction of a whole warp."""
    active = everyone(x)
    first = [lane for lane in range(0, x.lanes, WARP) if active[lane : lane + WARP].any()]
    if any(not active[lane : lane + WARP].all() or lane + WARP > x.lanes for lane in first):
        x.find("divergence", f"T.{name} is run by a part of a warp only")
        first = [lane for lane in first if lane + WARP <= x.lanes]
    return np.array(first, np.int64)


def _registers(x: Lanes, view: View, at: np.ndarray, warp: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and positions of ``count`` registers of a warp's lanes."""
    if view.storage.private:
        view.storage.spread(x.lanes)
    row = (warp + _LANE)[:, None] if view.storage.private else np.zeros((WARP, 1), np.int64)
    return row, at[warp + _LANE][:, None] + np.arange(count)


def _moving(name: str, load: bool) -> None:
    @intrinsic(name)
    def make(c: Compiler, call: Any) -> Evaluate:
        transposed, count = int(call.args[0].value), int(call.args[1].value)
        shared, registers = compiled_element(c, call.args[2]), compiled_element(c, call.args[3])

        def evaluate(x: Lanes) -> None:
            memory, rows = _first(x, shared)
            view, at = _first(x, registers)
            width = 16 // (memory.kind.bits // 8)
            for warp in _warps(x, name):
                # Lanes 8i to 8i + 7 give the addresses of the rows of matrix i.
                source = rows[warp : warp + 8 * count].reshape(count, 8)[:, :, None] + np.arange(width)
                held = _registers(x, view, at, int(warp), count * width // 4)
                (_load if load else _store)(x, memory, source, view, held, bool(transposed))

        return evaluate


def _spread(tiles: np.ndarray, transposed: bool) -> np.ndarray:
    """(matrices, 8, width) as (32, registers); ``width`` elements are 16 bytes.

    Lane ``4 r + q`` gets the ``q``-th four bytes of row ``r`` of each matrix (PTX manual, "Warp-level matrix load instruction:
    ldmatrix", and its inverse stmatrix).
    """
    count, _, width = tiles.shape
    if transposed:
        tiles = tiles.swapaxes(1, 2)
    each = width // 4
    return tiles.reshape(count, 8, 4, each).transpose(1, 2, 0, 3).reshape(WARP, count * each)


def _gathered(held: np.ndarray, count: int, transposed: bool) -> np.ndarray:
    """The inverse of :func:`_spread`."""
    each = held.shape[1] // count
    tiles = held.reshape(8, 4, count, each).transpose(2, 0, 1, 3).reshape(count, 8, 4 * each)
    return tiles.swapaxes(1, 2) if transposed else tiles


def _load(x: Lanes, memory: View, source: np.ndarray, view: View, held: tuple[np.ndarray, np.ndarray], transposed: bool) -> None:
    if memory.storage.written is not None and x.checks:
        check_written(x, memory, 0, source, True)
    if memory.storage.pending is not None:
        check_arrived(x, memory, 0, source, True)
    value = convert(_spread(memory.read(0, source), transposed), memory.kind, view.kind)
    view.write(*held, value)
    mark_written(view, *held)


def _store(x: Lanes, memory: View, target: np.ndarray, view: View, held: Any, transposed: bool) -> None:
    value = convert(_gathered(view.read(*held), target.shape[0], transposed), view.kind, memory.kind)
    check_free(x, memory, 0, target, True)
    memory.write(0, target, value)
    mark_written(memory, 0, target)


_moving("ptx_ldmatrix", load=True)
_moving("ptx_stmatrix", load=False)


# Products ------------------------------------------------------------------------------------------------------------


def _operand_places(rows: int, columns: int, per_register: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of each element that a lane holds of a left operand, (32, elements).

    See the PTX manual, "Matrix Fragments for mma".

    Registers of 32 bits hold ``per_register`` neighbours along the columns; the registers run through the rows, eight apart, then
    through the columns.
    """
    row_steps, column_steps = max(1, rows // 8), max(1, columns // (4 * per_register))
    part = np.arange(row_steps * column_steps * per_register)
    inner, step = part % per_register, part // per_register
    row = _LANE[:, None] // 4 + step % row_steps * 8
    column = _LANE[:, None] % 4 * per_register + inner + step // row_steps * 4 * per_register
    row, column = np.broadcast_arrays(row, column)
    return row, column


def _accumulator_places(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of each element of C that a lane holds."""
    part = np.arange(rows // 4)
    row, column = np.broadcast_arrays(_LANE[:, None] // 4 + part // 2 * 8, _LANE[:, None] % 4 * 2 + part % 2)
    return row, column


@intrinsic("ptx_mma")
def _mma(c: Compiler, call: Any) -> Evaluate:
    shape, *types = (str(arg.value) for arg in call.args[:4])
    found = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", shape)
    if found is None or found[2] != "8":
        raise OptionError(f"T.ptx_mma: no shape {shape}", hint="for example m16n8k16")
    m, _, k = map(int, found.groups())
    kinds = [element(each) for each in types]
    neighbours = max(1, 32 // kinds[0].bits)
    places = [compiled_element(c, arg) for arg in call.args[4:7]]
    a_at, b_at, c_at = _operand_places(m, k, neighbours), _operand_places(8, k, neighbours), _accumulator_places(m)

    def evaluate(x: Lanes) -> None:
        views = [_first(x, place) for place in places]
        for warp in _warps(x, "ptx_mma"):
            _multiply(x, int(warp), list(zip(views, kinds, (a_at, b_at, c_at))), ((m, k), (8, k), (m, 8)))

    return evaluate


def _multiply(x: Lanes, warp: int, operands: Sequence[Any], shapes: Sequence[tuple[int, int]]) -> None:
    """Adds a product of a warp to its accumulators.

    Args:
        x: the state.
        warp: its first lane.
        operands: of A, B and C the registers' view and first positions, the type of the elements in them, their rows and columns.
        shapes: of the matrices.
    """
    held = []
    for ((view, first), kind, (row, column)), shape in zip(operands, shapes):
        registers = _registers(x, view, first, warp, row.shape[1] * kind.bits // view.kind.bits)
        if view.storage.written is not None and x.checks:
            check_written(x, view, *registers, True)
        # As T.gemm: in 64 bits the order of the sums does not show.
        matrix = np.zeros(shape, np.float64 if kind.kind == "float" else np.int64)
        matrix[row, column] = _unpacked(view.read(*registers), view.kind, kind)
        held.append((matrix, registers))
    (a, _), (b, _), (total, registers) = held
    (target, _), kind, at = operands[2]
    source = element("float64") if kind.kind == "float" else element("int64")
    result = convert((total + a @ b.T)[at], source, kind)
    target.write(*registers, _unpacked(result, kind, target.kind))
    mark_written(target, *registers)


def _unpacked(values: np.ndarray, source: Element, target: Element) -> np.ndarray:
    """The values of another type that are in the same registers, as pairs of 16 bits are in an array of ``uint32``."""
    if source is target:
        return values
    stored = np.ascontiguousarray(source.encode(values), source.memory)
    if target.bits == 4:
        pairs = stored.view(np.uint8)
        return target.decode(np.stack([pairs, pairs >> 4], -1).reshape(len(pairs), -1))
    return target.decode(stored.view(target.memory))
