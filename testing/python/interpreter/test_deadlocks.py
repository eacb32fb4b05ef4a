"""Threads that wait for ever."""

from unittest.mock import patch

import pytest
import torch

import tilelang.language as T
from tilelang.interpreter import schedule

from .support import kinds


def test_a_barrier_that_some_threads_do_not_reach():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            if tx < 32:
                T.sync_threads()
            A[tx] = 1.0

    assert kinds(main, torch.zeros(64)) == ["deadlock"]


@pytest.mark.parametrize("turns", [0, 300])
def test_a_loop_that_polls_is_a_deadlock_at_once_unless_it_counts(turns):
    """A loop that changes nothing itself ends by others alone; so where no other goes on, nobody waits for thousands of turns."""

    @T.prim_func
    def main(flag: T.Tensor((1,), "int32"), B: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=64):
            tx, n, b = T.get_thread_binding(), T.alloc_var("int32", init=0), T.alloc_barrier(64)
            if tx < 32:
                T.mbarrier_wait_parity(b, 0)
            else:
                while T.atomic_load(flag[0]) == 0:
                    if turns:
                        n += 1
                        if n == turns:
                            break
                T.mbarrier_arrive(b)
                T.mbarrier_arrive(b)
            if tx == 32:
                B[0] = n

    tensors = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    with patch.object(schedule, "_is_finished", wraps=schedule._is_finished) as resumed:
        assert kinds(main, *tensors) == ([] if turns else ["deadlock"])
    assert turns or resumed.call_count < 10


@pytest.mark.parametrize(("kind", "expected"), [("lanes", ["divergence"]), ("warp", []), ("left", []), ("iterations", [])])
def test_a_barrier_of_a_warp_is_for_all_of_its_threads(kind, expected):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            if kind == "lanes":
                if tx % 2 == 0:
                    A[tx] = 1.0
                    T.sync_warp()
            elif kind == "warp":
                if tx >= 32:
                    A[tx] = 1.0
                    T.sync_warp()
            elif kind == "left":
                if tx >= 40:
                    T.thread_return()
                A[tx] = 1.0
                T.sync_warp()
            else:
                for i in T.Parallel(50):
                    A[i] = 1.0
                    T.sync_warp()

    assert kinds(main, torch.zeros(64)) == expected
