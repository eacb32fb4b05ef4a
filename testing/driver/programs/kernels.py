"""Kernels that the programs call."""

from __future__ import annotations

from typing import Any

import tilelang
import tilelang.language as T

PORTABLE = {"kind": "cuda", "arch": "sm_80"}
HOPPER = {"kind": "cuda", "arch": "sm_90a"}


def scale(backend: str, target: Any = PORTABLE) -> Any:
    """``(A, factor) -> A * factor`` over any number of rows of 128 float32."""

    @tilelang.jit(target=target, execution_backend=backend, out_idx=[2])
    def make() -> Any:
        rows = T.dynamic("rows")

        @T.prim_func
        def scaled(A: T.Tensor((rows, 128), "float32"), factor: T.float32, B: T.Tensor((rows, 128), "float32")):
            with T.Kernel(rows, threads=128) as row:
                for column in T.Parallel(128):
                    B[row, column] = A[row, column] * factor

        return scaled

    return make()


def gemm(backend: str) -> Any:
    """``(A, B) -> A @ B``, 256 by 256 by 256 in float16, by bulk tensor copies, in clusters of two blocks."""

    @tilelang.jit(target=HOPPER, execution_backend=backend, out_idx=[2])
    def make() -> Any:
        @T.prim_func
        def product(
            A: T.Tensor((256, 256), "float16"), B: T.Tensor((256, 256), "float16"), C: T.Tensor((256, 256), "float16")
        ):  # fmt: skip
            with T.Kernel(2, 2, threads=128, cluster_dims=(2, 1, 1)) as (bx, by):
                a, b = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 128), "float16")
                c = T.alloc_fragment((128, 128), "float32")
                T.clear(c)
                for k in T.Pipelined(4, num_stages=3):
                    T.copy(A[by * 128, k * 64], a)
                    T.copy(B[k * 64, bx * 128], b)
                    T.gemm(a, b, c)
                T.copy(c, C[by * 128, bx * 128])

        return product

    return make()


def two_passes(backend: str) -> Any:
    """``(A, B)``: ``B[i] = sum of A + i`` over 1024 float32, by a grid that meets in the middle."""

    @tilelang.jit(target=PORTABLE, execution_backend=backend)
    def make() -> Any:
        @T.prim_func
        def summed(A: T.Tensor((1024,), "float32"), partial: T.Tensor((8,), "float32"), B: T.Tensor((1024,), "float32")):
            with T.Kernel(8, threads=128) as block:
                values = T.alloc_fragment((128,), "float32")
                total = T.alloc_fragment((1,), "float32")
                T.copy(A[block * 128], values)
                T.reduce_sum(values, total)
                partial[block] = total[0]
                T.sync_grid()
                for i in T.Parallel(128):
                    B[block * 128 + i] = T.cast(block * 128 + i, "float32")
                    for other in T.serial(8):
                        B[block * 128 + i] += partial[other]

        return summed

    return make()
