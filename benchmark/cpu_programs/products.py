"""Products of matrices beside ``torch.matmul`` (of int8, ``torch._int_mm``): square, tall, flat, thin and many small ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

import tilelang.language as T
from cpu_programs.case import Case, nbytes

_SUMS = {"int8": "int32"}
_TOLERANCE = {"bfloat16": 2e-2, "float32": 1e-5, "int8": 0.0}
_BLOCKS = {
    # (dtype, M, N, K) -> block rows, columns, depth; sizes for a cache, not for a GPU
    ("float32", 256, 256, 256): (256, 64, 256),
    ("float32", 1024, 1024, 1024): (64, 128, 256),
    ("bfloat16", 256, 256, 256): (256, 64, 256),
    ("bfloat16", 1024, 1024, 1024): (256, 128, 1024),
    ("int8", 256, 256, 256): (256, 64, 256),
    ("int8", 1024, 1024, 1024): (256, 128, 1024),
    ("float32", 8192, 64, 256): (512, 64, 256),
    ("float32", 64, 8192, 256): (64, 128, 256),
    ("float32", 1, 2048, 2048): (1, 1024, 2048),
    ("float32", 8, 2048, 2048): (8, 256, 2048),
    ("float32", 16, 2048, 2048): (16, 256, 2048),
    ("bfloat16", 1, 2048, 2048): (1, 1024, 2048),
    ("bfloat16", 16, 2048, 2048): (16, 256, 2048),
}
_TRANSPOSED = (("float32", 1024), ("float32", 1, 2048, 2048), ("bfloat16", 1, 2048, 2048))
_BATCH = (64, 128)
_RAGGED = (("float32", (64, 128, 256)), ("float32", None), ("bfloat16", None), ("int8", None))
"""Type and block of the products of 1000^3, which no tile divides; None for the tiles of a GPU."""
_GPU_TILES = {"float32": (128, 128, 32), "bfloat16": (128, 128, 32), "int8": (128, 128, 64)}
"""Type -> block rows, columns and depth as programs for a GPU have them."""
_DYNAMIC_ROWS = (1, 16, 200)
"""Rows of A that a call gives to a program with tiles for a GPU."""


def gemm(M: Any, N: int, K: int, blocks: tuple[int, int, int], dtype: str, transposed: bool = False) -> Any:
    """``C = A B``; B is stored as its transpose where ``transposed``; M may be dynamic."""
    block_M, block_N, block_K = blocks
    accumulator = _SUMS.get(dtype, "float32")
    result = _SUMS.get(dtype, dtype)

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K) if transposed else (K, N), dtype), C: T.Tensor((M, N), result)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K) if transposed else (block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accumulator)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                if transposed:
                    T.copy(B[bx * block_N, k * block_K], B_shared)
                else:
                    T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=transposed)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def batched(count: int, size: int) -> Any:
    """``C[i] = A[i] B[i]`` of small square matrices."""

    @T.prim_func
    def main(
        A: T.Tensor((count, size, size), "float32"),
        B: T.Tensor((count, size, size), "float32"),
        C: T.Tensor((count, size, size), "float32"),
    ):
        with T.Kernel(count, threads=128) as i:
            A_shared = T.alloc_shared((size, size), "float32")
            B_shared = T.alloc_shared((size, size), "float32")
            C_local = T.alloc_fragment((size, size), "float32")
            T.copy(A[i, 0, 0], A_shared)
            T.copy(B[i, 0, 0], B_shared)
            T.gemm(A_shared, B_shared, C_local, clear_accum=True)
            T.copy(C_local, C[i, 0, 0])

    return main


def _matrix(rows: int, columns: int, dtype: str) -> torch.Tensor:
    if dtype == "int8":
        return torch.randint(-128, 128, (rows, columns), dtype=torch.int8)
    return torch.randn(rows, columns).to(getattr(torch, dtype))


def product(
    dtype: str,
    M: int,
    N: int,
    K: int,
    transposed: bool = False,
    gpu_tiles: bool = False,
    blocks: tuple[int, int, int] | None = None,
    dynamic: bool = False,
) -> Case:
    """One product of two matrices.

    Args:
        dtype: of the operands.
        M, N, K: the sizes.
        transposed: B is stored as its transpose.
        gpu_tiles: the program's tiles are those of :data:`_GPU_TILES`.
        blocks: rows, columns and depth of a block; by default those of :data:`_BLOCKS`.
        dynamic: the program is compiled for any M.
    """
    a, b = _matrix(M, K, dtype), _matrix(N if transposed else K, K if transposed else N, dtype)
    c = torch.empty(M, N, dtype=torch.int32 if dtype == "int8" else a.dtype)
    factor = b.T if transposed else b
    theirs = partial(torch._int_mm, a, factor) if dtype == "int8" else partial(torch.matmul, a, factor, out=torch.empty_like(c))
    thin = M < 16
    blocks = _GPU_TILES[dtype] if gpu_tiles else blocks or _BLOCKS[dtype, M, N, K]
    return Case(
        f"{'GEMV' if M == 1 else 'GEMM'} {dtype}{', B transposed' if transposed else ''}{', GPU tiles' if gpu_tiles else ''}"
        f"{', dynamic M' if dynamic else ''}",
        f"{M}x{N}x{K}",
        gemm(T.dynamic("m") if dynamic else M, N, K, blocks, dtype, transposed),
        (a, b, c),
        theirs,
        "read" if thin else dtype,
        nbytes(a, b, c) if thin else 2 * M * N * K,
        _TOLERANCE[dtype],
    )


def _batch() -> Case:
    count, size = _BATCH
    a, b, c = (torch.randn(count, size, size) for _ in range(3))
    theirs = partial(torch.bmm, a, b, out=torch.empty_like(c))
    return Case(
        "batched GEMM float32", f"{count}x{size}^3", batched(count, size), (a, b, c), theirs, "float32", 2 * count * size**3
    )


def cases() -> Iterator[Callable[[], Case]]:
    """All rows."""
    for shape in _BLOCKS:
        yield partial(product, *shape)
    for dtype in _GPU_TILES:
        yield partial(product, dtype, 1024, 1024, 1024, gpu_tiles=True)
    for dtype, blocks in _RAGGED:
        yield partial(product, dtype, 1000, 1000, 1000, gpu_tiles=blocks is None, blocks=blocks)
    for dtype, *shape in _TRANSPOSED:
        yield partial(product, dtype, *(shape if len(shape) == 3 else shape * 3), transposed=True)
    for dtype in ("float32", "bfloat16"):
        for rows in _DYNAMIC_ROWS:
            yield partial(product, dtype, rows, 2048, 2048, transposed=True, gpu_tiles=True, dynamic=True)
    yield _batch
