"""Macros: what a parameter is to the caller, and macros that open kernels."""

import pytest
import torch

import tilelang
import tilelang.language as T
import tilelang.language as tl  # noqa: F401 - as Ref
from tilelang.errors import CompileError
from tilelang.language import Ref  # noqa: F401 - named by an annotation that is text

from .support import run


@T.macro
def becomes_one(x):
    x = 1  # noqa: F841


@T.macro
def power(n, x):
    return x if n == 0 else power(n - 1, x) * x


@T.macro
def one_more(x):
    x += 1
    return x


@T.macro
def becomes_eight(x: T.Ref):
    x = 7
    x += 1


def test_scalars_are_passed_by_value():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=1):
            x = T.alloc_var("int32", init=3)
            becomes_one(x)
            A[0] = x
            A[1] = one_more(x)
            A[2] = x
            A[3] = 5
            becomes_one(A[3])
            one_more(A[3])

    a = torch.zeros(4, dtype=torch.int32)
    run(main, a)
    assert a.tolist() == [3, 4, 3, 5]


def test_a_reference_is_the_variable_or_element():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=1):
            x = T.alloc_var("int32", init=3)
            becomes_eight(x)
            A[0] = x
            becomes_eight(A[1])
            x = 2
            becomes_eight(A[x])

    a = torch.zeros(4, dtype=torch.int32)
    run(main, a)
    assert a.tolist() == [8, 8, 8, 0]


def test_a_reference_to_a_number_is_an_error():
    with pytest.raises(CompileError, match="parameter x is T.Ref"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1, threads=1):
                becomes_eight(1)


def test_a_macro_may_open_the_kernel_and_allocate_the_result():
    @T.macro
    def copied(A):
        M, N = A.shape
        B = T.empty(M, N, dtype=A.dtype)
        assert M == B.shape[0], "the sizes agree"
        with T.Kernel(M, threads=32) as i:
            T.copy(A[i, :], B[i, :])
        return B

    @tilelang.jit(target="cpu")
    def fixed(A):
        A: T.Tensor((4, 8), "float32")
        return copied(A)

    @tilelang.jit(target="cpu")
    def free(A):
        M = T.dynamic("M")
        A: T.Tensor((M, 8), "float32")
        return copied(A)

    a = torch.arange(32.0).reshape(4, 8)
    assert torch.equal(fixed(a), a)
    assert torch.equal(free(a), a)


def test_a_macro_may_call_itself():
    @T.macro
    def inner(n, x):
        return x if n == 0 else inner(n - 1, x) + 1

    @T.prim_func
    def main(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = power(3, A[i]) + inner(5, A[i])

    a, b = torch.arange(8, dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    run(main, a, b)
    assert torch.equal(b, a**4 + a + 5)


def test_a_macro_that_calls_itself_without_end_is_an_error_at_its_line():
    with pytest.raises(CompileError, match="(?s)macro power is 64 calls deep.*test_macros"):

        @T.prim_func
        def main(A: T.Tensor((8,), "int32")):
            with T.Kernel(1, threads=32):
                A[0] = power(A[0], A[1])


def test_a_slice_that_a_macro_gets_is_where_its_index_was_then():
    @T.macro
    def next_row(tile, at, out):
        at[0] = at[0] + 1
        T.copy(tile, out)

    @T.prim_func
    def main(A: T.Tensor((4, 8), "int32"), B: T.Tensor((3, 8), "int32"), at: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((4, 8), "int32")
            T.copy(A, tile)
            for k in T.serial(3):
                next_row(tile[at[0], :], at, B[k, :])

    a, b = torch.arange(32, dtype=torch.int32).reshape(4, 8), torch.zeros(3, 8, dtype=torch.int32)
    run(main, a, b, torch.ones(1, dtype=torch.int32))
    assert torch.equal(b, a[1:])


def by_text(annotation):
    def raise_by_one(x):
        x += 1

    raise_by_one.__annotations__["x"] = annotation
    return T.macro(raise_by_one)


@pytest.mark.parametrize("annotation", ["T.Ref", "tl.Ref", "Ref", "'T.Ref'"])
def test_annotations_that_are_text_name_what_the_function_sees(annotation):
    raise_by_one = by_text(annotation)

    @T.prim_func
    def main(A: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_var("int32", init=4)
            raise_by_one(x)
            raise_by_one(A[1])
            A[0] = x

    found = torch.arange(2, dtype=torch.int32)
    tilelang.compile(main, target="c")(found)
    assert found.tolist() == [5, 2]


class Scaled:
    @T.macro
    @staticmethod
    def static(A, i):
        A[i] = 7

    @T.macro
    @classmethod
    def of_class(cls, A, i):
        A[i] = len(cls.__name__)


def test_macros_of_static_and_class_methods():
    @T.prim_func
    def main(A: T.Tensor((3,), "int32")):
        with T.Kernel(1, threads=32):
            Scaled.static(A, 0)
            Scaled().static(A, 1)
            Scaled.of_class(A, 2)

    found = torch.zeros(3, dtype=torch.int32)
    tilelang.compile(main, target="c")(found)
    assert found.tolist() == [7, 7, 6]
