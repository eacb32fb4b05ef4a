"""Layouts of shared tiles and of tensor cores' registers, for programs that feed tensor cores themselves.

The index maps are those of PTX: section "Matrix Fragments for mma.m16n8k16", and ``ldmatrix``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, Literal

from tilelang.dtypes import canonical
from tilelang.errors import ShapeError, UnsupportedError
from tilelang.ignored import ignored
from tilelang.layout import TileLayout, make_swizzled_layout

_PANELS = (128, 64, 32)
"""Widths of swizzled panels in bytes."""


def make_mma_swizzle_layout(shared_buf: Any, is_smooth: bool = False) -> TileLayout:
    """The layout under which ``ldmatrix`` reads a shared tile without bank conflicts.

    Args:
        shared_buf: a shared buffer.
        is_smooth: accepted for compatibility.
    """
    ignored("make_mma_swizzle_layout", is_smooth=is_smooth)
    return make_swizzled_layout(shared_buf)


def get_swizzle_layout(
    row_idx: Any, col_idx: Any, row_size: int, dtype: Any, swizzle_bytes: int | None = None
) -> tuple[Any, Any, Any]:
    """Where the element (``row_idx``, ``col_idx``) of a shared tile lies: (panel, row, column in the panel).

    Panels are ``swizzle_bytes`` wide; in each, chunks of 16 bytes are exchanged by the row.

    Args:
        row_idx, col_idx: indices of the element, integers or expressions.
        row_size: elements of a row.
        dtype: element type.
        swizzle_bytes: 32, 64 or 128; by default the widest that divides a row.

    Returns:
        Three indices, of the types of the given ones.

    Raises:
        ShapeError: a row that no panel divides.
    """
    bits = canonical(dtype).bits
    width = panel_bytes(row_size * bits // 8, swizzle_bytes)
    chunk, chunks = 128 // bits, width // 16
    inside = col_idx % (chunk * chunks)
    # The 32 banks are 128 bytes wide, which two rows of a panel of 64 bytes share, and four of 32 bytes: rows conflict only if
    # they are in different lines of 128 bytes, so the number of the line selects the exchange.
    moved = (inside // chunk ^ row_idx % 8 // (8 // chunks)) * chunk + inside % chunk
    return col_idx // (chunk * chunks), row_idx, moved


def panel_bytes(row_bytes: int, swizzle_bytes: int | None) -> int:
    """The width of the panels into which a tile is split.

    Args:
        row_bytes: bytes of a row of the tile.
        swizzle_bytes: the width that the program gives, if any.

    Raises:
        ShapeError: a row that no panel divides.
    """
    width = swizzle_bytes or next((width for width in _PANELS if row_bytes % width == 0), 0)
    if width not in _PANELS or row_bytes % 32:
        raise ShapeError(f"get_swizzle_layout: a row of {row_bytes} bytes is no multiple of 32")
    return width


def get_ldmatrix_offset(
    matrix: Literal["A", "B"], row_idx: Any, col_idx: Any, stride: Any, dtype: Any = "float16", transposed: bool = False
) -> tuple[Any, Any]:
    """(row, column) in a 16-row tile of the element that ``ldmatrix.x4`` reads for a lane.

    Args:
        matrix: which operand.
        row_idx: the lane.
        col_idx: number of the element among the 16 bytes that the lane's address names.
        stride: accepted for compatibility.
        dtype: a type of 8, 16 or 32 bits.
        transposed: whether B is stored by columns; of 16-bit types also A.

    Returns:
        Row and column, of the types of the given indices.

    Raises:
        UnsupportedError: 8 or 32 bits and an operand whose k axis is not the contiguous one.
    """
    bits = canonical(dtype).bits
    # The instruction transposes words of 16 bits: narrower or wider elements would be torn apart or swapped.
    if bits != 16 and transposed != (matrix == "B"):
        raise UnsupportedError(f"get_ldmatrix_offset: ldmatrix reads {canonical(dtype)} along k only (A plain, B transposed)")
    return _addressed(128 // bits, transposed, row_idx, col_idx)


def _addressed(chunk: int, turned: bool, lane: Any, place: Any = 0) -> tuple[Any, Any]:
    """(row, column) of an element among those that the address of a lane names for ``ldmatrix.x4``.

    Args:
        chunk: elements of 16 bytes.
        turned: whether the second matrix lies beside the first one, not below it.
        lane: 0 to 31.
        place: number of the element in the chunk.
    """
    # Lanes 8 i to 8 i + 7 give the addresses of the rows of matrix i (PTX ISA, "ldmatrix").
    row, half = (lane % 8 + lane // 16 * 8, lane // 8 % 2) if turned else (lane % 16, lane // 16)
    return row, half * chunk + place % chunk


def get_mma_micro_size(dtype: Any) -> tuple[int, int, int]:
    """(m, n, k) of the tile that ``mma`` makes of four 8x8 matrices each: k has 32 bytes, m and n 16 elements."""
    return 16, 16, 256 // canonical(dtype).bits


def mma_store_index_map(thread_id: Any, local_id: Any) -> tuple[Any, Any]:
    """(row, column) in a 16x16 accumulator of register ``local_id`` (0 to 7) of a lane."""
    # Two neighbouring columns, the same eight rows further down, then all four again eight columns on.
    row = thread_id // 4 + local_id % 4 // 2 * 8
    return row, local_id // 4 * 8 + thread_id % 4 * 2 + local_id % 2


def _held(matrix: str, near: int, side: Any, k: Any) -> tuple[Any, Any]:
    """(lane, register) of the element (``side``, ``k``) of an operand with ``near`` elements in a register of 32 bits."""
    # Four neighbouring lanes hold a row of 16 bytes, one register of 32 bits each. Further registers of A go down the rows before
    # they go along k, those of B the other way round (PTX ISA, "Matrix Fragments for mma.m16n8k16").
    lane = side % 8 * 4 + k % (4 * near) // near
    rows, words = side // 8, k // (4 * near)
    word = words * 2 + rows if matrix == "A" else rows * 2 + words
    return lane, word * near + k % near


def operand_element(matrix: str, near: int, lane: Any, register: Any) -> tuple[Any, Any]:
    """The element of an operand that a lane of a warp holds, as ``mma.sync`` spreads it (PTX ISA, "Matrix Fragments for mma").

    Args:
        matrix: ``"A"`` or ``"B"``.
        near: elements in a register of 32 bits.
        lane: 0 to 31.
        register: number of the element among those of the lane.

    Returns:
        (row of A or column of B, k), by arithmetic that works on integers and on expressions.
    """
    word, inner = register // near, register % near
    rows, words = (word % 2, word // 2) if matrix == "A" else (word // 2, word % 2)
    return lane // 4 + rows * 8, words * 4 * near + lane % 4 * near + inner


def _accumulator_of_doubles(thread_id: Any, local_id: Any) -> tuple[Any, Any]:
    """(row, column) in an 8x8 accumulator of float64 of register ``local_id`` (0 or 1) of a lane."""
    return thread_id // 4, thread_id % 4 * 2 + local_id


def _rows_to_lanes(columns: int, row: Any, column: Any) -> tuple[Any, Any]:
    """(lane, register) where the rows of a tile of 16 x ``columns`` lie one after another over the lanes of a warp."""
    return row * 2 + column // (columns // 2), column % (columns // 2)


def _to_lanes(found: re.Match[str]) -> Callable[..., Any]:
    """``shared_16x16_to_mma_32x8_layout_sr_a``, ``shared_32x16_to_mma_b_32x16_layout_trans``: an element's lane and register."""
    rows, columns = int(found["rows"]), int(found["columns"])
    k_first = rows != 16 or found["order"] in ("rs", "trans")
    matrix = (found["matrix"] or ("a" if rows == 16 else "b")).upper()
    near = rows * columns // 128
    return (lambda k, side: _held(matrix, near, side, k)) if k_first else functools.partial(_held, matrix, near)


