"""Layouts that wgmma demands: accumulators and A in registers, operands in shared memory.

A shared operand lies in *panels*: the contiguous axis is cut into pieces of 128, 64 or 32 bytes, a panel holds all rows of
one piece and is swizzled by the hardware's rule of that width. The same bytes are what the tensor memory accelerator writes,
what a matrix descriptor reads, K-major or M/N-major, and free of bank conflicts for ldmatrix.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.layout import FragmentLayout, Mode, TileLayout, on_register, on_thread
from tilelang.layout.panels import panel_layout

PANEL_BYTES = (128, 64, 32)
"""Widths of swizzled panels, widest first."""


def panel_widths(shape: Sequence[int], element_bits: int) -> list[int]:
    """Panel widths that a tile can have, widest first."""
    if len(shape) < 2 or shape[-2] % 8:
        return []
    return [width for width in PANEL_BYTES if shape[-1] * element_bits % (width * 8) == 0]


def panel_bytes_of(layout: object, element_bits: int) -> int | None:
    """The panel width of a shared layout; None where it is not in panels."""
    if not isinstance(layout, TileLayout):
        return None
    for width in panel_widths(layout.shape, element_bits):
        if layout == panel_layout(layout.shape, element_bits, width):
            return width
    return None


def accumulator_layout(m: int, n: int, groups_m: int, groups_n: int) -> FragmentLayout:
    """C (m, n) over ``groups_m * groups_n`` warp groups (PTX manual, "Register Fragments for wgmma … Matrix D").

    A group holds m / groups_m rows as tiles of 64, and n / groups_n columns.
    """
    group_rows, group_columns = m // groups_m, n // groups_n
    rows = (
        on_thread(8, 4),
        on_register(2, 2),
        on_thread(4, 32),
        on_register(group_rows // 64, group_columns // 2),
        on_thread(groups_m, 128),
    )
    columns = (on_register(2, 1), on_thread(4, 1), on_register(group_columns // 8, 4), on_thread(groups_n, 128 * groups_m))
    return FragmentLayout((m, n), (_significant(rows), _significant(columns)))


def a_fragment_layout(m: int, k: int, element_bits: int, groups_m: int, groups_n: int) -> FragmentLayout:
    """A (m, k) in registers; groups that share rows hold copies ("Register Fragments … Matrix A")."""
    packed = 32 // element_bits
    rows = (
        on_thread(8, 4),
        on_register(2, packed),
        on_thread(4, 32),
        on_register(m // groups_m // 64, k // 2),
        on_thread(groups_m, 128),
    )
    columns = (
        on_register(packed, 1),
        on_thread(4, 1),
        on_register(2, 2 * packed),
        on_register(k // (8 * packed), 4 * packed),
    )
    copies = (on_thread(groups_n, 128 * groups_m),) if groups_n > 1 else ()
    return FragmentLayout((m, k), (_significant(rows), _significant(columns)), copies)


def _significant(modes: Sequence[Mode]) -> tuple[Mode, ...]:
    """The modes that move, neighbours merged where one continues the other."""
    merged: list[Mode] = []
    for mode in modes:
        if mode.extent == 1:
            continue
        before = merged[-1] if merged else None
        if before and before.unit == mode.unit and before.stride * before.extent == mode.stride:
            merged[-1] = Mode(before.extent * mode.extent, before.stride, before.unit)
        else:
            merged.append(mode)
    return tuple(merged)
