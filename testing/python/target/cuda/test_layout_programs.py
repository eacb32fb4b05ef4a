"""Smallest programs whose fragments are used in ways that one distribution over the threads does not suit."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate

ARCHES = ("sm_80", "sm_90a")


def _numbers(*shape, seed=0):
    """Small whole numbers, of which sums are exact."""
    return torch.randint(-3, 4, shape, generator=torch.Generator().manual_seed(seed)).float()


@pytest.mark.parametrize("arch", ARCHES)
def test_one_row_of_a_fragment(arch):
    @T.prim_func
    def main(X: T.Tensor((4, 256), "float32"), Y: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=128):
            x, y = T.alloc_fragment((4, 256), "float32"), T.alloc_fragment((256,), "float32")
            T.copy(X, x)
            for j in T.Parallel(256):
                y[j] = x[3, j] * 2
            T.copy(y, Y)

    x, y = _numbers(4, 256), torch.zeros(256)
    simulate(main, x, y, arch=arch)
    assert torch.equal(y, x[3] * 2)


@pytest.mark.parametrize("arch", ARCHES)
def test_rows_that_a_serial_loop_names(arch):
    @T.prim_func
    def main(X: T.Tensor((4, 256), "float32"), M: T.Tensor((4,), "float32"), Y: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=128):
            m, x = T.alloc_fragment((4,), "float32"), T.alloc_fragment((4, 256), "float32")
            y = T.alloc_fragment((256,), "float32")
            T.copy(M, m)
            T.copy(X, x)
            T.clear(y)
            for i in T.serial(4):
                for j in T.Parallel(256):
                    y[j] += m[i] * x[i, j]
            T.copy(y, Y)

    x, m, y = _numbers(4, 256), _numbers(4, seed=1), torch.zeros(256)
    simulate(main, x, m, y, arch=arch)
    assert torch.equal(y, m @ x)


@pytest.mark.parametrize("arch", ARCHES)
def test_rows_that_two_serial_loops_name(arch):
    @T.prim_func
    def main(A: T.Tensor((4, 4), "float32"), X: T.Tensor((4, 256), "float32"), Y: T.Tensor((4, 256), "float32")):
        with T.Kernel(1, threads=128):
            a, x = T.alloc_fragment((4, 4), "float32"), T.alloc_fragment((4, 256), "float32")
            y = T.alloc_fragment((4, 256), "float32")
            T.copy(A, a)
            T.copy(X, x)
            T.clear(y)
            for i in T.serial(4):
                for o in T.serial(4):
                    for j in T.Parallel(256):
                        y[i, j] += a[i, o] * x[o, j]
            T.copy(y, Y)

    a, x, y = _numbers(4, 4), _numbers(4, 256, seed=1), torch.zeros(4, 256)
    simulate(main, a, x, y, arch=arch)
    assert torch.equal(y, a @ x)


@pytest.mark.parametrize("arch", ARCHES)
def test_a_condition_chooses_the_iteration_that_writes(arch):
    """Each element of ``y`` is written by one iteration of four, in one of the groups of threads that hold a copy of it."""

    @T.prim_func
    def main(X: T.Tensor((4, 256), "float32"), Y: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=128):
            x, y = T.alloc_fragment((4, 256), "float32"), T.alloc_fragment((256,), "float32")
            T.copy(X, x)
            for i, j in T.Parallel(4, 256):
                if i == j % 4:
                    y[j] = x[i, j]
            T.copy(y, Y)

    x, y = _numbers(4, 256), torch.zeros(256)
    simulate(main, x, y, arch=arch)
    assert torch.equal(y, x[torch.arange(256) % 4, torch.arange(256)])
