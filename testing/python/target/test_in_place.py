"""One tensor passed for two parameters: what a later statement reads is what an earlier one wrote."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import simulate, source

TARGETS = pytest.mark.parametrize("target", ["cpu", "c", "sm_80", "sm_90a"])
SIZE = 512


def one_nest():
    @T.prim_func
    def program(A: T.Tensor((SIZE,), "float16"), B: T.Tensor((SIZE,), "float16"), C: T.Tensor((SIZE,), "float16")):
        with T.Kernel(2, threads=64) as bx:
            for i in T.Parallel(SIZE // 2):
                B[bx * (SIZE // 2) + i] = A[bx * (SIZE // 2) + i] + 1

    return program


def rounds():
    @T.prim_func
    def program(A: T.Tensor((SIZE,), "float16"), B: T.Tensor((SIZE,), "float16"), C: T.Tensor((SIZE,), "float16")):
        with T.Kernel(2, threads=64) as bx:
            for _ in T.serial(5):
                for i in T.Parallel(SIZE // 2):
                    B[bx * (SIZE // 2) + i] = A[bx * (SIZE // 2) + i] + 1

    return program


def rounds_of_an_iteration():
    @T.prim_func
    def program(A: T.Tensor((SIZE,), "float16"), B: T.Tensor((SIZE,), "float16"), C: T.Tensor((SIZE,), "float16")):
        with T.Kernel(2, threads=64) as bx:
            for i in T.Parallel(SIZE // 2):
                for _ in T.serial(5):
                    B[bx * (SIZE // 2) + i] = A[bx * (SIZE // 2) + i] + 1

    return program


def read_again():
    @T.prim_func
    def program(A: T.Tensor((SIZE,), "float16"), B: T.Tensor((SIZE,), "float16"), C: T.Tensor((SIZE,), "float16")):
        with T.Kernel(2, threads=64) as bx:
            for i in T.Parallel(SIZE // 2):
                B[bx * (SIZE // 2) + i] = A[bx * (SIZE // 2) + i] + 1
            for i in T.Parallel(SIZE // 2):
                C[bx * (SIZE // 2) + i] = A[bx * (SIZE // 2) + i] * 2

    return program


def two_passes():
    @T.prim_func
    def program(A: T.Tensor((SIZE,), "float16"), B: T.Tensor((SIZE,), "float16"), C: T.Tensor((SIZE,), "float16")):
        with T.Kernel(2, threads=64) as bx:
            row, high = T.alloc_fragment((1, SIZE // 2), "float16"), T.alloc_fragment((1,), "float16")
            T.copy(A[bx * (SIZE // 2)], row)
            T.reduce_max(row, high, dim=1)
            for i in T.Parallel(SIZE // 2):
                B[bx * (SIZE // 2) + i] = A[bx * (SIZE // 2) + i] - high[0]

    return program


def each_after_the_one_before():
    @T.prim_func
    def program(A: T.Tensor((SIZE,), "float16"), B: T.Tensor((SIZE,), "float16"), C: T.Tensor((SIZE,), "float16")):
        with T.Kernel(1, threads=64):
            for i in T.serial(SIZE - 1):
                B[i + 1] = A[i] + 1

    return program


EXPECTED = {
    one_nest: lambda a: (a + 1, 0 * a),
    rounds: lambda a: (a + 5, 0 * a),
    rounds_of_an_iteration: lambda a: (a + 5, 0 * a),
    read_again: lambda a: (a + 1, (a + 1) * 2),
    each_after_the_one_before: lambda a: (a[0] + torch.arange(SIZE), 0 * a),
    two_passes: lambda a: ((a.reshape(2, -1) - a.reshape(2, -1).max(1, keepdim=True).values).flatten(), 0 * a),
}


@TARGETS
@pytest.mark.parametrize("make", EXPECTED, ids=lambda make: make.__name__)
def test_in_place(make, target):
    a = torch.randint(0, 50, (SIZE,)).to(torch.float16)
    tensor, c = a.clone(), torch.zeros_like(a)
    if target.startswith("sm"):
        simulate(make(), tensor, tensor, c, arch=target)
    else:
        tilelang.compile(make(), target=target)(tensor, tensor, c)
    wanted, later = EXPECTED[make](a)
    assert torch.equal(tensor, wanted) and torch.equal(c, later)


@TARGETS
def test_a_store_that_is_overwritten_is_read_in_between(target):
    @T.prim_func
    def program(A: T.Tensor((32,), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                B[i] = A[i] + 1
            for i in T.Parallel(32):
                B[i] = A[i] * 3

    a = torch.arange(32, dtype=torch.float32)
    tensor = a.clone()
    with tilelang.simulator(strict=True):
        tilelang.compile(program, target={"kind": "cuda", "arch": target} if target.startswith("sm") else target)(tensor, tensor)
    assert torch.equal(tensor, (a + 1) * 3)


@pytest.mark.parametrize("make", [one_nest, two_passes], ids=lambda make: make.__name__)
def test_parameters_that_are_read_first_stay_restrict(make):
    assert source(make()).count("__restrict__") == 2


@pytest.mark.parametrize("make", [rounds, rounds_of_an_iteration, read_again], ids=lambda make: make.__name__)
def test_parameters_read_after_a_write_to_another_are_not_restrict(make):
    text = source(make())
    assert "* A" in text and "* B" in text
