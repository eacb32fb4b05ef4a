"""Causal linear attention by chunks, beside the same chunks in torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

import tilelang.language as T
from cpu_programs.case import Case

CHUNK = 64


def linear_attention(heads: int, length: int, dim: int, dtype: str, chunk: int = CHUNK) -> Any:
    """``Output[i] = sum over j <= i of (Q[i] . K[j]) V[j]``; tensors are ``[heads, length, dim]``."""

    @T.prim_func
    def main(
        Q: T.Tensor((heads, length, dim), dtype),
        K: T.Tensor((heads, length, dim), dtype),
        V: T.Tensor((heads, length, dim), dtype),
        Output: T.Tensor((heads, length, dim), dtype),
    ):
        with T.Kernel(heads, threads=128) as head:
            Q_shared = T.alloc_shared((chunk, dim), dtype)
            K_shared = T.alloc_shared((chunk, dim), dtype)
            V_shared = T.alloc_shared((chunk, dim), dtype)
            scores = T.alloc_fragment((chunk, chunk), "float32")
            weights = T.alloc_shared((chunk, chunk), dtype)
            state = T.alloc_fragment((dim, dim), "float32")
            state_shared = T.alloc_shared((dim, dim), dtype)
            out = T.alloc_fragment((chunk, dim), "float32")
            T.clear(state)
            for c in T.Pipelined(length // chunk, num_stages=2):
                T.copy(Q[head, c * chunk, 0], Q_shared)
                T.copy(K[head, c * chunk, 0], K_shared)
                T.copy(V[head, c * chunk, 0], V_shared)
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(chunk, chunk):
                    scores[i, j] = T.if_then_else(i >= j, scores[i, j], 0)
                T.copy(scores, weights)
                T.copy(state, state_shared)
                T.gemm(weights, V_shared, out, clear_accum=True)
                T.gemm(Q_shared, state_shared, out)
                T.gemm(K_shared, V_shared, state, transpose_A=True)
                T.copy(out, Output[head, c * chunk, 0])

    return main


def in_torch(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The same by ``torch.bmm``: chunks one after another, all heads at once."""
    state = torch.zeros(len(q), q.shape[2], v.shape[2])
    parts = []
    for queries, keys, values in zip(*(tensor.split(CHUNK, dim=1) for tensor in (q, k, v))):
        own = torch.bmm(torch.bmm(queries, keys.mT).tril_(), values)
        parts.append(torch.baddbmm(own, queries, state))
        state = torch.baddbmm(state, keys.mT, values)
    return torch.cat(parts, dim=1)


def _linear_attention() -> Case:
    heads, length, dim = 8, 2048, 64
    q, k, v = (torch.randn(heads, length, dim) for _ in range(3))
    operations = heads * length * 2 * (2 * CHUNK * dim + 2 * dim * dim)
    return Case(
        "linear attention float32",
        f"{heads}x{length}x{dim}",
        linear_attention(heads, length, dim, "float32"),
        (q, k, v, torch.empty_like(v)),
        lambda: in_torch(q, k, v),
        "float32",
        operations,
        1e-4,
    )


def cases() -> Iterator[Callable[[], Case]]:
    """All rows."""
    yield _linear_attention
