"""Tile programs whose reports tests read."""

from __future__ import annotations

from typing import Any

import tilelang
import tilelang.language as T


def exchange() -> Any:
    """``(A, B)``: 128 threads write a shared tile and read each other's elements with no barrier between."""

    @tilelang.jit(target={"kind": "cuda", "arch": "sm_80"}, pass_configs={"tl.disable_thread_storage_sync": True})
    def make() -> Any:
        @T.prim_func
        def exchanged(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32")):
            with T.Kernel(1, threads=128):
                tile = T.alloc_shared((128,), "float32")
                thread = T.get_thread_binding(0)
                tile[thread] = A[thread]
                B[thread] = tile[127 - thread]

        return exchanged

    return make()


def announced_twice() -> Any:
    """``(A, B)``: the bytes of a copy are announced by the program, too, so that the barrier waits for ever."""

    @tilelang.jit(target={"kind": "cuda", "arch": "sm_90a"})
    def make() -> Any:
        @T.prim_func
        def announced(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
            with T.Kernel(1, threads=128):
                tile = T.alloc_shared((64, 64), "float16")
                full = T.alloc_barrier(1)
                if T.get_thread_binding() == 0:
                    T.mbarrier_expect_tx(full, 64 * 64 * 2)
                T.tma_copy(A, tile, barrier=full)
                if T.get_thread_binding() == 0:
                    T.mbarrier_arrive(full)
                T.mbarrier_wait_parity(full, 0)
                T.copy(tile, B)

        return announced

    return make()


def overwrite() -> Any:
    """``(B,)``: two blocks write different values to the same 128 float32, and nothing orders them."""

    @tilelang.jit(target={"kind": "cuda", "arch": "sm_80"})
    def make() -> Any:
        @T.prim_func
        def overwritten(B: T.Tensor((128,), "float32")):
            with T.Kernel(2, threads=128) as block:
                for i in T.Parallel(128):
                    B[i] = T.cast(block + i, "float32")  # the statement that a finding has to name

        return overwritten

    return make()


def gemm(arch: str) -> Any:
    """``(A, B) -> A @ B`` over 128 by 128 float16."""

    @tilelang.jit(target={"kind": "cuda", "arch": arch}, out_idx=[2])
    def make() -> Any:
        @T.prim_func
        def product(A: T.Tensor((128, 128), "float16"), B: T.Tensor((128, 128), "float16"), C: T.Tensor((128, 128), "float16")):
            with T.Kernel(1, threads=128):
                a = T.alloc_shared((128, 32), "float16")
                b = T.alloc_shared((32, 128), "float16")
                c = T.alloc_fragment((128, 128), "float32")
                T.clear(c)
                for k in T.Pipelined(4, num_stages=2):
                    T.copy(A[0, k * 32], a)
                    T.copy(B[k * 32, 0], b)
                    T.gemm(a, b, c)
                T.copy(c, C)

        return product

    return make()
