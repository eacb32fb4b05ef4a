"""Accumulators go to shared tiles by stmatrix on sm_90a, and element by element where shape or layout do not allow it."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.programs import matmul
from testing.python.target.cuda.support import cuda, simulate, source
from tilelang.execution.simulated import last_reports


def epilogue(m, n, dtype, accumulate="float32", threads=128, rows=None, at=(0, 0), k=32):
    """C = A @ B by way of a shared tile of ``rows`` rows, in which the product lies at ``at``."""
    rows = rows or m

    @T.prim_func
    def main(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), dtype)):
        with T.Kernel(1, threads=threads):
            a, b = T.alloc_shared((m, k), dtype), T.alloc_shared((k, n), dtype)
            tile = T.alloc_shared((rows, n + at[1]), dtype)
            c = T.alloc_fragment((m, n), accumulate)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, tile[at[0] : at[0] + m, at[1] : at[1] + n])
            for i, j in T.Parallel(m, n):
                C[i, j] = tile[at[0] + i, at[1] + j]

    return main


def check(program, m, n, k, dtype, arch="sm_90a"):
    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    a, b = torch.randn(m, k).to(kind), torch.randn(k, n).to(kind)
    c = torch.empty(m, n, dtype=kind)
    simulate(program, a, b, c, arch=arch)
    torch.testing.assert_close(c.float(), a.float() @ b.float(), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("m, n, threads", [(64, 16, 128), (64, 64, 128), (128, 128, 256), (128, 96, 128), (32, 64, 128)])
def test_matrices(m, n, threads, dtype):
    program = epilogue(m, n, dtype, threads=threads)
    assert "stmatrix_x4" in source(program, "sm_90a")
    check(program, m, n, 32, dtype)


def test_accumulators_of_16_bits_are_stored_as_they_are():
    program = epilogue(64, 32, "float16", "float16")
    text = source(program, "sm_90a")
    assert "stmatrix_x4" in text and "cvt_f16x2" not in text
    check(program, 64, 32, 32, "float16")


@pytest.mark.parametrize("at", [(0, 8), (3, 0), (5, 16)])
def test_part_of_a_tile(at):
    program = epilogue(64, 32, "float16", rows=72, at=at)
    assert "stmatrix_x4" in source(program, "sm_90a")
    check(program, 64, 32, 32, "float16")


@pytest.mark.parametrize("n, at", [(8, (0, 0)), (24, (0, 0)), (32, (0, 4))], ids=["one tile", "odd tiles", "chunks not aligned"])
def test_fragments_without_pairs_of_aligned_tiles_are_stored_element_by_element(n, at):
    program = epilogue(64, n, "float16", at=at)
    assert "stmatrix" not in source(program, "sm_90a")
    check(program, 64, n, 32, "float16")


def test_other_architectures_have_none():
    assert "stmatrix" not in source(epilogue(64, 32, "float16"), "sm_89")


def test_as_many_instructions_as_matrices_and_no_bank_conflict():
    program = matmul(128, 128, 64, (128, 128, 64), out="float16", through_shared=True)
    a, b, c = torch.randn(128, 64).half(), torch.randn(64, 128).half(), torch.empty(128, 128, dtype=torch.float16)
    with tilelang.simulator(strict=True, counters=True):
        tilelang.compile(program, target=cuda("sm_90a"))(a, b, c)
    counters = last_reports()[0].counters
    torch.testing.assert_close(c.float(), a.float() @ b.float(), rtol=2e-2, atol=2e-2)
    stored = [each for each in counters.instructions if "stmatrix" in str(each)]
    assert sum(each["warps"] for each in stored) == 128 * 128 // (4 * 64)
    assert counters.total["bank_conflicts"] == 0
