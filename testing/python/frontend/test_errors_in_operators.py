"""Mistaken uses of Python's operators and protocols: tensors as scalars, divisions, iteration."""

import pytest

import tilelang.language as T
from tilelang.errors import (
    CompileError,
)

from .support import error_at_mark


def test_buffer_as_scalar():
    with error_at_mark(CompileError, "buffer A is used as a scalar"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                A[0] = T.exp(A)  # <- error


@pytest.mark.parametrize("condition", ["A == 0", "0 != A", "A < 1", "A[0] >= A", "A < A", "0 < A < 2"])
def test_tensor_compared_like_a_scalar(condition: str):
    """Two tensors may be compared, since ``==`` of tensors is identity; with a scalar it would be False whatever they hold."""
    program = f"""
@T.prim_func
def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
    with T.Kernel(1):
        assert A == A and A != B and A != None
        if {condition}:
            A[0] = 1
"""
    with pytest.raises(CompileError, match="buffer A is used as a scalar"):
        exec(program, {"T": T})


@pytest.mark.parametrize(
    "use, said",
    [
        ("A.sum()", "have no attribute 'sum'"),
        ("A[0:4].T", "slices of a kernel have no attribute 'T'(?s:.*)T.transpose"),
        ("len(A)", r"has no len\(\)"),
        ("max(A[:])", "a slice of a kernel cannot be iterated over(?s:.*)for i in T.serial"),
        ("T.exp(A)", r"A\[0\] is an element, and A\[:\] all of them"),
    ],
)
def test_tensor_used_like_an_array(use: str, said: str):
    program = f"@T.prim_func\ndef main(A: T.Tensor((8,), 'float32')):\n    with T.Kernel(1):\n        A[0] = {use}"
    with pytest.raises(CompileError, match=said):
        exec(program, {"T": T})


def test_integer_true_division():
    with error_at_mark(CompileError, "/ between two run-time integers"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1) as bx:
                A[0] = bx / 2  # <- error


def test_side_effect_in_a_conditional_expression():
    with error_at_mark(CompileError, "a call with side effects in a conditional expression"):

        @T.prim_func
        def main(A: T.Tensor((8,), "int32")):
            with T.Kernel(1):
                A[1] = T.atomic_add(A[0], 1, return_prev=True) if A[2] > 0 else 0  # <- error


def test_some_lanes_exchange_no_values_in_a_conditional_expression():
    with error_at_mark(CompileError, "a call with side effects in a conditional expression"):

        @T.prim_func
        def main(A: T.Tensor((32,), "int32")):
            with T.Kernel(1, threads=32):
                tx = T.get_thread_binding()
                A[tx] = T.shfl_xor(A[tx], 1, mask=0xFF) if tx < 8 else 0  # <- error


def test_tensors_and_their_elements_have_no_end_to_iterate_to():
    with error_at_mark(CompileError, "the tensor A cannot be iterated over"):

        @T.prim_func
        def by_items(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                for a in A:  # <- error
                    A[0] = a

    with error_at_mark(CompileError, "a run-time value cannot be iterated over"):

        @T.prim_func
        def by_element(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                A[0] = sum(zip(A[0] + 1, range(8)))  # <- error


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("A[0] = A[0] & 3", r"& takes integers, and A\[0\] is a float32"),
        ("A[0] = A[0] << 1", r"<< takes integers, and A\[0\] is a float32"),
        ("A[0] = ~A[0]", "~ takes integers and conditions, not floats"),
        ("A[0] += 'a'", r"\+ of a value of the kernel and a Python str"),
        ("A[0] = None * A[0]", r"\* of a value of the kernel and a Python NoneType"),
        ("del A[0]", "an element of a tensor cannot be deleted"),
        ("A.shape = (4, 2)", "the shape and the dtype of a tensor cannot be changed"),
        ("x = T.alloc_var('int32')\n        x.value = 3", "a variable of a kernel has no attribute 'value'"),
    ],
)
def test_mistake_that_python_or_tvm_reports(statement: str, said: str):
    program = f"@T.prim_func\ndef main(A: T.Tensor((8,), 'float32')):\n    with T.Kernel(1):\n        {statement}"
    with pytest.raises(CompileError, match=said):
        exec(program, {"T": T})
