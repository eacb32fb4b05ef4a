"""Matrix products: ``T.gemm``, ``T.wgmma_gemm``, ``T.tcgen05_gemm``, ``T.gemm_sp``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilelang.dtypes import canonical
from tilelang.interpreter.boxes import Box, box_of, read, write
from tilelang.interpreter.compiler import Compiler
from tilelang.interpreter.expressions import compiled
from tilelang.interpreter.numbers import convert, element
from tilelang.interpreter.operators.table import rule
from tilelang.interpreter.state import Lanes
from tilelang.ir.expr import constant
from tilelang.ir.region import Region
from tilelang.tileop.gemm import Gemm, GemmSparse

Effect = Callable[[Lanes], Any]


def matrix_of(c: Compiler, region: Region, transposed: bool = False) -> Callable[[Lanes], np.ndarray]:
    """The function that gives the matrix in a region.

    Args:
        c: the compiler.
        region: the operand.
        transposed: whether to exchange the axes.
    """
    box = box_of(c, region)
    # Which axes these are follows from the program, also where an extent turns out to be one at run time.
    rows, columns = region.matrix_axes

    def value(x: Lanes) -> np.ndarray:
        place = box(x)
        found = one_for_all(x, read(x, place), len(place.extents)).reshape(place.extents[rows], place.extents[columns])
        return found.T if transposed else found

    return value


def one_for_all(x: Lanes, value: np.ndarray, rank: int) -> np.ndarray:
    """The one value of a tile of which every thread holds a copy; a finding where the copies differ.

    Args:
        x: the state, which gets the finding.
        value: the tile's values, with an axis of threads in front where they differ.
        rank: how many axes the tile has.
    """
    if value.ndim == rank:
        return value
    rows = value if x.mask is True else value[x.mask]
    if not (rows == rows[:1]).all():
        x.find("divergence", "threads give an operator on a tile different values")
    return rows[0]


def product(x: Lanes, a: np.ndarray, b: np.ndarray, c: Box, old: np.ndarray | None) -> None:
    """``C (+)= a @ b`` in the accumulator's type, floats in float64 so that the order of the sum does not matter.

    Args:
        x: the state.
        a: (M, K).
        b: (K, N).
        c: the accumulator, (M, N).
        old: its values; None if they do not count.
    """
    kind = c.view.kind
    wide = np.float64 if kind.kind == "float" else np.int64
    total = a.astype(wide) @ b.astype(wide)
    if old is not None:
        total = total + old.astype(wide)
    source = element("float64") if kind.kind == "float" else element("int64")
    write(x, c, convert(total, source, kind).reshape(c.extents))


@rule(Gemm)
def _gemm(c: Compiler, record: Gemm) -> Effect:
    a, b = matrix_of(c, record.a, record.transpose_a), matrix_of(c, record.b, record.transpose_b)
    target, old, clear = box_of(c, record.c), matrix_of(c, record.c), compiled(c, constant(record.clear_accum))

    def effect(x: Lanes) -> None:
        product(x, a(x), b(x), target(x), None if x.uniform(clear(x)) else old(x))

    if record.kind == "gemm" and record.wg_wait == 0:
        return effect
    from tilelang.interpreter.asynchronous import product_started

    return product_started(c, record, effect, (box_of(c, record.a), box_of(c, record.b)), target)


@rule(GemmSparse)
def _gemm_sparse(c: Compiler, record: GemmSparse) -> Effect:
    a, e = matrix_of(c, record.a, record.transpose_a), matrix_of(c, record.e, record.transpose_e)
    b, target, old = matrix_of(c, record.b, record.transpose_b), box_of(c, record.c), matrix_of(c, record.c)
    clear, group = compiled(c, constant(record.clear_accum)), record.group
    word = canonical(record.e.dtype).bits // 4

    def effect(x: Lanes) -> None:
        kept, codes = a(x), positions_of(e(x).astype(np.int64), word)
        check_positions(x, kept, codes, group)
        product(x, expanded(kept, codes, group), b(x), target(x), None if x.uniform(clear(x)) else old(x))

    return effect


def positions_of(words: np.ndarray, groups_a_word: int) -> np.ndarray:
    """The four bits of each group: two for the position of the first element that is kept, then two for that of the second.

    Args:
        words: metadata, (M, groups / groups_a_word); groups from the low bits of a word up.
        groups_a_word: how many groups a word of metadata describes.
    """
    index = np.arange(words.shape[1] * groups_a_word)
    return (words[:, index // groups_a_word] >> (index % groups_a_word * 4)) & 15


def check_positions(x: Lanes, kept: np.ndarray, codes: np.ndarray, group: int) -> None:
    """A finding where elements that are not zero have positions that instructions do not know (PTX ISA, "Sparse matrix storage"):
    the first stands before the second, and the halves of a pair stand side by side.

    Args:
        x: the state, which gets the finding.
        kept: (M, K / 2).
        codes: the positions in each group, (M, K / group).
        group: as for :func:`expanded`.
    """
    valid = (codes == 0b0100) | (codes == 0b1110) if group == 2 else (codes & 3) < codes >> 2
    wrong = ~valid & kept.reshape(*codes.shape, -1).any(axis=2)
    if wrong.any():
        row, column = (int(place[0]) for place in np.nonzero(wrong))
        code = f"{int(codes[row, column]):#06b}"
        x.find(
            "metadata", f"row {row} of the sparse operand: the metadata of group {column}, {code}, names no positions of elements"
        )


def expanded(kept: np.ndarray, codes: np.ndarray, group: int) -> np.ndarray:
    """The dense matrix, (M, K), of kept elements; zero where nothing is kept.

    Args:
        kept: (M, K / 2).
        codes: the positions in each group, (M, K / group).
        group: four elements of which two are kept, or two of which one is.
    """
    dense = np.zeros((*codes.shape, group), kept.dtype)
    row, column = np.indices(codes.shape)
    first, second = codes & 3, codes >> 2
    if group == 2:
        dense[row, column, second >> 1] = kept
    else:
        dense[row, column, first] = kept[:, ::2]
        dense[row, column, second] = kept[:, 1::2]
    return dense.reshape(codes.shape[0], -1)
