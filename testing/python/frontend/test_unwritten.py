"""Tiles that are read although nothing has written them: a warning where that is certain, and nothing else."""

from __future__ import annotations

import warnings

import pytest

import tilelang.language as T
from tilelang.errors import UninitialisedWarning


def program(body):
    """A program whose kernel is ``body``, traced."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float32"), n: T.int32):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            body(A, B, n, a, c)

    return main


@T.macro
def product_without_clear(A, B, n, a, c):
    T.copy(A, a)
    for _ in T.serial(n):
        T.gemm(a, a, c)
    T.copy(c, B)


@T.macro
def product_before_clear(A, B, n, a, c):
    T.copy(A, a)
    T.gemm(a, a, c)
    T.clear(c)
    T.copy(c, B)


@T.macro
def sum_of_elements(A, B, n, a, c):
    T.copy(A, a)
    for i, j in T.Parallel(64, 64):
        c[i, j] += a[i, j]
    T.copy(c, B)


@T.macro
def sum_of_rows(A, B, n, a, c):
    total = T.alloc_fragment((64,), "float32")
    T.fill(c, 1)
    T.reduce_sum(c, total, dim=1, clear=False)
    T.copy(total, B[0, :])


@T.macro
def only_copied(A, B, n, a, c):
    T.copy(a, B)


@T.macro
def variable(A, B, n, a, c):
    count = T.alloc_var("int32")
    for _ in T.serial(n):
        count += 1
    B[0, 0] = count


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (product_without_clear, "c"),
        (product_before_clear, "c"),
        (sum_of_elements, "c"),
        (sum_of_rows, "total"),
        (only_copied, "a"),
        (variable, "count"),
    ],
)
def test_what_nothing_has_written_is_a_warning(body, name):
    with pytest.warns(UninitialisedWarning, match=f"^{name} is read, but no statement before has written it") as said:
        program(body)
    assert len(said) == 1 and said[0].filename.endswith("test_unwritten.py")


@T.macro
def cleared_by_the_product(A, B, n, a, c):
    T.copy(A, a)
    for k in T.serial(n):
        T.gemm(a, a, c, clear_accum=k == 0)
    T.copy(c, B)


@T.macro
def written_by_the_iteration_before(A, B, n, a, c):
    for k in T.serial(n):
        if k > 0:
            T.copy(c, B)
        T.copy(A, c)


@T.macro
def begun_by_a_condition(A, B, n, a, c):
    for k in T.serial(n):
        for i, j in T.Parallel(64, 64):
            c[i, j] = T.if_then_else(k == 0, 0.0, c[i, j]) + A[i, j]
    T.copy(c, B)


@T.macro
def written_by_threads_whose_code_comes_later(A, B, n, a, c):
    with T.ws(0):
        T.sync_threads(1, 256)
        T.copy(a, c)
        T.copy(c, B)
    with T.ws(1):
        T.copy(A, a)
        T.sync_threads(1, 256)


@T.macro
def written_through_a_view(A, B, n, a, c):
    T.clear(T.reshape(c, (4096,)))
    T.copy(c, B)


@T.macro
def written_by_other_code(A, B, n, a, c):
    T.call_extern("int32", "fill", a.access_ptr("w"))
    T.copy(a, c)
    T.copy(c, B)


@pytest.mark.parametrize(
    "body",
    [
        cleared_by_the_product,
        written_by_the_iteration_before,
        begun_by_a_condition,
        written_by_threads_whose_code_comes_later,
        written_through_a_view,
        written_by_other_code,
    ],
)
def test_what_may_have_been_written_is_none(body):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UninitialisedWarning)
        program(body)
