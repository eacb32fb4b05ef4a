"""Tiles without elements: programs that are written for any size declare them, and nothing of them is ever accessed."""

from __future__ import annotations

import re

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.definition import check_meaning
from testing.python.target.every_target import every_target, run
from tilelang.errors import IndexRangeError, OptionError, ShapeError

ALLOCATE = {"shared": T.alloc_shared, "fragment": T.alloc_fragment, "local": T.alloc_local}
memory = pytest.mark.parametrize("allocate", ALLOCATE.values(), ids=ALLOCATE)


@memory
def test_statements_over_them_do_nothing(allocate):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            row, table, kept = allocate((0,), "float32"), allocate((4, 0), "float16"), T.alloc_shared((8,), "float32")
            T.copy(A, kept)
            T.clear(row)
            T.fill(table, 1)
            T.copy(A[0:0], row)
            T.copy(row, B[3:3])
            row[:] = kept[0:0] * 2
            for i in T.Parallel(0):
                row[i] = kept[i]
            for i, j in T.Parallel(4, 0):
                table[i, j] = kept[i]
            for i in T.serial(0):
                row[i] = kept[i]
            T.copy(kept, B)

    check_meaning(main, torch.arange(8.0), torch.zeros(8))


def test_loops_of_negative_lengths_do_nothing():
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "int32")):
        with T.Kernel(1, threads=32):
            for count in (n - 11, -2):
                for i in T.Parallel(count):
                    A[i] = 1
                for i, j in T.Parallel(count, count - 1):
                    A[i + j] = 2
                for i in T.serial(count):
                    A[i] = 3
            for i in T.unroll(-2):
                A[i] = 4
            for i in T.vectorized(-2):
                A[i] = 5

    check_meaning(main, torch.zeros(8, dtype=torch.int32))


@every_target
@memory
def test_a_reduction_of_none_is_the_first_value(allocate, target):
    @T.prim_func
    def main(A: T.Tensor((2,), "float32")):
        with T.Kernel(1, threads=32):
            row, total, largest = allocate((0,), "float32"), T.alloc_fragment((1,), "float32"), T.alloc_fragment((1,), "float32")
            T.reduce_sum(row, total, dim=0)
            T.reduce_max(row, largest, dim=0)
            A[0], A[1] = total[0], largest[0]

    assert run(main, target).tolist() == [0, -torch.inf]


@every_target
@pytest.mark.parametrize(("dtype", "total"), [("float16", "float32"), ("bfloat16", "float32"), ("int8", "int32")])
def test_a_product_over_none_is_zero(dtype, total, target):
    @T.prim_func
    def main(C: T.Tensor((16, 16), total)):
        with T.Kernel(1, threads=32):
            a, b = T.alloc_shared((16, 0), dtype), T.alloc_shared((0, 16), dtype)
            c = T.alloc_fragment((16, 16), total)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C)

    assert run(main, target).abs().max() == 0


def _allocated(what):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            what()

    return main


@memory
def test_an_access_is_an_index_error(allocate):
    with pytest.raises(IndexRangeError, match="index 0 is out of range for axis 0 of .*, which has 0 elements"):
        tilelang.lower(_allocated(lambda: T.print(allocate((0,), "float32")[0])), target="cpu")


@memory
def test_negative_sizes_are_refused(allocate):
    with pytest.raises(ShapeError, match=re.escape("a compile-time integer that is not negative, got the shape (4, -1)")):
        _allocated(lambda: allocate((4, -1), "float32"))


def test_a_size_of_the_run_time_is_told_what_has_one():
    n = T.dynamic("n")
    with pytest.raises(ShapeError, match=re.escape("got the shape (T.dynamic('n'),)") + "(?s:.)*T.assume"):

        @T.prim_func
        def main(A: T.Tensor((n,), "float32")):
            with T.Kernel(1):
                T.alloc_fragment((n,), "float32")


def test_there_are_no_barriers_without_arrivals():
    with pytest.raises(OptionError, match="a phase takes between 1 and"):
        _allocated(lambda: T.alloc_barrier([]))
