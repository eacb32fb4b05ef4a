"""A T.Parallel over the threads of a block, in which lanes exchange values: iteration i is thread i."""

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import cuda
from tilelang import interpreter
from tilelang.errors import CompileError

SUMS = torch.arange(256, dtype=torch.int32).view(8, 32).sum(1, dtype=torch.int32)


def sums_of_warps(threads):
    """The sum of each 32 elements: lanes add what others have, and the first one stores."""

    @T.prim_func
    def main(A: T.Tensor((256,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=threads):
            for i in T.Parallel(256):
                value = T.alloc_var("int32", init=0)
                value = A[i]
                for step in range(5):
                    value = value + T.shfl_down(value, 16 >> step)
                if i % 32 == 0:
                    B[i // 32] = value

    return main


@pytest.mark.parametrize("target", ["interpret", cuda("sm_80"), cuda("sm_90a")])
@pytest.mark.parametrize("threads", [256, (64, 4)])
def test_shuffles_are_between_neighbouring_iterations(target, threads):
    result = torch.zeros(8, dtype=torch.int32)
    with tilelang.simulator():
        tilelang.compile(sums_of_warps(threads), target=target)(torch.arange(256, dtype=torch.int32), result)
    assert torch.equal(result, SUMS)


@pytest.mark.parametrize("target", ["interpret", cuda("sm_80")])
def test_votes_of_a_loop_over_two_axes(target):
    @T.prim_func
    def main(A: T.Tensor((4, 32), "int32"), B: T.Tensor((4,), "uint32")):
        with T.Kernel(1, threads=128):
            for row, lane in T.Parallel(4, 32):
                votes = T.ballot(A[row, lane] > row)
                if lane == 0:
                    B[row] = T.cast(votes, "uint32")

    values = torch.randint(0, 6, (4, 32), dtype=torch.int32)
    result = torch.zeros(4, dtype=torch.uint32)
    with tilelang.simulator():
        tilelang.compile(main, target=target)(values, result)
    bits = (values > torch.arange(4)[:, None]).long() << torch.arange(32)
    assert torch.equal(result.long(), bits.sum(1))


@pytest.mark.parametrize("target", ["interpret", cuda("sm_80")])
def test_iterations_of_a_range_are_counted_from_its_beginning(target):
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32"), C: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.parallel(1, 33):
                B[i] = T.shfl_xor(A[i], 1)
            for i in T.Parallel(0, 64, 2):
                C[i] = T.shfl_xor(A[i], 1)

    values, first, second = torch.arange(64, dtype=torch.int32), *torch.zeros(2, 64, dtype=torch.int32)
    with tilelang.simulator():
        tilelang.compile(main, target=target)(values, first, second)
    assert torch.equal(first[1:33], values[1:33].view(16, 2).flip(1).flatten()) and not first[33:].any() and not first[0]
    assert torch.equal(second[::2], values[::2].view(16, 2).flip(1).flatten()) and not second[1::2].any()


def test_iterations_under_a_layout_of_the_program_are_not_the_threads():
    @T.prim_func
    def main(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32, loop_layout=T.Fragment((32,), forward_fn=lambda i: (i % 2 * 16 + i // 2, 0))):
                B[i] = T.shfl_xor(A[i], 16)

    values, result = torch.arange(32, dtype=torch.int32), torch.zeros(32, dtype=torch.int32)
    with tilelang.simulator():
        tilelang.compile(main, target=cuda("sm_80"))(values, result)
    # Half a warp apart are iterations 2 k and 2 k + 1.
    assert torch.equal(result, values.view(16, 2).flip(1).flatten())


def test_a_loop_with_other_iterations_than_threads_has_no_lanes():
    findings = interpreter.run(sums_of_warps(128), torch.arange(256, dtype=torch.int32), torch.zeros(8, dtype=torch.int32))
    assert "an iteration of T.Parallel asks which thread it is" in str(findings[0])


def test_a_loop_over_an_array_of_threads_stays_each_threads():
    @T.prim_func
    def main(A: T.Tensor((32, 32), "int32"), B: T.Tensor((32, 32), "int32")):
        with T.Kernel(1, threads=32):
            thread = T.get_thread_binding()
            own = T.alloc_local((32,), "int32")
            for i in T.Parallel(32):
                own[i] = A[thread, i]
            for i in T.Parallel(32):
                own[i] = T.shfl_xor(own[i], 1)
            for i in T.Parallel(32):
                B[thread, i] = own[i]

    values = torch.randint(0, 100, (32, 32), dtype=torch.int32)
    result = torch.zeros_like(values)
    with tilelang.simulator():
        tilelang.compile(main, target=cuda("sm_80"))(values, result)
    assert torch.equal(result, values[torch.arange(32) ^ 1])


@pytest.mark.parametrize("target", ["interpret", cuda("sm_80")])
def test_barriers_below_statements_of_a_loop_over_the_threads(target):
    @T.prim_func
    def main(A: T.Tensor((4, 64), "int32"), B: T.Tensor((4, 64), "int32"), rounds: T.int32):
        with T.Kernel(4, threads=64) as block:
            tile = T.alloc_shared((64,), "int32")
            for i in T.Parallel(64):
                value = T.alloc_var("int32", init=0)
                value = A[block, i]
                if rounds > 0:
                    for step in range(rounds):
                        tile[i] = value
                        T.sync_threads()
                        value = value + tile[(i + step + 1) % 64]
                        T.sync_threads()
                B[block, i] = value

    values = torch.randint(0, 100, (4, 64), dtype=torch.int32)
    result = torch.zeros_like(values)
    with tilelang.simulator(strict=True):
        tilelang.compile(main, target=target)(values, result, 3)
    expected = values
    for step in range(3):
        expected = expected + expected.roll(-step - 1, 1)
    assert torch.equal(result, expected)


def test_a_barrier_in_a_loop_that_each_thread_runs_is_an_error():
    with pytest.raises(
        CompileError, match=r"a barrier in a T\.Parallel that every thread runs for itself(.|\n)*test_warp_loops\.py"
    ):

        @T.prim_func
        def main(A: T.Tensor((32,), "int32")):
            with T.Kernel(1, threads=32):
                thread = T.get_thread_binding()
                for i in T.Parallel(32):
                    if A[i] > 0:
                        A[thread] = i
                        T.sync_threads()