_TILE = r"shared_(?P<rows>16|32)x(?P<columns>\d+)"

_PUBLIC_NAMES: tuple[tuple[str, Callable[[re.Match[str]], Callable[..., Any]]], ...] = (
    (_TILE + r"_to_mma_32x\d+_layout(?:_(?P<order>sr|rs)_(?P<matrix>[ab]))?", _to_lanes),
    (_TILE + r"_to_mma_(?P<matrix>[ab])_32x\d+_layout(?:_(?P<order>trans))?", _to_lanes),
    (
        r"shared_16x(?P<columns>\d+)_to_mma_32x\d+_smoothlayout",
        lambda found: functools.partial(_rows_to_lanes, int(found["columns"])),
    ),
    (
        r"mma_load_([ab])_32x\d+_to_shared_16x(\d+)_layout",
        lambda found: functools.partial(operand_element, found[1].upper(), int(found[2]) // 8),
    ),
    (
        r"ldmatrix(_trans)?_32x\d+_to_shared_16x(\d+)_layout(?:_([ab]))?",
        lambda found: functools.partial(_addressed, int(found[2]) // 2, bool(found[1]) or found[3] == "b"),
    ),
    ("mma_32x8_to_shared_16x16_layout|mma_store_32x8_to_shared_16x16_layout", lambda _: mma_store_index_map),
    ("mma_store_index_map_fp64|mma_store_32x2_to_shared_8x8_layout_fp64", lambda _: _accumulator_of_doubles),
)
"""Names of programs, as patterns, and the map that each means."""


def _of_public_name(name: str) -> Callable[..., Any] | None:
    """The map of a public name; None where it names none."""
    found = ((re.fullmatch(pattern, name), meaning) for pattern, meaning in _PUBLIC_NAMES)
    return next((meaning(match) for match, meaning in found if match is not None), None)


def __getattr__(name: str) -> Any:
    found = _of_public_name(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found
