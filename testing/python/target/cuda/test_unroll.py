"""Short loops that choose parts of fragments name registers: nothing goes through shared or local memory."""

from __future__ import annotations

import re

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate, source

ARCHS = pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])


@ARCHS
def test_rows_of_an_accumulator(arch):
    @T.prim_func
    def main(A: T.Tensor((64, 32), "float16"), B: T.Tensor((32, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            half = T.alloc_shared((32, 64), "float32")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            for part in range(2):
                first = part * 32
                for i, j in T.Parallel(32, 64):
                    half[i, j] = c[i + part * 32, j]
                for i, j in T.Parallel(32, 64):
                    C[first + i, j] = half[31 - i, j]

    a, b, c = torch.randn(64, 32).half(), torch.randn(32, 64).half(), torch.empty(64, 64)
    simulate(main, a, b, c, arch=arch)
    torch.testing.assert_close(c, (a.float() @ b.float()).view(2, 32, 64).flip(1).reshape(64, 64), rtol=1e-2, atol=1e-2)
    assert "staged" not in source(main, arch)


@ARCHS
@pytest.mark.parametrize("rounds", [3, 40], ids=["written out", "a loop"])
def test_columns_filled_in_turn(rounds, arch):
    @T.prim_func
    def main(A: T.Tensor((32, 40), "float32"), B: T.Tensor((32, rounds), "float32")):
        with T.Kernel(1, threads=128):
            a, largest = T.alloc_fragment((32, 40), "float32"), T.alloc_fragment((32,), "float32")
            found = T.alloc_fragment((32, rounds), "float32")
            T.copy(A, a)
            for k in T.serial(rounds):
                T.reduce_max(a, largest, dim=1)
                for i in T.Parallel(32):
                    found[i, k] = largest[i]
                for i, j in T.Parallel(32, 40):
                    a[i, j] = T.if_then_else(a[i, j] == largest[i], -1.0, a[i, j])
            T.copy(found, B)

    a = torch.rand(32 * 40).argsort().view(32, 40).float()
    b = torch.empty(32, rounds)
    simulate(main, a, b, arch=arch)
    assert torch.equal(b, a.sort(dim=1, descending=True).values[:, :rounds])


@ARCHS
def test_a_loop_around_one_with_a_schedule_stays(arch):
    @T.prim_func
    def main(A: T.Tensor((4, 16, 64), "float32"), B: T.Tensor((2, 64), "float32"), C: T.Tensor((16, 64), "float32")):
        with T.Kernel(1, threads=64):
            rows, total = T.alloc_fragment((2, 64), "float32"), T.alloc_fragment((16, 64), "float32")
            tile = T.alloc_shared((16, 64), "float32")
            T.copy(B, rows)
            T.clear(total)
            for r in T.serial(2):
                for k in T.Pipelined(4, order=[1, 0], stage=[0, 1]):
                    T.copy(A[k, 0, 0], tile)
                    for i, j in T.Parallel(16, 64):
                        total[i, j] += tile[15 - i, j] * rows[r, j]
            T.copy(total, C)

    a, b, c = torch.randint(-4, 4, (4, 16, 64)).float(), torch.randint(-4, 4, (2, 64)).float(), torch.empty(16, 64)
    simulate(main, a, b, c, arch=arch)
    assert torch.equal(c, a.sum(0).flip(0) * b.sum(0))


@pytest.mark.parametrize(("function", "limit"), [(T.sin, " 4"), (T.exp, "")], ids=["sin", "exp"])
def test_long_functions_are_written_out_a_few_times(function, limit):
    """256 sines a thread took the device compiler 6 s of processor time."""

    @T.prim_func
    def main(A: T.Tensor((64, 128), "float32"), B: T.Tensor((64, 128), "float32")):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(64, 128):
                B[i, j] = function(A[i, j])

    assert f"#pragma unroll{limit}\n  for (int i_0 = 0; i_0 < 64; ++i_0)" in source(main, "sm_90a")


@pytest.mark.parametrize("terms, unroll", [(1, "#pragma unroll\n"), (12, "#pragma unroll 2\n")])
def test_long_bodies_are_written_out_a_few_times(terms, unroll):
    @T.prim_func
    def main(A: T.Tensor((20, 20), "int32"), B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            tid = T.get_thread_binding()
            total = T.alloc_local((2,), "int32")
            T.clear(total)
            for i, j in T.Parallel(20, 20):
                total[1] += sum(A[i, (j + k) % 20] * A[j, k] for k in range(terms))
            B[tid] = total[1]

    loops = re.findall(r"(#pragma unroll.*\n).*i_0 < 20", source(main, "sm_80"))
    assert loops == [unroll]


@pytest.mark.parametrize(("terms", "unrolled"), [(1, ["", ""]), (12, ["2", ""])])
def test_long_iterations_that_index_registers_are_not_written_out(terms, unrolled):
    """NVRTC took 40 s for 400 iterations of 100 terms each; with so many, what they index is local memory."""

    @T.prim_func
    def main(A: T.Tensor((20, 20), "int32"), B: T.Tensor((2, 20), "int32")):
        with T.Kernel(1, threads=32):
            rows, columns = T.alloc_fragment((20,), "int32"), T.alloc_fragment((20,), "int32")
            T.clear(rows)
            T.clear(columns)
            for i, j in T.Parallel(20, 20):
                term = sum(A[i, (j + k) % 20] * A[j, k] for k in range(terms))
                rows[i] += term
                columns[j] -= term
            T.copy(rows, B[0, :])
            T.copy(columns, B[1, :])

    assert re.findall(r"#pragma unroll ?(\d*)\n.*[ij]_0 < 20", source(main, "sm_80")) == unrolled
    a, b, expected = torch.randint(-9, 9, (20, 20)).int(), torch.zeros(2, 20).int(), torch.zeros(2, 20).int()
    simulate(main, a, b)
    for i in range(20):
        for j in range(20):
            term = sum(a[i, (j + k) % 20] * a[j, k] for k in range(terms))
            expected[0, i] += term
            expected[1, j] -= term
    assert torch.equal(b, expected)


def test_only_loops_that_index_registers_are_unrolled():
    """Four threads hold the element, and fill the tile: 4096 iterations of each written out take NVRTC minutes."""

    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((512, 32), "float32")):
        with T.Kernel(1, threads=32):
            held = T.alloc_fragment((8,), "float32")
            tile = T.alloc_shared((512, 32), "float32")
            T.copy(A, held)
            for i, j in T.Parallel(512, 32):
                tile[i, j] = held[3]
            T.copy(tile, B)

    loops = re.findall(r"#pragma unroll ?(\d*)\n *for \([^<]*< (\d+);", source(main))
    assert [("64", "512"), ("", "8")] == loops[:2]
    a, b = torch.randn(8), torch.zeros(512, 32)
    simulate(main, a, b)
    assert torch.equal(b, a[3].expand(512, 32))


@ARCHS
@pytest.mark.parametrize("ends", ["break", "continue"])
def test_a_loop_over_parts_that_ends_early(ends, arch):
    @T.prim_func
    def main(A: T.Tensor((4, 32), "float32"), B: T.Tensor((4, 32), "float32"), n: T.int32):
        with T.Kernel(1, threads=64):
            a = T.alloc_fragment((4, 32), "float32")
            T.copy(A, a)
            for k in T.serial(4):
                if k == n:
                    if ends == "break":
                        break
                    else:
                        continue
                for j in T.Parallel(32):
                    a[k, j] += 1
            T.copy(a, B)

    a, b = torch.randn(4, 32), torch.empty(4, 32)
    simulate(main, a, b, 2, arch=arch)
    assert torch.equal(b, a + torch.tensor([1, 1, 0, 0 if ends == "break" else 1]).view(4, 1))
