"""Matrices of 2:4 structured sparsity, the operands of ``T.gemm_sp``: random ones, and their compressed form.

Of every four consecutive elements of a row two may differ from zero; of 32-bit elements one of two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tilelang.dtypes import canonical, to_torch
from tilelang.errors import OperandError, ShapeError

_FIRST_OF_TWO, _SECOND_OF_TWO = 0b0100, 0b1110
"""The metadata of a pair of 32-bit elements: which one is kept."""


def _group(dtype: torch.dtype) -> int:
    """How many consecutive elements of a row form a group, of which half are kept."""
    return 2 if dtype == torch.float32 else 4


def get_e_factor(dtype: Any, meta_dtype: Any) -> int:
    """How many elements of a row of the matrix one word of metadata is for.

    Args:
        dtype: of the matrix.
        meta_dtype: of the metadata, a type of integers.
    """
    return _group(to_torch(canonical(dtype))) * to_torch(canonical(meta_dtype)).itemsize * 2


def compress(A: torch.Tensor, meta_dtype: Any = None) -> tuple[torch.Tensor, torch.Tensor]:
    """The operands of ``T.gemm_sp`` for a sparse matrix.

    Args:
        A: a matrix, contiguous.
        meta_dtype: type of the metadata; int16 by default.

    Returns:
        The kept elements (M, K / 2), and the metadata (M, K / :func:`get_e_factor`): four bits for each group, the first in the
        low bits of a word.

    Raises:
        ShapeError: it is no matrix, or its rows do not fill words of metadata.
        OperandError: a group has too many elements that are not zero.
    """
    words = torch.int16 if meta_dtype is None else to_torch(canonical(meta_dtype))
    group, factor = _group(A.dtype), get_e_factor(A.dtype, words)
    if A.dim() != 2 or A.shape[1] % factor:
        raise ShapeError(f"compress: the matrix is {tuple(A.shape)}; its rows must be a multiple of {factor} elements")
    rows, columns = A.shape
    used = (A.float() != 0).view(rows, columns // group, group)
    if bool((used.sum(dim=2) > group // 2).any()):
        raise OperandError(f"compress: of {group} consecutive elements of a row at most {group // 2} may differ from zero")
    # Those that are not zero come first; zeros fill up the places of groups that have fewer.
    position = used.to(torch.uint8).argsort(dim=2, descending=True, stable=True)[..., : group // 2].sort(dim=2).values
    kept = _as_integers(A).view(rows, columns // group, group).gather(2, position).reshape(rows, columns // 2)
    return kept.view(A.dtype), _packed(_codes(position), words)


def _as_integers(values: torch.Tensor) -> torch.Tensor:
    """The bits of the elements: torch does not gather elements of every type."""
    return values.contiguous().view({1: torch.uint8, 2: torch.int16, 4: torch.int32}[values.dtype.itemsize])


def _codes(position: torch.Tensor) -> torch.Tensor:
    """Four bits for each group, from the places of its kept elements."""
    if position.shape[2] == 1:
        return torch.where(position[..., 0] == 0, _FIRST_OF_TWO, _SECOND_OF_TWO)
    return position[..., 0] | position[..., 1] << 2


def _packed(codes: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Groups of four bits as words, the first in the low bits."""
    rows, count = codes.shape
    low, high = codes.view(rows, count // 2, 2).unbind(2)
    return (low | high << 4).to(torch.uint8).contiguous().view(dtype)


def _semi_sparse(M: int, K: int, dtype: torch.dtype, transposed: bool, values: Callable[[], torch.Tensor]) -> torch.Tensor:
    """A matrix of values of which, in each group, half at random are zero.

    Args:
        M, K, dtype, transposed: as for :func:`randn_semi_sparse`.
        values: makes M * K values.
    """
    group = _group(dtype)
    groups = values().view(M, K // group, group)
    dropped = torch.rand(groups.shape, device=groups.device).topk(group // 2, dim=2).indices
    matrix = groups.scatter(2, dropped, 0).view(M, K).to(dtype)
    return matrix.t().contiguous() if transposed else matrix


def randn_semi_sparse(
    M: int, K: int, dtype: torch.dtype = torch.float16, device: Any = "cuda", transposed: bool = False
) -> torch.Tensor:
    """A matrix of normal random numbers, half of which are zero.

    Args:
        M, K: rows and columns.
        dtype: of the elements.
        device: of the tensor.
        transposed: gives the transposed matrix, (K, M), sparse along its columns.

    Returns:
        The matrix.
    """
    return _semi_sparse(M, K, dtype, transposed, lambda: torch.randn(M, K, device=device))


def randint_semi_sparse(
    M: int, K: int, low: int, high: int, dtype: torch.dtype = torch.int32, device: Any = "cuda", transposed: bool = False
) -> torch.Tensor:
    """A matrix of random integers, half of which are zero.

    Args:
        M, K, dtype, device, transposed: as for :func:`randn_semi_sparse`.
        low: the least integer.
        high: one more than the largest.

    Returns:
        The matrix.
    """
    return _semi_sparse(M, K, dtype, transposed, lambda: torch.randint(low, high, (M, K), device=device))


def arange_semi_sparse(
    M: int, K: int, dtype: torch.dtype = torch.float16, device: Any = "cuda", transposed: bool = False
) -> torch.Tensor:
    """A matrix of the numbers from 0 on, row by row, half of which are replaced by zero.

    Args:
        M, K, dtype, device, transposed: as for :func:`randn_semi_sparse`.

    Returns:
        The matrix.
    """
    return _semi_sparse(M, K, dtype, transposed, lambda: torch.arange(M * K, device=device))
