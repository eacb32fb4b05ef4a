"""Mistaken indices of tensors and of Python sequences."""

import tilelang.language as T
from tilelang.errors import (
    BufferIndexError,
    CompileError,
)

from .support import error_at_mark


def test_index_out_of_range():
    with error_at_mark(BufferIndexError, "index 8 is out of range for axis 0 of A, which has 8 elements"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                A[8] = 1.0  # <- error


def test_index_before_the_start():
    with error_at_mark(BufferIndexError, "index -9"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                A[0] = A[-9]  # <- error


def test_too_many_indices():
    with error_at_mark(BufferIndexError, "A has 1 axis, but is indexed with 2"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                A[0, 0] = 1.0  # <- error


def test_text_as_index():
    with error_at_mark(CompileError, "an index must be an integer, got 'x'"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                A["x"] = 1.0  # <- error


def test_float_index():
    with error_at_mark(CompileError, "an index must be an integer, got float32"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                A[A[0]] = 1.0  # <- error


def test_run_time_index_into_a_python_list():
    with error_at_mark(CompileError, "a Python sequence is indexed with a run-time value"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                buffers = [A, A]
                for i in range(2):
                    A[i] = buffers[i][0]  # <- error


def test_a_row_assigned_in_a_parallel_loop():
    with error_at_mark(CompileError, "1 of the 2 axes of A are indexed, and T.Parallel assigns single elements"):

        @T.prim_func
        def main(A: T.Tensor((8, 8), "float32")):
            with T.Kernel(1):
                for i in T.Parallel(8):
                    A[i] = 0  # <- error
