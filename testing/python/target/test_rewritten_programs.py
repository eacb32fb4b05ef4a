"""Small programs that rewriting real kernels, with the same meaning, has found to be wrong or refused."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import cuda
from testing.python.target.every_target import every_target, run


@every_target
@pytest.mark.parametrize("loop", [T.unroll, T.serial])
def test_loops_of_run_time_lengths(loop, target):
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((2,), "float32")):
        with T.Kernel(1, threads=32):
            total = T.alloc_fragment((2,), "float32")
            T.clear(total)
            for i in loop(n):
                total[0] += A[i]
            for i in loop(1, n, 2):
                total[1] += A[i]
            T.copy(total, B)

    assert run(main, target, torch.arange(7.0)).tolist() == [21, 9]


@pytest.mark.parametrize("columns", [0, 2])
@every_target
def test_reads_outside_of_a_tensor_that_may_have_no_elements(target, columns):
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((1, n), "float32"), B: T.Tensor((5, 8), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8,), "float32")
            first = A[0, 0]
            for i in T.Parallel(8):
                B[0, i] = A[0, i] + 1
                B[1, i] = first
            T.copy(A[0, 0:8], tile)
            T.copy(tile, A[0, 0:8])
            T.copy(tile, B[2, :])
            T.fill(B[3, :], A[0, 1] + A[0, 3])
            T.fill(B[4, :], 1)
            T.atomic_add(B[4, :], A[0, 0:8])
            T.atomic_add(A[0, 0], 1)

    a = torch.full((1, columns), 2.0)
    inside = (torch.arange(8) < columns) * 2.0
    want = torch.stack([inside + 1, inside[:1].expand(8), inside, inside[1:2].expand(8), inside + 1])
    assert torch.equal(run(main, target, a.clone()), want)
    with tilelang.interpret():
        assert torch.equal(tilelang.compile(main, out_idx=-1)(a.clone()), want)


@every_target
def test_a_region_begins_where_a_read_outside_of_a_tensor_says(target):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), starts: T.Tensor((2,), "int32"), B: T.Tensor((3, 4), "float32")):
        with T.Kernel(3, threads=32) as b:
            tile = T.alloc_shared((4,), "float32")
            T.copy(A[starts[b] : starts[b] + 4], tile)
            T.copy(tile, B[b, :])

    starts = torch.tensor([4, 2, 99], dtype=torch.int32)[:2]
    assert run(main, target, torch.arange(8.0), starts).tolist() == [[4, 5, 6, 7], [2, 3, 4, 5], [0, 1, 2, 3]]


@every_target
@pytest.mark.parametrize("shape", [(1, 64), (8, 8), (64, 1)], ids=str)
def test_reductions_into_a_view_of_a_fragment(shape, target):
    """Threads that 100 columns are dealt to leave rows in a layout that the fragment of the other shape does not have."""

    @T.prim_func
    def main(X: T.Tensor((64, 100), "float32"), Y: T.Tensor((65,), "float32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((64, 100), "float32")
            rows = T.alloc_fragment(shape, "float32")
            row = T.reshape(rows, (64,))
            top = T.alloc_fragment((1,), "float32")
            T.copy(X, x)
            T.fill(rows, 1)
            T.reduce_max(x, row, dim=1, clear=False)
            T.reduce_max(row, top)
            for i, j in T.Parallel(*shape):
                rows[i, j] += 1
            T.copy(row, Y[0:64])
            T.copy(top, Y[64:65])

    x = torch.randn(64, 100)
    most = x.amax(1).clamp(min=1)
    assert torch.equal(run(main, target, x), torch.cat([most + 1, most.amax(0, keepdim=True)]))


@pytest.mark.parametrize("target", [cuda("sm_80"), cuda("sm_90a")], ids=["sm_80", "sm_90a"])
def test_threads_choose_elements_of_a_fragment(target):
    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_fragment((128,), "float32")
            tx = T.get_thread_binding(0)
            for i in T.serial(2):
                tile[tx * 2 + i] = A[tx * 2 + i]
            for _ in T.serial(3):
                low = tile[tx]
                high = tile[tx + 64]
                T.sync_threads()
                tile[tx] = high
                tile[tx + 64] = low
            for i in T.Parallel(128):
                tile[i] += 1
            for i in T.serial(2):
                B[tx * 2 + i] = tile[127 - tx * 2 - i]

    a = torch.arange(128.0)
    assert torch.equal(run(main, target, a), a.roll(64).flip(0) + 1)


@every_target
def test_an_atomic_on_one_element_of_a_fragment(target):
    @T.prim_func
    def main(X: T.Tensor((100,), "int32"), counts: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=128):
            local = T.alloc_fragment((64,), "int32")
            T.clear(local)
            for i in T.serial(100):
                T.atomic_add(local[X[i]], 1)
            T.copy(local, counts)

    x = torch.arange(100, dtype=torch.int32) ** 2 % 64
    assert torch.equal(run(main, target, x), torch.bincount(x, minlength=64).int())
