"""Mistakes in the functions that a kernel calls: plain Python functions and macros."""

import operator

import pytest

import tilelang.language as T
from tilelang.errors import (
    CompileError,
    CopyShapeError,
    TraceError,
)

from .support import error_at_mark


def test_run_time_loop_in_a_plain_helper():
    def helper(A):
        for i in T.serial(8):
            A[i] = 0.0

    with pytest.raises(CompileError, match="a run-time loop in a plain Python function") as caught:

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                helper(A)

    assert "@T.macro" in str(caught.value)


def test_enumerate_of_a_run_time_loop():
    with error_at_mark(CompileError, "enumerate and zip are such, too: use range"):

        @T.prim_func
        def main(A: T.Tensor((8,), "int32"), n: T.int32):
            with T.Kernel(1):
                for place, i in enumerate(range(n)):  # <- error
                    A[i] = place


def test_comprehension_over_a_run_time_range():
    with error_at_mark(CompileError, "a comprehension takes a range of constant length"):

        @T.prim_func
        def main(A: T.Tensor((8,), "int32"), n: T.int32):
            with T.Kernel(1):
                A[0] = sum(A[i] for i in range(n))  # <- error


def test_match_of_a_run_time_value():
    with error_at_mark(CompileError, "match compares in Python; write if and elif"):

        @T.prim_func
        def main(A: T.Tensor((8,), "int32"), n: T.int32):
            with T.Kernel(1):
                match n:
                    case 1:  # <- error
                        A[0] = 1


def test_error_inside_a_macro_names_its_line():
    @T.macro
    def bad(A):
        T.copy(A[0:4], A[0:8])  # <- error

    with error_at_mark(CopyShapeError):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                bad(A)


def test_error_of_a_user_helper_names_its_line():
    def helper(value):
        return {}["missing"] + value  # <- error

    with error_at_mark(TraceError, "KeyError: 'missing'"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                A[0] = helper(1)


def test_run_time_equality_in_a_plain_helper():
    def helper(value):
        return 5 if value == 1 else 6  # <- error

    with error_at_mark(CompileError, "a run-time comparison is used where Python needs True or False"):

        @T.prim_func
        def main(A: T.Tensor((8,), "int32")):
            with T.Kernel(1):
                A[0] = helper(A[1])


def test_run_time_order_in_a_plain_helper():
    def helper(value):
        return 5 if value < 1 else 6  # <- error

    with error_at_mark(CompileError, "a run-time value is used where Python needs True or False") as caught:

        @T.prim_func
        def main(A: T.Tensor((8,), "int32")):
            with T.Kernel(1):
                A[0] = helper(A[1])

    assert "tvm" not in str(caught.value)


def test_dynamic_size_compared_in_a_factory():
    def factory(n):
        if n == 1:
            return None
        return n

    with pytest.raises(CompileError, match="a run-time comparison is used where Python needs True or False"):
        factory(T.dynamic("n"))


def test_store_in_a_plain_helper():
    def helper(A):
        A[0] = 1  # <- error

    with error_at_mark(CompileError, "a plain Python function cannot store to a buffer"):

        @T.prim_func
        def main(A: T.Tensor((8,), "int32")):
            with T.Kernel(1):
                helper(A)


def test_a_quotient_of_integers_in_a_library():
    with pytest.raises(TraceError, match=r"/ between two run-time integers\n(.*\n)*.*hint: use //"):

        @T.prim_func
        def main(A: T.Tensor((8,), "int32")):
            with T.Kernel(1):
                A[0] = operator.truediv(A[1], 2)


def test_a_division_of_floats_in_a_plain_helper():
    def half(x):
        return x // 2.0  # <- error

    with error_at_mark(TraceError, "// and % of floating-point values"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                A[0] = half(A[1])


IN_PLAIN_FUNCTIONS = {
    "integer": (lambda x: [1, 2][x], "a run-time value is used where Python needs an integer"),
    "range": (lambda x: sum(range(x + 1)), "a run-time value is used where Python needs an integer"),
    "repeated": (lambda x: [0] * x, "a run-time value is used where Python needs an integer"),
    "abs": (lambda x: abs(x + 1), "a plain Python function cannot compute abs of a run-time value"),
    "divmod": (lambda x: divmod(x, 2)[0], "a plain Python function cannot compute divmod of a run-time value"),
    "round": (lambda x: round(x) + 1, "a plain Python function cannot compute round of a run-time value"),
    "text": (lambda x: len(operator.mod("%d", x)), "a text cannot hold a run-time value"),
}


@pytest.mark.parametrize("name", IN_PLAIN_FUNCTIONS)
def test_builtins_in_a_plain_function(name):
    helper, message = IN_PLAIN_FUNCTIONS[name]
    with pytest.raises(CompileError, match=message):

        @T.prim_func
        def main(A: T.Tensor((8,), "int32")):
            with T.Kernel(1):
                A[0] = helper(A[1])


def test_reversed_of_a_run_time_range():
    with error_at_mark(CompileError, "reversed of a run-time range"):

        @T.prim_func
        def main(A: T.Tensor((8,), "int32"), n: T.int32):
            with T.Kernel(1):
                for i in reversed(range(n)):  # <- error
                    A[i] = i
