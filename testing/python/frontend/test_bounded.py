"""Shared tiles and views whose sizes follow from run-time sizes with a bound."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import ArgumentError, CompileError

from .support import error_at_mark

TARGETS = ["cpu", "c", "interpret", {"kind": "cuda", "arch": "sm_80"}, {"kind": "cuda", "arch": "sm_90a"}]
everywhere = pytest.mark.parametrize("target", TARGETS, ids=str)


def call(program, target, *args):
    with tilelang.simulator():
        tilelang.compile(program, target=target)(*args)


@everywhere
def test_a_tile_as_long_as_a_row(target):
    n = T.dynamic("n")

    @T.prim_func
    def reverse(A: T.Tensor((4, n), "float32"), B: T.Tensor((4, n), "float32")):
        with T.Kernel(4, threads=64) as row:
            T.assume(n <= 256)
            tile = T.alloc_shared((2, n), "float32")
            T.fill(tile, 1)
            T.copy(A[row, 0:n], tile[1, :])
            for i in T.Parallel(n):
                B[row, i] = tile[1, n - 1 - i] + tile[0, i]

    for size in (100, 256):
        a, b = torch.randn(4, size), torch.zeros(4, size)
        call(reverse, target, a, b)
        assert torch.equal(b, a.flip(1) + 1)


@everywhere
def test_views_of_bounded_and_of_known_tiles(target):
    n, k = T.dynamic("n, k")

    @T.prim_func
    def reshaped(A: T.Tensor((n * 4,), "float32"), B: T.Tensor((n, 4), "float32"), C: T.Tensor((k, 16), "float32")):
        T.assume(n < 65 and 4 == k)
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((n * 4,), "float32")
            T.copy(A, tile)
            T.copy(T.view(tile, (n, 4)), B)
            fixed = T.alloc_shared((64,), "float32")
            T.copy(A[0:64], fixed)
            T.copy(T.view(fixed, (k, 16)), C)

    a, b, c = torch.randn(4 * 51), torch.zeros(51, 4), torch.zeros(4, 16)
    call(reshaped, target, a, b, c)
    assert torch.equal(b.flatten(), a) and torch.equal(c.flatten(), a[:64])


@everywhere
def test_a_layout_for_a_tile_of_run_time_size_is_a_hint(target):
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n, 32), "float16"), B: T.Tensor((n, 32), "float16")):
        T.assume(n <= 32)
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((n, 32), "float16")
            T.annotate_layout({tile: T.Layout((n, 32), lambda i, j: (i, j))})
            T.copy(A, tile)
            T.copy(tile, B)

    a, b = torch.randn(17, 32).half(), torch.zeros(17, 32).half()
    call(main, target, a, b)
    assert torch.equal(a, b)


def test_a_size_without_a_bound():
    n = T.dynamic("n")
    with error_at_mark(CompileError, r"T.alloc_shared: the size \(n \+ 1\) has no bound at compile time"):

        @T.prim_func
        def main(A: T.Tensor((n,), "float32"), m: T.int32):
            with T.Kernel(1, threads=32):
                T.assume(n >= 4)
                if m > 0:
                    T.assume(n <= 64)
                T.alloc_shared((n + 1,), "float32")  # <- error


@pytest.mark.parametrize("size", ["element", "variable"])
def test_a_size_that_may_change_is_bounded_under_a_name(size):
    with error_at_mark(CompileError, "hint: a name holds what it is now: n = the size"):

        @T.prim_func
        def main(A: T.Tensor((8,), "int32")):
            with T.Kernel(1, threads=32):
                n = T.alloc_var("int32", init=A[0]) if size == "variable" else A
                T.assume(A[0] <= 64)
                T.alloc_shared((n if size == "variable" else n[0],), "float32")  # <- error


@pytest.mark.parametrize("around", ["skipped loop", "while", "after a return"])
def test_a_bound_that_some_calls_do_not_reach(around):
    """A call checks only the T.assume that every call reaches; a bound that it did not check would let a tile overflow."""
    n = T.dynamic("n")

    with pytest.raises(CompileError, match="has no bound at compile time") as caught:

        @T.prim_func
        def main(A: T.Tensor((n,), "float32"), m: T.int32):
            with T.Kernel(1, threads=32):
                if around == "skipped loop":
                    for _ in T.serial(m):
                        T.assume(n <= 64)
                if around == "while":
                    while A[0] > 0:
                        T.assume(n <= 64)
                if around == "after a return":
                    if m > 0:
                        return
                    T.assume(n <= 64)
                T.alloc_shared((n,), "float32")

    assert "T.assume(n <= 256) above it, on a path that every call takes" in str(caught.value)


def test_a_bound_in_a_loop_that_runs():
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            for _ in T.serial(2):
                T.assume(n <= 64)
            tile = T.alloc_shared((n,), "float32")
            T.copy(A, tile)
            for i in T.Parallel(n):
                A[i] = tile[n - 1 - i]

    a = torch.arange(5.0)
    call(main, "cpu", a)
    assert a.tolist() == [4, 3, 2, 1, 0]
    with pytest.raises(ArgumentError, match=r"T.assume\(n <= 64\) does not hold: n is 65"):
        call(main, "cpu", torch.zeros(65))


def test_an_argument_may_be_negative():
    with pytest.raises(CompileError, match="has no bound at compile time"):

        @T.prim_func
        def main(A: T.Tensor((4,), "float32"), m: T.int32):
            with T.Kernel(1, threads=32):
                T.assume(m <= 4)
                T.alloc_shared((m * m,), "float32")


@pytest.mark.parametrize(
    ("tile", "shape", "message"),
    [
        ((4, "n"), ("n", 4), "this part of held is not compact"),
        (("n", 4), (4, "n"), "only the first size of a view of shared memory may be a run-time one"),
        ((16,), ("n", 4), "held has room for 4 rows of the view, and it may have 8"),
    ],
)
def test_views_that_do_not_fit(tile, shape, message):
    n = T.dynamic("n")

    def sizes(given):
        return tuple(n if size == "n" else size for size in given)

    with pytest.raises(CompileError, match=message):

        @T.prim_func
        def main(A: T.Tensor((n,), "float32")):
            with T.Kernel(1, threads=32):
                T.assume(n <= 8)
                held = T.alloc_shared(sizes(tile), "float32")
                T.view(held, sizes(shape))


def test_operators_on_cuda_want_known_sizes():
    n = T.dynamic("n")

    @T.prim_func
    def total(A: T.Tensor((n,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=32):
            T.assume(n <= 64)
            tile = T.alloc_shared((n,), "float32")
            T.copy(A, tile)
            result = T.alloc_fragment((1,), "float32")
            T.reduce_sum(tile, result, dim=0)
            T.copy(result, B)

    a, b = torch.ones(33), torch.zeros(1)
    call(total, "cpu", a, b)
    assert b.item() == 33
    with pytest.raises(CompileError, match=r"on CUDA this operator takes tiles of compile-time sizes, and tile has \(n,\)"):
        call(total, TARGETS[-1], a, b)
