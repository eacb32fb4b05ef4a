"""Barriers between the statements of a ``T.Parallel``, and their numbers."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.definition import GPU, check_meaning
from tilelang.errors import CompileError, OptionError

from .support import error_at_mark


def test_a_barrier_of_the_grid_ends_the_iterations_before_it():
    @T.prim_func
    def mirrored_sum(A: T.Tensor((1024,), "float32")):
        with T.Kernel(16, threads=128) as bx:
            x = T.alloc_fragment((64,), "float32")
            for i in T.Parallel(64):
                here = bx * 64 + i
                there = 1023 - here
                x[i] = A[there]
                T.sync_grid()
                A[here] = A[here] + x[i]

    (a,) = check_meaning(mirrored_sum, torch.arange(1024).float())
    assert torch.equal(a, torch.full((1024,), 1023.0))


def test_a_barrier_of_the_block_orders_a_shared_tile_on_every_target():
    @T.prim_func
    def turned(A: T.Tensor((32, 32), "int32"), B: T.Tensor((32, 32), "int32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((32, 32), "int32")
            for i, j in T.Parallel(32, 32):
                T.sync_threads()
                twice = T.alloc_var("int32")
                twice = A[i, j] * 2
                tile[i, j] = twice
                T.sync_threads()
                B[i, j] = tile[j, i]
                T.sync_threads()

    a = torch.arange(1024, dtype=torch.int32).reshape(32, 32)
    assert torch.equal(check_meaning(turned, a, torch.zeros_like(a))[1], a.T * 2)


def test_values_of_the_iterations_do_not_cross_a_barrier():
    with error_at_mark(CompileError, r"x belongs to the iterations of this T.Parallel before T.sync_threads, which ends them"):

        @T.prim_func
        def value(A: T.Tensor((64,), "float32")):
            with T.Kernel(1, threads=64):
                for i in T.Parallel(64):
                    x = A[63 - i]
                    T.sync_threads()  # <- error
                    A[i] = x


@pytest.mark.parametrize("barrier", [T.sync_threads, T.sync_grid])
def test_an_iteration_does_not_wait_for_others(barrier):
    with error_at_mark(CompileError, f"T.{barrier.__name__} below another statement of a T.Parallel: an iteration cannot wait"):

        @T.prim_func
        def main(A: T.Tensor((64,), "float32")):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(64):
                    for _ in T.serial(2):
                        barrier()  # <- error
                    A[i] = 1


@pytest.mark.parametrize("target", ["interpret", "cpu", "c", GPU["sm_80"]], ids=str)
def test_a_program_whose_kernels_never_run(target):
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), m: T.int32):
        if m * 0 == 1:
            with T.Kernel(1, threads=32):
                T.fill(A, 1)

    a = torch.zeros(64, dtype=torch.int32)
    with tilelang.simulator():
        tilelang.compile(main, target=target)(a, 3)
    assert not a.any()


@pytest.mark.parametrize(
    "number, threads, said", [(16, 64, "and none of number 16"), (-1, 64, "of number -1"), (1, 40, "and 40 is no positive")]
)
@pytest.mark.parametrize("wait", [T.sync_threads, T.named_barrier_arrive])
def test_a_barrier_that_the_hardware_does_not_have(wait, number, threads, said):
    with error_at_mark(OptionError, said):

        @T.prim_func
        def main(A: T.Tensor((64,), "float32")):
            with T.Kernel(1, threads=64):
                wait(number, threads)  # <- error
