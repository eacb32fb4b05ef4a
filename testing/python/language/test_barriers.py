"""Barriers by number: ``T.create_list_of_mbarrier``."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate
from tilelang import interpreter
from tilelang.errors import CompileError


def handed_over(counts, get=lambda number: number, steps=3):
    """One group of threads loads rows of a tensor, the other adds them up; two slots, with barriers for full and empty each."""

    @T.prim_func
    def main(A: T.Tensor((steps, 128), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=256):
            slots = T.alloc_shared((2, 128), "float32")
            total = T.alloc_fragment((128,), "float32")
            T.create_list_of_mbarrier(*counts)
            with T.ws(1):
                for k in range(steps):
                    T.mbarrier_wait_parity(mbarrier=get(k % 2 + 2), parity=(k // 2) % 2 ^ 1)
                    T.copy(A[k, :], slots[k % 2, :])
                    T.mbarrier_arrive(get(k % 2))
            with T.ws(0):
                T.clear(total)
                for k in range(steps):
                    T.barrier_wait(barrier_id=get(k % 2), parity=(k // 2) % 2)
                    for i in T.Parallel(128):
                        total[i] += slots[k % 2, i]
                    T.barrier_arrive(barrier_id=get(k % 2 + 2))
                T.copy(total, B)

    return main


@pytest.mark.parametrize("program", [
    handed_over([128] * 4),
    handed_over([[128, 128, 128, 128]]),
    handed_over([128] * 4, lambda number: T.get_mbarrier(number)),
])  # fmt: skip
def test_barriers_have_numbers(program):
    a = torch.randn(3, 128)
    for arch in ("sm_80", "sm_90a"):
        b = torch.zeros(128)
        assert not simulate(program, a, b, arch=arch)
        torch.testing.assert_close(b, a.sum(0))
    b = torch.zeros(128)
    assert not interpreter.run(program, a, b)
    torch.testing.assert_close(b, a.sum(0))


def test_each_kernel_has_its_own_list():
    @T.prim_func
    def main(A: T.Tensor((2,), "int32")):
        for first in (0, 1):
            with T.Kernel(1, threads=64):
                T.create_list_of_mbarrier(64)
                T.barrier_arrive(0)
                T.barrier_wait(0, 0)
                A[first] = first + 1

    a = torch.zeros(2, dtype=torch.int32)
    assert not simulate(main, a, arch="sm_80")
    assert a.tolist() == [1, 2]


def refused(body, match):
    with pytest.raises(CompileError, match=match) as caught:

        @T.prim_func
        def main(A: T.Tensor((64,), "float32")):
            with T.Kernel(1, threads=64):
                body()

    assert "test_barriers.py" in str(caught.value)


def twice():
    T.create_list_of_mbarrier(64)
    T.create_list_of_mbarrier(64)


def test_what_has_no_number():
    refused(lambda: T.mbarrier_arrive(0), "T.mbarrier_arrive: the kernel has no list of barriers")
    refused(lambda: T.get_mbarrier(0), "T.get_mbarrier: the kernel has no list of barriers")
    refused(twice, "this kernel has a list of barriers already")
    refused(lambda: T.create_list_of_mbarrier(0), "a phase takes between 1 and")
