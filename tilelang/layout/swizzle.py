"""Swizzles of shared tiles, and the bank conflicts that an access pattern has.

Shared memory has 32 banks of 4 bytes. A 16-byte access is served a quarter warp at a time, and ``ldmatrix`` reads eight rows of
16 bytes at a time, so eight 16-byte chunks that lie in the same column of consecutive rows must fall in different bank groups
of 16 bytes. XORing the chunk's number with the row's does that without padding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tilelang.attributes import attributes
from tilelang.layout.memory import Swizzle, TileLayout, row_major

__getattr__ = attributes(
    __name__,
    {
        "tilelang.layout.panels": (
            "make_full_bank_swizzled_layout make_half_bank_swizzled_layout make_quarter_bank_swizzled_layout"
        )
    },
)

_BANKS, _WORD_BITS = 32, 32
_CHUNK_BYTES = 16
_GROUPS = 8
"""16-byte bank groups in one pass over the 128 bytes of banks."""


def swizzled(shape: Sequence[int], element_bits: int, step: int = 0, row_step: int = 0) -> TileLayout:
    """Rows of a tile with their 16-byte chunks XORed by the row, so that columns of chunks have no bank conflict.

    Args:
        shape: extents; the last axis is contiguous, the one before it is the row.
        element_bits: bits of one element.
        step: ``log2`` of how many neighbouring chunks one row of the access covers: 0 for ``ldmatrix``, 1 where eight
            4-byte elements of one row are read together.
        row_step: ``log2`` of the distance of the rows of one access, 0 or 1. Rows of less than 128 bytes then trade places, too:
            otherwise the rows of one access would have half of the banks.

    Returns:
        The layout; without a swizzle where none is needed or the row is not a whole number of chunks.
    """
    plain = row_major(shape)
    if len(shape) < 2:
        return plain
    row_bytes = shape[-1] * element_bits // 8
    if row_bytes % _CHUNK_BYTES or (shape[-1] * element_bits) % 8:
        return plain
    chunks = row_bytes // _CHUNK_BYTES
    # Only as many low bits of the chunk's number as every row has may change: in a row of 6 chunks, XOR with 1 stays inside, XOR
    # with 2 would leave it (chunk 4 would become 6). That is the largest power of two that divides the number.
    reach = min(chunks & -chunks, _GROUPS)
    bits = reach.bit_length() - 1 - step
    # Rows of less than eight chunks share one pass over the banks. Where an access takes every second of them, the bit that tells
    # such rows apart must move a chunk to the other half of the banks, that is, into another row: one more bit than the row has.
    if reach == chunks < _GROUPS and shape[-2] * chunks % _GROUPS == 0:
        bits += row_step
    if bits <= 0:
        return plain
    # Rows that lie in the same 128 bytes are in different banks already, so the XOR takes the bits of the row above those: of
    # 64-byte rows (4 chunks, 2 bits) rows 0 and 1 share a mask, rows 2 and 3 the next one.
    shift = 3 + row_step - bits if step == 0 else max(0, (_GROUPS // min(chunks, _GROUPS)).bit_length() - 1)
    position = (_CHUNK_BYTES * 8 // element_bits).bit_length() - 1 + step
    return TileLayout(plain.shape, plain.modes, Swizzle(len(shape) - 2, bits, shift, position))


def word_swizzled(shape: Sequence[int], element_bits: int) -> TileLayout:
    """Rows of a tile with their words (4 bytes, or one wider element) XORed by the row: rows and columns have no bank conflict.

    Accesses wider than a word are broken up by it: it is for tiles that are read across the rows that they were written by.

    Args:
        shape: extents; the last axis is contiguous, the one before it is the row.
        element_bits: bits of one element.

    Returns:
        The layout; without a swizzle where a row is not a whole, even number of words.
    """
    plain = row_major(shape)
    word = max(element_bits, _WORD_BITS)
    if len(shape) < 2 or shape[-1] * element_bits % word:
        return plain
    # Elements of 64 bits take two banks each, so there are 16 places to spread them over instead of 32.
    words, banks = shape[-1] * element_bits // word, _BANKS * _WORD_BITS // word
    reach = min(words & -words, banks)  # rows begin at multiples of this, and those that begin alike differ in the rest
    bits, position = reach.bit_length() - 1, (word // element_bits).bit_length() - 1
    if not bits:
        return plain
    return TileLayout(plain.shape, plain.modes, Swizzle(len(shape) - 2, bits, banks.bit_length() - 1 - bits, position))


def padded(shape: Sequence[int], element_bits: int) -> TileLayout:
    """Rows with 16 bytes of padding, for patterns that an XOR cannot serve."""
    return row_major(shape, pitch=shape[-1] + _CHUNK_BYTES * 8 // element_bits)


def make_swizzled_layout(buffer: Any, k_major: bool = True, allow_pad: bool = True) -> TileLayout:
    """The swizzled layout of a shared buffer that a GEMM reads.

    Args:
        buffer: a shared buffer, or anything with ``shape`` and ``dtype``.
        k_major, allow_pad: accepted for compatibility; the layout serves both orders and never pads.

    Returns:
        The widest swizzled panels that fit the rows, else swizzled rows.
    """
    from tilelang.dtypes import canonical

    shape = [int(extent) for extent in buffer.shape]
    return swizzled(shape, canonical(str(buffer.dtype)).stored_bits)


def conflicts(addresses: Iterable[int], bytes_each: int) -> int:
    """Extra shared-memory passes that one warp's access needs beyond the least possible.

    Args:
        addresses: byte address of each lane, in lane order.
        bytes_each: 4, 8 or 16; wider accesses are served by halves and quarters of the warp.
    """
    lanes = list(addresses)
    # A pass serves 128 bytes: 32 lanes of 4 bytes, 16 of 8, 8 of 16. Each group is a pass by itself, whatever its addresses are,
    # so only what a group needs beyond one counts.
    group = 32 * 4 // max(4, bytes_each)
    return sum(_passes(lanes[first : first + group], bytes_each) - 1 for first in range(0, len(lanes), group))


def _passes(addresses: Sequence[int], bytes_each: int) -> int:
    words_of_bank: dict[int, set[int]] = {}
    for address in addresses:
        for word in range(address // 4, (address + max(bytes_each, 1) + 3) // 4):
            # A set of words: lanes that read the same word of a bank get it by a broadcast, in the same pass.
            words_of_bank.setdefault(word % 32, set()).add(word)
    return max(len(words) for words in words_of_bank.values())
