"""Programs that several tests of the CUDA target compile."""

from __future__ import annotations

from typing import Any

import tilelang.language as T


def matmul(
    m: Any,
    n: Any,
    k: Any,
    tile: tuple[int, int, int],
    *,
    dtype: str = "float16",
    accumulate: str = "float32",
    out: str = "",
    transpose_a: bool = False,
    transpose_b: bool = False,
    stages: int = 2,
    threads: int = 128,
    policy: int = 0,
    relu: bool = False,
    through_shared: bool = False,
) -> Any:
    """C = op(A) @ op(B), tiled."""
    bm, bn, bk = tile
    out = out or accumulate
    a_shape, b_shape = ((k, m) if transpose_a else (m, k)), ((n, k) if transpose_b else (k, n))
    a_tile, b_tile = ((bk, bm) if transpose_a else (bm, bk)), ((bn, bk) if transpose_b else (bk, bn))

    @T.prim_func
    def main(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((m, n), out)):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (bx, by):
            A_shared = T.alloc_shared(a_tile, dtype)
            B_shared = T.alloc_shared(b_tile, dtype)
            C_local = T.alloc_fragment((bm, bn), accumulate)
            T.clear(C_local)
            for ko in T.Pipelined(T.ceildiv(k, bk), num_stages=stages):
                if transpose_a:
                    T.copy(A[ko * bk, by * bm], A_shared)
                else:
                    T.copy(A[by * bm, ko * bk], A_shared)
                if transpose_b:
                    T.copy(B[bx * bn, ko * bk], B_shared)
                else:
                    T.copy(B[ko * bk, bx * bn], B_shared)
                T.gemm(
                    A_shared, B_shared, C_local, transpose_A=transpose_a, transpose_B=transpose_b, policy=T.GemmWarpPolicy(policy)
                )
            if relu:
                for i, j in T.Parallel(bm, bn):
                    C_local[i, j] = T.max(C_local[i, j], 0)
            if through_shared:
                C_shared = T.alloc_shared((bm, bn), out)
                T.copy(C_local, C_shared)
                T.copy(C_shared, C[by * bm, bx * bn])
            else:
                T.copy(C_local, C[by * bm, bx * bn])

    return main
