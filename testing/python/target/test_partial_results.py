"""Variables and arrays that a ``T.Parallel`` carries: each thread holds the result of its own iterations afterwards."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import cuda
from testing.python.target.every_target import every_target, run
from tilelang.errors import UnsupportedOnCpuError

A = (torch.arange(64 * 64) * 37 % 101).reshape(64, 64).to(torch.float32)


def outcome(program, target):
    """The result of a target, which is the interpreter's."""
    found, expected = run(program, target, A), run(program, "interpret", A)
    assert torch.equal(found, expected)
    return found


@every_target
@pytest.mark.parametrize("threads", [32, 96, 128])
def test_a_maximum_of_each_thread(threads, target):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=threads):
            tile, most = T.alloc_fragment((64, 64), "float32"), T.alloc_local((1,), "float32")
            B[0] = 0
            T.copy(A, tile)
            most[0] = 0
            for i, j in T.Parallel(64, 64):
                most[0] = T.max(most[0], tile[i, j])
            T.atomic_max(B[0], most[0])

    assert outcome(main, target).item() == 100


@every_target
def test_what_was_there_before_counts_once_for_each_thread(target):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((2,), "float32")):
        with T.Kernel(1, threads=128):
            row, total, n = T.alloc_fragment((64,), "float32"), T.alloc_var("float32", init=3), T.alloc_var("int32", init=0)
            T.clear(B)
            T.copy(A[5, :], row)
            for i in T.Parallel(64):  # fewer iterations than threads
                total += row[i]
                if row[i] > 50:
                    n += 1
            twice = total * 2
            T.atomic_add(B[0], twice)
            T.atomic_add(B[1], T.cast(n, "float32"))

    assert outcome(main, target).tolist() == [2 * (A[5].sum().item() + 3 * 128), (A[5] > 50).sum().item()]


@every_target
def test_rows_that_several_threads_hold_count_once(target):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=128):
            tile, row, total = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64,), "float32"), T.alloc_var("float32")
            B[0] = 0
            T.copy(A, tile)
            T.reduce_sum(tile, row, dim=1)
            total = 0
            for _ in T.serial(2):
                for i in T.Parallel(64):
                    total += row[i]
            T.atomic_add(B[0], total)

    assert outcome(main, target).item() == 2 * A.sum().item()


@every_target
def test_the_index_of_a_maximum(target):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((2,), "float32")):
        with T.Kernel(1, threads=64):
            most, place = T.alloc_var("float32", init=-1), T.alloc_var("int32", init=0)
            tile = T.alloc_fragment((64, 64), "float32")
            T.clear(B)
            T.copy(A, tile)
            for i, j in T.Parallel(64, 64):
                excess = tile[i, j] - i * 4096.0 - j * 101 - most
                if excess > 0:
                    most = excess + most
                    place = i * 64 + j
            T.atomic_max(B[0], most)
            if most > 50:
                T.atomic_add(B[1], T.cast(place, "float32"))

    assert outcome(main, target).tolist() == [0, 0]


@every_target
def test_a_loop_without_fragments_is_run_whole(target):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((3,), "float32")):
        with T.Kernel(1, threads=128):
            total = T.alloc_local((2,), "float32")
            T.clear(total)
            for i, j in T.Parallel(64, 64):
                total[1] += A[i, j]
            B[0] = total[0]
            B[1] = total[1]
            T.fill(total, 1)
            for i in T.Parallel(64):
                total[0] = total[0] + A[i, 3]
            B[2] = total[0]

    assert outcome(main, target).tolist() == [0, A.sum().item(), 1 + A[:, 3].sum().item()]


@every_target
def test_iterations_that_store_to_a_tensor_are_shared_out(target):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((65,), "float32")):
        with T.Kernel(1, threads=32):
            total = T.alloc_local((1,), "float32")
            B[64] = 0
            T.fill(total, 1)
            for i in T.Parallel(64):
                total[0] += A[i, 0]
                B[i] = A[i, 1]
            T.atomic_add(B[64], total[0])

    # What was there before counts once for each thread, as where the loop uses a fragment.
    assert torch.equal(outcome(main, target), torch.cat([A[:, 1], 32 + A[:, 0].sum()[None]]))


