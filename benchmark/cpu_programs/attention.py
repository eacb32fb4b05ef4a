"""Attention beside ``scaled_dot_product_attention``: forward with the tiles of a GPU, a sliding window, decoding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

import tilelang.language as T
from cpu_programs.case import Case, nbytes

LOG2_E = 1.4426950408889634
_TOLERANCE = {"float32": 1e-5, "bfloat16": 2e-2}


def forward(heads: int, length: int, dim: int, dtype: str, causal: bool, window: int = 0, queries: int | None = None) -> Any:
    """Flash attention with tiles of 64 queries and 64 keys; tensors are ``[heads, length, dim]``, with as many queries.

    With a ``window``, a query sees so many keys, up to its own. Another number of ``queries`` see all keys.
    """
    block, scale = 64, dim**-0.5 * LOG2_E
    queries = length if queries is None else queries

    @T.prim_func
    def main(
        Q: T.Tensor((heads, queries, dim), dtype),
        K: T.Tensor((heads, length, dim), dtype),
        V: T.Tensor((heads, length, dim), dtype),
        Output: T.Tensor((heads, queries, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(queries, block), heads, threads=128) as (bx, head):
            Q_shared = T.alloc_shared((block, dim), dtype)
            K_shared = T.alloc_shared((block, dim), dtype)
            V_shared = T.alloc_shared((block, dim), dtype)
            scores = T.alloc_fragment((block, block), "float32")
            weights = T.alloc_fragment((block, block), dtype)
            acc = T.alloc_fragment((block, dim), "float32")
            row_max = T.alloc_fragment((block,), "float32")
            previous_max = T.alloc_fragment((block,), "float32")
            rescale = T.alloc_fragment((block,), "float32")
            tile_sum = T.alloc_fragment((block,), "float32")
            row_sum = T.alloc_fragment((block,), "float32")

            T.copy(Q[head, bx * block, 0], Q_shared)
            T.clear(acc)
            T.clear(row_sum)
            T.fill(row_max, -T.infinity("float32"))
            first = T.max(0, (bx * block - window) // block) if window else 0
            last = bx + 1 if causal else T.ceildiv(length, block)
            for step in T.Pipelined(last - first, num_stages=2):
                k = first + step
                T.copy(K[head, k * block, 0], K_shared)
                if causal:
                    for i, j in T.Parallel(block, block):
                        inside = bx * block + i >= k * block + j
                        if window:
                            inside = inside and bx * block + i < k * block + j + window
                        scores[i, j] = T.if_then_else(inside, 0, -T.infinity("float32"))
                else:
                    T.clear(scores)
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(row_max, previous_max)
                T.reduce_max(scores, row_max, dim=1, clear=False)
                for i in T.Parallel(block):
                    row_max[i] = T.max(row_max[i], -1e30)
                    rescale[i] = T.exp2(previous_max[i] * scale - row_max[i] * scale)
                for i, j in T.Parallel(block, block):
                    scores[i, j] = T.exp2(scores[i, j] * scale - row_max[i] * scale)
                T.reduce_sum(scores, tile_sum, dim=1)
                for i in T.Parallel(block):
                    row_sum[i] = row_sum[i] * rescale[i] + tile_sum[i]
                for i, j in T.Parallel(block, dim):
                    acc[i, j] *= rescale[i]
                T.copy(scores, weights)
                T.copy(V[head, k * block, 0], V_shared)
                T.gemm(weights, V_shared, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block, dim):
                acc[i, j] /= row_sum[i]
            T.copy(acc, Output[head, bx * block, 0])

    return main


def decoding(heads: int, length: int, dim: int, dtype: str, block: int = 256) -> Any:
    """One query for each head and a cache of ``length`` keys and values."""
    scale = dim**-0.5 * LOG2_E

    @T.prim_func
    def main(
        Q: T.Tensor((heads, 1, dim), dtype),
        K: T.Tensor((heads, length, dim), dtype),
        V: T.Tensor((heads, length, dim), dtype),
        Output: T.Tensor((heads, 1, dim), dtype),
    ):
        with T.Kernel(heads, threads=128) as head:
            Q_shared = T.alloc_shared((1, dim), dtype)
            K_shared = T.alloc_shared((block, dim), dtype)
            V_shared = T.alloc_shared((block, dim), dtype)
            scores = T.alloc_fragment((1, block), "float32")
            weights = T.alloc_fragment((1, block), dtype)
            acc = T.alloc_fragment((1, dim), "float32")
            row_max = T.alloc_fragment((1,), "float32")
            previous_max = T.alloc_fragment((1,), "float32")
            tile_sum = T.alloc_fragment((1,), "float32")
            row_sum = T.alloc_fragment((1,), "float32")

            T.copy(Q[head, 0, 0], Q_shared)
            T.clear(acc)
            T.clear(row_sum)
            T.fill(row_max, -T.infinity("float32"))
            for k in T.Pipelined(T.ceildiv(length, block), num_stages=2):
                T.copy(K[head, k * block, 0], K_shared)
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True)
                T.copy(row_max, previous_max)
                T.reduce_max(scores, row_max, dim=1, clear=False)
                for i, j in T.Parallel(1, block):
                    scores[i, j] = T.exp2(scores[i, j] * scale - row_max[i] * scale)
                T.reduce_sum(scores, tile_sum, dim=1)
                for i in T.Parallel(1):
                    previous_max[i] = T.exp2(previous_max[i] * scale - row_max[i] * scale)
                    row_sum[i] = row_sum[i] * previous_max[i] + tile_sum[i]
                for i, j in T.Parallel(1, dim):
                    acc[i, j] *= previous_max[i]
                T.copy(scores, weights)
                T.copy(V[head, k * block, 0], V_shared)
                T.gemm(weights, V_shared, acc)
            for i, j in T.Parallel(1, dim):
                acc[i, j] /= row_sum[i]
            T.copy(acc, Output[head, 0, 0])

    return main


def _tensors(dtype: str, heads: int, queries: int, length: int, dim: int) -> list[torch.Tensor]:
    shapes = ((heads, queries, dim), (heads, length, dim), (heads, length, dim), (heads, queries, dim))
    return [torch.randn(shape).to(getattr(torch, dtype)) for shape in shapes]


def forward_case(dtype: str, causal: bool, heads: int = 4, length: int = 1024, dim: int = 64, window: int = 0) -> Case:
    """All queries of a sequence."""
    q, k, v, output = _tensors(dtype, heads, length, length, dim)
    mask = None
    if window:
        rows, columns = torch.arange(length)[:, None], torch.arange(length)[None]
        mask = (rows >= columns) & (rows < columns + window)
    theirs = partial(scaled_dot_product_attention, q[None], k[None], v[None], attn_mask=mask, is_causal=causal and not window)
    seen = int(mask.sum()) if window else (length * (length + 1) // 2 if causal else length**2)
    kind = f"window of {window}" if window else ("causal" if causal else "full")
    return Case(
        f"attention {dtype}, {kind}",
        f"{heads}x{length}x{dim}",
        forward(heads, length, dim, dtype, causal, window),
        (q, k, v, output),
        theirs,
        dtype,
        4 * heads * seen * dim,
        _TOLERANCE[dtype],
    )


def few_queries_case(dtype: str, queries: int, heads: int, length: int, dim: int = 64) -> Case:
    """Fewer queries than a tile has rows, or one and a quarter of them."""
    q, k, v, output = _tensors(dtype, heads, queries, length, dim)
    return Case(
        f"attention {dtype}, {queries} queries",
        f"{heads}x{length}x{dim}",
        forward(heads, length, dim, dtype, False, queries=queries),
        (q, k, v, output),
        partial(scaled_dot_product_attention, q[None], k[None], v[None]),
        dtype,
        4 * heads * queries * length * dim,
        _TOLERANCE[dtype],
    )


def decoding_case(dtype: str, heads: int = 8, length: int = 8192, dim: int = 64) -> Case:
    """One query, a long cache."""
    q, k, v, output = _tensors(dtype, heads, 1, length, dim)
    theirs = partial(scaled_dot_product_attention, q[None], k[None], v[None])
    program = decoding(heads, length, dim, dtype)
    bytes_read = nbytes(q, k, v)
    return Case(
        f"decoding {dtype}", f"{heads}x{length}x{dim}", program, (q, k, v, output), theirs, "read", bytes_read, _TOLERANCE[dtype]
    )


def cases() -> Iterator[Callable[[], Case]]:
    """All rows."""
    for dtype in ("float32", "bfloat16"):
        for causal in (False, True):
            yield partial(forward_case, dtype, causal)
    yield partial(forward_case, "float32", True, window=256)
    yield partial(forward_case, "float32", True, length=1000)
    for dtype in ("float32", "bfloat16"):
        yield partial(few_queries_case, dtype, queries=8, heads=8, length=4096)
        yield partial(few_queries_case, dtype, queries=80, heads=32, length=512)
    for dtype in ("float32", "bfloat16"):
        yield partial(decoding_case, dtype)
