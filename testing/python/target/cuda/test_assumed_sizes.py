"""What ``T.assume`` says of sizes and strides of a call is known to the kernels: rows of a known multiple move in vectors."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import simulate, source

ARCHS = pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])


def _doubled(is_inside: bool):
    m, n, step = T.dynamic("m, n, step")

    @T.prim_func
    def main(A: T.StridedTensor((m, n), (step, 1), "float16"), B: T.Tensor((m, n), "float16")):
        if not is_inside:
            T.assume(n % 8 == 0 and step % 8 == 0)
        with T.Kernel(T.ceildiv(n, 64), T.ceildiv(m, 32), threads=128) as (bx, by):
            if is_inside:
                T.assume(n % 8 == 0)
                T.assume(step % 8 == 0)
            tile = T.alloc_shared((32, 64), "float16")
            T.copy(A[by * 32, bx * 64], tile)
            for i, j in T.Parallel(32, 64):
                tile[i, j] = tile[i, j] * 2
            T.copy(tile, B[by * 32, bx * 64])

    return main


@ARCHS
@pytest.mark.parametrize("is_inside", [False, True])
def test_rows_of_a_multiple_move_in_vectors(arch, is_inside):
    main = _doubled(is_inside)
    a, b = torch.randn(50, 80).half()[:, :72], torch.zeros(50, 72).half()
    simulate(main, a, b, arch=arch)
    assert torch.equal(b, a * 2)
    text = source(main, arch)
    assert "cp_async_16" in text and ("uint4*>(B" if arch == "sm_80" else "tma_store") in text, text


@ARCHS
def test_a_call_that_breaks_the_assumption_is_refused(arch):
    a, b = torch.randn(50, 80).half()[:, :70], torch.zeros(50, 70).half()
    with pytest.raises(tilelang.errors.ExecutionError, match="n % 8 == 0"):
        simulate(_doubled(False), a, b, arch=arch)


@ARCHS
def test_a_condition_that_not_every_call_meets_is_no_fact(arch):
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((8, n), "float16"), B: T.Tensor((8, n), "float16")):
        with T.Kernel(1, threads=128):
            if n % 8 == 0:
                T.assume(n % 8 == 0)
            for i, j in T.Parallel(8, n):
                B[i, j] = A[i, j]

    a, b = torch.randn(8, 37).half(), torch.zeros(8, 37).half()
    simulate(main, a, b, arch=arch)
    assert torch.equal(a, b)


@ARCHS
def test_a_product_of_dynamic_sizes(arch):
    m, n, k = T.dynamic("m, n, k")

    @T.prim_func
    def main(A: T.Tensor((m, k), "float16"), B: T.Tensor((k, n), "float16"), C: T.Tensor((m, n), "float32")):
        T.assume(n % 8 == 0)
        T.assume(k % 16 == 0)
        with T.Kernel(T.ceildiv(n, 64), T.ceildiv(m, 64), threads=128) as (bx, by):
            a, b = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, 32), num_stages=2):
                T.copy(A[by * 64, step * 32], a)
                T.copy(B[step * 32, bx * 64], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 64, bx * 64])

    a, b, c = torch.randn(70, 48).half(), torch.randn(48, 72).half(), torch.zeros(70, 72)
    simulate(main, a, b, c, arch=arch)
    assert torch.allclose(c, a.float() @ b.float(), rtol=1e-3, atol=1e-3)
    assert ("cp_async_16" if arch == "sm_80" else "tma_load") in source(main, arch)
