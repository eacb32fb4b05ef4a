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
from tilelang.tileop.gemm import Gemm, GemmSparse

Effect = Callable[[Lanes], Any]


def matrix(x: Lanes, box: Box, transposed: bool = False) -> np.ndarray:
    """The last two axes of a box as an operand matrix.

    Args:
        x: the state.
        box: the operand.
        transposed: whether to exchange the axes.
    """
    value = one_for_all(x, read(x, box), len(box.extents)).reshape(box.extents[-2:])
    return value.T if transposed else value


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


def product(x: Lanes, a: np.ndarray, b: np.ndarray, c: Box, clear: Any) -> None:
    """``C (+)= a @ b`` in the accumulator's type, floats in float64 so that the order of the sum does not matter.

    Args:
        x: the state.
        a: (M, K).
        b: (K, N).
        c: the accumulator, (M, N).
        clear: whether the old values do not count; a bool or a number.
    """
    kind = c.view.kind
    wide = np.float64 if kind.kind == "float" else np.int64
    total = a.astype(wide) @ b.astype(wide)
    if not clear:
        total = total + matrix(x, c).astype(wide)
    source = element("float64") if kind.kind == "float" else element("int64")
    write(x, c, convert(total, source, kind).reshape(c.extents))


@rule(Gemm)
def _gemm(c: Compiler, record: Gemm) -> Effect:
    a, b, target = (box_of(c, region) for region in (record.a, record.b, record.c))
    clear = compiled(c, constant(record.clear_accum))

    def effect(x: Lanes) -> None:
        product(x, matrix(x, a(x), record.transpose_a), matrix(x, b(x), record.transpose_b), target(x), clear(x))

    if record.kind == "gemm" and record.wg_wait == 0:
        return effect
    from tilelang.interpreter.asynchronous import product_started

    return product_started(c, record, effect, target)


@rule(GemmSparse)
def _gemm_sparse(c: Compiler, record: GemmSparse) -> Effect:
    a, e, b, target = (box_of(c, region) for region in (record.a, record.e, record.b, record.c))
    clear, group = compiled(c, constant(record.clear_accum)), record.group
    word = canonical(record.e.dtype).bits // 4

    def effect(x: Lanes) -> None:
        kept, words = matrix(x, a(x), record.transpose_a), matrix(x, e(x), record.transpose_e)
        dense = expanded(kept, words.astype(np.int64), group, word)
        product(x, dense, matrix(x, b(x), record.transpose_b), target(x), clear(x))

    return effect


def expanded(kept: np.ndarray, words: np.ndarray, group: int, groups_a_word: int) -> np.ndarray:
    """The dense matrix of kept elements and the four bits of each group that say where they stand.

    Args:
        kept: (M, K / 2).
        words: metadata, (M, K / group / groups_a_word); groups from the low bits of a word up.
        group: four elements of which two are kept, or two of which one is.
        groups_a_word: how many groups a word of metadata describes.

    Returns:
        (M, K), zero where nothing is kept.
    """
    rows, groups = kept.shape[0], kept.shape[1] * 2 // group
    index = np.arange(groups)
    code = (words[:, index // groups_a_word] >> (index % groups_a_word * 4)) & 15
    first, second = code & 3, code >> 2 & 3
    dense = np.zeros((rows, groups, group), kept.dtype)
    row, column = np.indices((rows, groups))
    if group == 2:
        dense[row, column, second >> 1] = kept
    else:
        dense[row, column, second] = kept[:, 1::2]
        dense[row, column, first] = kept[:, ::2]
    return dense.reshape(rows, groups * group)
