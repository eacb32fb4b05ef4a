"""Programs for sm_90a, and how tests run them."""

from __future__ import annotations

from typing import Any

import torch

import tilelang.language as T
from testing.python.target.cuda.programs import matmul
from testing.python.target.cuda.support import simulate, source


def random(*shape: int, dtype: str = "float16", seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype in ("int8", "uint8"):
        return torch.randint(0, 8, shape, generator=generator).to(getattr(torch, dtype))
    return torch.rand(shape, generator=generator).sub(0.5).to(getattr(torch, dtype))


def check_matmul(m: int, n: int, k: int, tile: tuple[int, int, int], *, pass_configs: dict | None = None,
                 sizes: tuple[Any, Any, Any] | None = None, **options: Any) -> str:  # fmt: skip
    """Runs a product; gives its CUDA text."""
    dtype, out = options.get("dtype", "float16"), options.get("out") or options.get("accumulate", "float32")
    ta, tb = options.get("transpose_a", False), options.get("transpose_b", False)
    a = random(*((k, m) if ta else (m, k)), dtype=dtype, seed=1)
    b = random(*((n, k) if tb else (k, n)), dtype=dtype, seed=2)
    c = torch.zeros(m, n, dtype=getattr(torch, out))
    program = matmul(*(sizes or (m, n, k)), tile, **options)
    simulate(program, a, b, c, arch="sm_90a", pass_configs=pass_configs)
    want = (a.T if ta else a).double() @ (b.T if tb else b).double()
    torch.testing.assert_close(c.double(), want, rtol=1e-2, atol=2e-3 * k**0.5)
    return source(program, "sm_90a", pass_configs)


def attention(heads: int, length: Any, dim: int, *, block: tuple[int, int] = (64, 64), threads: int = 128, causal: bool = False,
              stages: int = 2) -> Any:  # fmt: skip
    bm, bn = block
    scale = 1.44269504 / dim**0.5
    shape = (1, length, heads, dim)

    @T.prim_func
    def main(
        Q: T.Tensor(shape, "float16"), K: T.Tensor(shape, "float16"), V: T.Tensor(shape, "float16"),
        Out: T.Tensor(shape, "float16"),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(length, bm), heads, 1, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared((bm, dim), "float16")
            K_shared = T.alloc_shared((bn, dim), "float16")
            V_shared = T.alloc_shared((bn, dim), "float16")
            O_shared = T.alloc_shared((bm, dim), "float16")
            scores = T.alloc_fragment((bm, bn), "float32")
            weights = T.alloc_fragment((bm, bn), "float16")
            out = T.alloc_fragment((bm, dim), "float32")
            top = T.alloc_fragment((bm,), "float32")
            before = T.alloc_fragment((bm,), "float32")
            shrink = T.alloc_fragment((bm,), "float32")
            row_sum = T.alloc_fragment((bm,), "float32")
            total = T.alloc_fragment((bm,), "float32")
            T.copy(Q[bz, bx * bm : (bx + 1) * bm, by, :], Q_shared)
            T.fill(out, 0)
            T.fill(total, 0)
            T.fill(top, -T.infinity("float32"))
            steps = T.ceildiv((bx + 1) * bm, bn) if causal else T.ceildiv(length, bn)
            for k in T.Pipelined(steps, num_stages=stages):
                T.copy(K[bz, k * bn : (k + 1) * bn, by, :], K_shared)
                if causal or not isinstance(length, int) or length % bn:
                    for i, j in T.Parallel(bm, bn):
                        hidden = (k * bn + j > bx * bm + i) if causal else (k * bn + j >= length)
                        scores[i, j] = T.if_then_else(hidden, -T.infinity("float32"), 0)
                else:
                    T.clear(scores)
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(top, before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(bm):
                    shrink[i] = T.exp2(before[i] * scale - top[i] * scale)
                for i, j in T.Parallel(bm, bn):
                    scores[i, j] = T.exp2(scores[i, j] * scale - top[i] * scale)
                T.reduce_sum(scores, row_sum, dim=1)
                for i in T.Parallel(bm):
                    total[i] = total[i] * shrink[i] + row_sum[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(bm, dim):
                    out[i, j] *= shrink[i]
                T.copy(V[bz, k * bn : (k + 1) * bn, by, :], V_shared)
                T.gemm(weights, V_shared, out, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(bm, dim):
                out[i, j] /= total[i]
            T.copy(out, O_shared)
            T.copy(O_shared, Out[bz, bx * bm : (bx + 1) * bm, by, :])

    return main
