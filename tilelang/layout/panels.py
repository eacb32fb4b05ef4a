"""Panels: tiles cut along their contiguous axis into pieces of 128, 64 or 32 bytes, each swizzled by the hardware's rule.

A panel holds all rows of one piece. The same bytes are what the tensor memory accelerator writes, what a matrix descriptor
reads, K-major or M/N-major, and free of bank conflicts for ldmatrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from tilelang.errors import LayoutError
from tilelang.layout.memory import Swizzle, TileLayout

_CHUNK_BYTES = 16

PANEL_BYTES = (128, 64, 32)
"""Widths of swizzled panels, widest first."""


class SwizzleMode(Enum):
    """How the rows of a shared tile are swizzled; the value is the width of its panels in bytes."""

    NONE = 0
    SWIZZLE_32B = 32
    SWIZZLE_64B = 64
    SWIZZLE_128B = 128

    @staticmethod
    def of_bytes(width: int) -> SwizzleMode:
        """The mode of panels of ``width`` bytes; 0 without swizzle."""
        return SwizzleMode(width)

    def is_none(self) -> bool:
        """Whether rows lie as they are."""
        return self is SwizzleMode.NONE

    def is_swizzle_32b(self) -> bool:
        """Whether panels have 32 bytes."""
        return self is SwizzleMode.SWIZZLE_32B

    def is_swizzle_64b(self) -> bool:
        """Whether panels have 64 bytes."""
        return self is SwizzleMode.SWIZZLE_64B

    def is_swizzle_128b(self) -> bool:
        """Whether panels have 128 bytes."""
        return self is SwizzleMode.SWIZZLE_128B

    def wgmma_layout_type(self) -> int:
        """The field of a matrix descriptor of warp groups."""
        return {0: 0, 128: 1, 64: 2, 32: 3}[self.value]

    def swizzle_byte_size(self) -> int:
        """Bytes of a panel's row; 1 without swizzle."""
        return self.value or 1

    def swizzle_atom_size(self) -> int:
        """16-byte chunks of a panel's row; 1 without swizzle."""
        return max(1, self.value // _CHUNK_BYTES)

    def smem_alignment(self) -> int:
        """Bytes on a multiple of which a tile starts: eight rows of a panel."""
        return 8 * self.value or 128


def panel_layout(shape: Sequence[int], element_bits: int, panel_bytes: int) -> TileLayout:
    """Tiles of the last two axes in swizzled panels; leading axes (pipeline stages, batches) hold one tile each.

    Args:
        shape: extents, the last one contiguous and a whole number of panels.
        element_bits: bits of one element.
        panel_bytes: 128, 64 or 32.

    Returns:
        The layout; one panel after the other, each with all rows.

    Raises:
        ValueError: rows that are no whole panels, or not groups of eight.
    """
    rows, columns = shape[-2], shape[-1]
    width = panel_bytes * 8 // element_bits
    if columns % width:
        raise ValueError(f"rows of {columns} elements are not whole panels of {width}")
    if rows % 8:
        raise ValueError(f"{rows} rows are not whole groups of 8, over which the swizzle repeats")
    row_modes = ((rows, width),)
    column_modes = ((width, 1),) if columns == width else ((width, 1), (columns // width, rows * width))
    leading: list[tuple[tuple[int, int], ...]] = []
    stride = rows * columns
    for extent in reversed(shape[:-2]):
        leading.append(((extent, stride),))
        stride *= extent
    # PTX manual, "Shared Memory Matrix Layout": in 128-byte panels the chunk's number (3 bits) is XORed with the row modulo 8; in
    # 64-byte panels 2 bits with row // 2, in 32-byte panels 1 bit with row // 4: always bits 7 and up of the address.
    # These bits lie below the stride of a row, so that the XOR permutes the chunks of each row and moves none to another row.
    # Eight rows have eight different permutations in 128-byte panels: a column of chunks takes all 32 banks once.
    bits = (panel_bytes // _CHUNK_BYTES).bit_length() - 1
    position = (_CHUNK_BYTES * 8 // element_bits).bit_length() - 1
    swizzle = Swizzle(len(shape) - 2, bits, 3 - bits, position)
    return TileLayout(tuple(shape), (*reversed(leading), row_modes, column_modes), swizzle)


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


def _bank_swizzled(name: str, panel_bytes: int, what: tuple[Any, ...]) -> TileLayout:
    """The layout of a buffer, or of (rows, columns, element bits)."""
    if len(what) == 3:
        shape, bits = [int(size) for size in what[:2]], int(what[2])
    else:
        from tilelang.dtypes import canonical

        shape, bits = [int(size) for size in what[0].shape], canonical(str(what[0].dtype)).stored_bits
    try:
        return panel_layout(shape, bits, panel_bytes)
    except ValueError as error:
        raise LayoutError(f"{name}: {error}") from None


def make_full_bank_swizzled_layout(*what: Any) -> TileLayout:
    """Panels of 128 bytes, for a shared buffer or for ``(rows, columns, element_bits)``.

    Raises:
        CompileError: rows that are no whole panels, or not groups of eight.
    """
    return _bank_swizzled("make_full_bank_swizzled_layout", 128, what)


def make_half_bank_swizzled_layout(*what: Any) -> TileLayout:
    """Panels of 64 bytes; see :func:`make_full_bank_swizzled_layout`."""
    return _bank_swizzled("make_half_bank_swizzled_layout", 64, what)


def make_quarter_bank_swizzled_layout(*what: Any) -> TileLayout:
    """Panels of 32 bytes; see :func:`make_full_bank_swizzled_layout`."""
    return _bank_swizzled("make_quarter_bank_swizzled_layout", 32, what)
