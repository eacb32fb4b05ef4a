"""The gradients of attention, beside those of ``scaled_dot_product_attention``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

import tilelang.language as T
from cpu_programs.case import Case

LOG2_E = 1.4426950408889634


def backward(heads: int, length: int, dim: int, causal: bool, block: int = 64) -> Any:
    """Gradients of Q, K and V: a block takes a head, as torch's kernel does, so that the weights are computed once for all three.

    ``log_sum`` is the logarithm (base 2) of each row's sum of weights, ``delta`` the product of each row's output and gradient.
    """
    scale = dim**-0.5
    shape = (heads, length, dim)
    tiles = length // block

    @T.prim_func
    def main(
        Q: T.Tensor(shape, "float32"),
        K: T.Tensor(shape, "float32"),
        V: T.Tensor(shape, "float32"),
        dOutput: T.Tensor(shape, "float32"),
        log_sum: T.Tensor((heads, length), "float32"),
        delta: T.Tensor((heads, length), "float32"),
        dQ: T.Tensor(shape, "float32"),
        dK: T.Tensor(shape, "float32"),
        dV: T.Tensor(shape, "float32"),
    ):
        with T.Kernel(heads, threads=128) as head:
            q = T.alloc_shared((block, dim), "float32")
            do = T.alloc_shared((block, dim), "float32")
            k = T.alloc_shared((block, dim), "float32")
            v = T.alloc_shared((block, dim), "float32")
            weights = T.alloc_shared((block, block), "float32")
            grads = T.alloc_shared((block, block), "float32")
            dq = T.alloc_shared((length, dim), "float32")
            dk = T.alloc_fragment((block, dim), "float32")
            dv = T.alloc_fragment((block, dim), "float32")
            T.clear(dq)
            for keys in T.serial(tiles):
                T.copy(K[head, keys * block, 0], k)
                T.copy(V[head, keys * block, 0], v)
                T.clear(dk)
                T.clear(dv)
                first = keys if causal else 0
                for step in T.serial(tiles - first):
                    row = (first + step) * block
                    T.copy(Q[head, row, 0], q)
                    T.copy(dOutput[head, row, 0], do)
                    T.gemm(q, k, weights, transpose_B=True, clear_accum=True)
                    T.gemm(do, v, grads, transpose_B=True, clear_accum=True)
                    for i, j in T.Parallel(block, block):
                        inside = row + i >= keys * block + j if causal else True
                        exponent = weights[i, j] * (scale * LOG2_E) - log_sum[head, row + i]
                        weights[i, j] = T.if_then_else(inside, T.exp2(exponent), 0)
                    for i, j in T.Parallel(block, block):
                        grads[i, j] = weights[i, j] * (grads[i, j] - delta[head, row + i]) * scale
                    T.gemm(weights, do, dv, transpose_A=True)
                    T.gemm(grads, q, dk, transpose_A=True)
                    T.gemm(grads, k, dq[row : row + block, :])
                T.copy(dk, dK[head, keys * block, 0])
                T.copy(dv, dV[head, keys * block, 0])
            T.copy(dq, dQ[head, 0, 0])

    return main


def backward_case(causal: bool, heads: int = 4, length: int = 1024, dim: int = 64) -> Case:
    """All three gradients are compared; operations are those of the five products that they take."""
    q, k, v = (torch.randn(heads, length, dim, requires_grad=True) for _ in range(3))
    output = scaled_dot_product_attention(q[None], k[None], v[None], is_causal=causal)
    grad = torch.randn_like(output)
    with torch.no_grad():
        scores = (q @ k.mT) * (dim**-0.5 * LOG2_E)
        if causal:
            scores = scores.masked_fill(torch.ones(length, length).tril() == 0, float("-inf"))
        log_sum = torch.log2(torch.exp2(scores).sum(2))
        delta = (output * grad)[0].sum(2)
    inputs = [tensor.detach() for tensor in (q, k, v)]
    results = [torch.empty(heads, length, dim) for _ in range(3)]
    seen = length * (length + 1) // 2 if causal else length**2
    return Case(
        f"attention backward, {'causal' if causal else 'full'}",
        f"{heads}x{length}x{dim}",
        backward(heads, length, dim, causal),
        (*inputs, grad[0], log_sum, delta, *results),
        lambda: torch.autograd.grad(output, (q, k, v), grad, retain_graph=True),
        "float32",
        10 * heads * seen * dim,
        1e-4,
    )


def cases() -> Iterator[Callable[[], Case]]:
    """All rows."""
    for causal in (False, True):
        yield partial(backward_case, causal)