@every_target
def test_iterations_are_shared_out_by_what_the_text_says(target):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((2,), "float32")):
        with T.Kernel(1, threads=32) as bx:
            row, total = T.alloc_fragment((64,), "float32"), T.alloc_local((2,), "float32")
            T.copy(A[5, :], row)
            T.clear(B)
            T.clear(total)
            for i in T.Parallel(64):
                total[0] += T.Select(bx == 1, row[i], A[3, i])  # only block 1, which there is not, would use the fragment
            for i in T.Parallel(64):
                total[1] += A[3, i]
                if bx == 1:
                    B[1] = A[0, i]
            for k in T.unroll(2):
                T.atomic_add(B[k], total[k])

    assert outcome(main, target).tolist() == [A[3].sum().item()] * 2


@every_target
def test_a_value_that_iterations_use_is_not_carried(target):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            value = T.alloc_var("float32", init=1)
            for i in T.Parallel(64):
                value += A[i, 0]
                B[i] = value

    assert torch.equal(outcome(main, target), A[:, 0] + 1)


def test_partial_results_that_are_stored_are_a_race():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=32):
            total = T.alloc_var("float32", init=0)
            for i in T.Parallel(64):
                total += A[i, 0]
            B[0] = total

    with pytest.raises(tilelang.errors.InterpreterError, match=r"race: thread \d+ writes B\[0\]"):
        run(main, "interpret", A)
    for target in ("cpu", "c"):  # the first thread, which has all iterations, is the last to store
        assert run(main, target, A).item() == A[:, 0].sum()


def test_a_cpu_refuses_tile_operators_on_partial_results():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=32):
            tile, total = T.alloc_fragment((64, 64), "float32"), T.alloc_local((1,), "float32")
            T.clear(total)
            T.copy(A, tile)
            for i, j in T.Parallel(64, 64):
                total[0] += tile[i, j]
            T.copy(total, B)

    with pytest.raises(UnsupportedOnCpuError, match="partial results"):
        tilelang.compile(main, target="cpu")


@every_target
@pytest.mark.parametrize("shift", [0, 1])
def test_an_array_that_a_nest_of_fragments_and_one_of_each_thread_carry(shift, target):
    """With the block's number in its index, the fragment becomes a shared tile on CUDA: iterations are shared out anyway."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=32) as bx:
            rows, n = T.alloc_fragment((16, 16), "float32"), T.alloc_local((3,), "float32")
            T.clear(B)
            T.copy(A[0:16, 0:16], rows)
            T.clear(n)
            for i in T.Parallel(8):
                n[2] += rows[(bx * shift + i) % 16, 0]
            for i in T.Parallel(16):
                if i >= 1:
                    n[2] += 1
            T.atomic_add(B[0], n[2])

    assert outcome(main, target).item() == A[:8, 0].sum().item() + 15 * 32


CUDA_ONLY = pytest.mark.parametrize("target", [cuda("sm_80"), cuda("sm_90a")], ids=["sm_80", "sm_90a"])


@CUDA_ONLY
def test_a_fragment_that_single_threads_store_to_is_still_one(target):
    """It lies in shared memory then, which a loop that every thread runs whole may use."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            row, total = T.alloc_fragment((32,), "float32"), T.alloc_local((1,), "float32")
            B[0] = 0
            if tx < 32:
                row[tx] = A[0, tx]
            T.sync_threads()
            total[0] = 1
            for i in T.Parallel(1):
                total[0] += row[i + 2]
            T.atomic_add(B[0], total[0])

    assert outcome(main, target).item() == 32 + A[0, 2].item()


@CUDA_ONLY
def test_some_threads_add_an_element_that_one_of_them_has_stored(target):
    """Together, once, as with any fragment."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            row, count = T.alloc_fragment((4,), "float32"), T.alloc_shared((1,), "float32")
            T.fill(row, 2)
            T.fill(count, 0)
            if tx == 3:
                row[1] = A[0, 1]
            T.sync_threads()
            if tx < 64:
                count[0] += row[1]
            B[0] = count[0]

    assert outcome(main, target).item() == A[0, 1].item()


@CUDA_ONLY
@pytest.mark.parametrize("threads", [16, 32, 64, 96])
def test_some_threads_add_to_an_element_of_a_fragment(threads, target):
    """Together, as a ``T.Parallel`` over it would be: a sum that a warp makes for its next loop."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((24,), "float32")):
        with T.Kernel(1, threads=96):
            if T.get_thread_binding() < threads:
                total, tile = T.alloc_fragment((1,), "float32"), T.alloc_fragment((24,), "float32")
                total[0] = 0
                for k in T.serial(4):
                    total[0] += A[k, 0]
                for j in T.Parallel(24):
                    tile[j] = A[0, j] * total[0]
                T.copy(tile, B)

    assert torch.equal(outcome(main, target), A[0, :24] * A[:4, 0].sum())
