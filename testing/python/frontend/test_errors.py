"""Errors of user programs: the class, the message, the line, the column, and the number of lines."""

import importlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import (
    BufferIndexError,
    CarriedValueError,
    CompileError,
    CopyShapeError,
    ExecutionError,
    GemmDtypeError,
    GemmShapeError,
    OutOfScopeError,
    ReduceShapeError,
    StaleValueError,
    TraceError,
    UnsupportedSyntaxError,
)

from .support import error_at_mark


def test_undefined_name():
    with error_at_mark(TraceError, "NameError: name 'undefined_name' is not defined") as caught:

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                A[0] = undefined_name  # noqa: F821  # <- error

    assert "undefined_name" in str(caught.value)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 keeps the lines of instructions, not their columns")
def test_column_of_the_statement():
    with pytest.raises(GemmShapeError) as caught:

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                a = T.alloc_shared((16, 16), "float16")
                c = T.alloc_fragment((16, 32), "float32")
                T.gemm(a, a, c)

    location = caught.value.location
    assert location.column == 17
    assert location.end_column == location.column + len("T.gemm(a, a, c)")


def test_gemm_shape():
    with error_at_mark(GemmShapeError, r"B is \(64, 16\), expected \(32, 16\)|A is \(16, 32\), expected \(16, 64\)"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                a = T.alloc_shared((16, 32), "float16")
                b = T.alloc_shared((64, 16), "float16")
                c = T.alloc_fragment((16, 16), "float32")
                T.gemm(a, b, c)  # <- error


def test_gemm_dtype():
    with error_at_mark(GemmDtypeError, "A is float16, B is float32"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                a = T.alloc_shared((16, 32), "float16")
                b = T.alloc_shared((32, 16), "float32")
                c = T.alloc_fragment((16, 16), "float32")
                T.gemm(a, b, c)  # <- error


def test_copy_extents():
    with error_at_mark(CopyShapeError, r"the source is \(8, 16\) and the destination is \(16, 8\)"):

        @T.prim_func
        def main(A: T.Tensor((8, 16), "float32")):
            with T.Kernel(1):
                a = T.alloc_shared((16, 8), "float32")
                T.copy(A, a)  # <- error


def test_reduce_shape():
    with error_at_mark(ReduceShapeError, "dim=1"):

        @T.prim_func
        def main(A: T.Tensor((8, 16), "float32")):
            with T.Kernel(1):
                a = T.alloc_fragment((8, 16), "float32")
                b = T.alloc_fragment((16,), "float32")
                T.reduce_sum(a, b, dim=1)  # <- error


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
    with error_at_mark(BufferIndexError, "A has 1 axes, but is indexed with 2"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                A[0, 0] = 1.0  # <- error


def test_float_index():
    with error_at_mark(CompileError, "an index must be an integer, got float32"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                A[A[0]] = 1.0  # <- error


def test_unsupported_construct():
    with error_at_mark(UnsupportedSyntaxError, "try is not supported inside a kernel"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                try:  # <- error
                    A[0] = 1.0
                finally:
                    pass


def test_yield_is_unsupported():
    with error_at_mark(UnsupportedSyntaxError, "yield"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                yield A  # <- error


def test_carried_value():
    with error_at_mark(CarriedValueError, "'total' is read and reassigned in a run-time loop"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                total = 0.0
                for i in range(8):  # <- error
                    total = total + A[i]
                A[0] = total


def test_carried_value_of_a_branch_at_run_time():
    with error_at_mark(CarriedValueError, "'total' is read and reassigned in a run-time loop"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                total = 0.0
                for i in range(8):  # <- error
                    if A[i] > 0:
                        total = total + A[i]


def test_carried_values_that_are_swapped():
    with error_at_mark(CarriedValueError, "'first' is read and reassigned in a run-time loop"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                first, second = 0.0, 1.0
                for i in range(8):  # <- error
                    A[i] = first
                    first, second = second, first


def test_stale_value_after_a_branch():
    with error_at_mark(StaleValueError, "'value' was assigned inside a run-time condition"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1) as bx:
                value = 1
                if bx > 0:
                    value = 2
                A[0] = value + 1  # <- error


def test_stale_value_after_a_loop():
    with error_at_mark(StaleValueError, "'last' was assigned inside a run-time loop"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                for i in range(8):
                    last = A[i] * 2
                A[0] = last + 1  # <- error


def test_loop_variable_outside_of_its_loop():
    with error_at_mark(OutOfScopeError, "'i'"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                for i in range(8):
                    A[i] = 0.0
                A[0] = i  # <- error


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


@pytest.mark.parametrize("use, said", [("A.sum()", "have no attribute 'sum'"), ("len(A)", r"has no len\(\)")])
def test_tensor_used_like_an_array(use: str, said: str):
    program = f"@T.prim_func\ndef main(A: T.Tensor((8,), 'float32')):\n    with T.Kernel(1):\n        A[0] = {use}"
    with pytest.raises(CompileError, match=said):
        exec(program, {"T": T})


@pytest.mark.parametrize("dim, rows", [(1, 8), (2, 8), (-1, 8), (1, 16)])
def test_axes_of_a_slice_do_not_depend_on_its_sizes(dim: int, rows: int):
    """``dim=1`` of a square ``x[k, :, :]`` is its rows' axis where the destination has the axis of ``k``, and of others."""

    def reduced(rows: int, dim: int):
        @T.prim_func
        def main(X: T.Tensor((2, rows, 8), "float32")):
            with T.Kernel(1, threads=32) as bx:
                x, sums = T.alloc_shared((2, rows, 8), "float32"), T.alloc_shared((2, rows), "float32")
                T.reduce_sum(x[bx, :, :], sums[bx, :], dim=dim)

    if (dim, rows) != (1, 16):
        reduced(rows, dim)
        return
    with pytest.raises(CompileError, match="dim=1 counts all axes of x") as caught:
        reduced(rows, dim)
    assert "write dim=2" in str(caught.value)


def test_integer_true_division():
    with error_at_mark(CompileError, "/ between two run-time integers"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1) as bx:
                A[0] = bx / 2  # <- error


def test_unknown_dtype():
    with error_at_mark(CompileError, "unknown dtype 'floot16'") as caught:

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                a = T.alloc_shared((8,), "floot16")  # <- error
                T.copy(A, a)

    assert "did you mean 'float16'?" in str(caught.value)


def test_unknown_dtype_of_a_parameter():
    """Python evaluates annotations where the factory defines the program, before anything is traced."""

    @tilelang.jit
    def factory(n):
        @T.prim_func
        def main(A: T.Tensor((n,), "flot32")):  # <- error
            with T.Kernel(1) as bx:
                A[bx] = 0

        return main

    with error_at_mark(CompileError, "unknown dtype 'flot32'"):
        factory(8)


def test_dynamic_shared_size():
    n = T.dynamic("n")
    with error_at_mark(CompileError, "the size n has no bound at compile time"):

        @T.prim_func
        def main(A: T.Tensor((n,), "float32")):
            with T.Kernel(1):
                T.alloc_shared((n,), "float32")  # <- error


def test_assertion_outside_of_a_kernel():
    n = T.dynamic("n")
    with error_at_mark(CompileError, "an assert over run-time values is possible inside of a kernel only"):

        @T.prim_func
        def main(A: T.Tensor((n,), "float32")):
            assert n % 4 == 0, "rows of four"  # <- error


def test_tile_operator_outside_of_a_kernel():
    with error_at_mark(CompileError, "T.clear only works inside `with T.Kernel"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            T.clear(A)  # <- error


def test_language_outside_of_a_program():
    with pytest.raises(CompileError, match="only works inside a kernel"):
        T.alloc_shared((8,), "float32")


def test_nested_kernels():
    with error_at_mark(CompileError, "a kernel cannot be opened inside a kernel"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                with T.Kernel(1):  # <- error
                    A[0] = 1.0


def test_too_many_threads():
    with error_at_mark(CompileError, "the limit is 1024"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1, threads=2048):  # <- error
                A[0] = 1.0


def test_missing_annotation():
    with pytest.raises(CompileError, match="parameter B of main has no annotation"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32"), B):
            pass


def test_break_of_a_compile_time_loop():
    with error_at_mark(CompileError, "break of a compile-time loop depends on a run-time condition"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                for index in [0, 1, 2]:
                    if A[index] > 0:
                        break  # <- error


def test_run_time_index_into_a_python_list():
    with error_at_mark(CompileError, "a Python sequence is indexed with a run-time value"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                buffers = [A, A]
                for i in range(2):
                    A[i] = buffers[i][0]  # <- error


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


def test_side_effect_in_a_conditional_expression():
    with error_at_mark(CompileError, "a call with side effects in a conditional expression"):

        @T.prim_func
        def main(A: T.Tensor((8,), "int32")):
            with T.Kernel(1):
                A[1] = T.atomic_add(A[0], 1, return_prev=True) if A[2] > 0 else 0  # <- error


def test_compile_time_assertion():
    with error_at_mark(TraceError, "AssertionError: too narrow"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            assert len(A.shape) == 2, "too narrow"  # <- error


PROGRAM = """
import tilelang.language as T


def make(M, N):
    @T.prim_func
    def gemm(A: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, 32), "float16")
            b = T.alloc_shared((64, N), "float16")
            c = T.alloc_fragment((M, N), "float32")
            {statement}

    return gemm


make(64, 64)
"""


@pytest.mark.parametrize(
    "statement",
    ["T.gemm(a, b, c)", "undefined_name + 1", "T.copy(a, b)", "a[64, 0] = 0.0", "T.gemm(a, c, c, transpose_A=True)"],
)
def test_terminal_output_is_short(tmp_path, statement):
    script = tmp_path / "kernel.py"
    script.write_text(textwrap.dedent(PROGRAM).format(statement=statement))
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=100)
    lines = run.stderr.rstrip().splitlines()
    assert run.returncode == 1
    assert len(lines) < 15, run.stderr
    assert f"{script}:12" in run.stderr
    assert statement in run.stderr
    assert "tvm" not in run.stderr


MISTAKES = {
    "x = A[0] << 1": "Expected integer argument as LHS",
    "x = math.sqrt(A[0])": r"TensorLoad\n.*(\n.*)*hint: functions of other libraries do not take run-time values",
    "A += 1": r"unsupported operand.*(\n.*)*hint: operators take elements",
    "x = A(0)": "a buffer is called like a function",
    "T.coppy(A, A)": "no 'coppy'; did you mean 'copy'?",
    "for i in range(8 / 2): A[i] = 0": "the bound of a loop must be an integer, got .*4.0",
    "pass\n    with T.Kernel(8 / 2): A[0] = 0": "T.Kernel: a grid size must be an integer, got .*4.0",
    "for i in T.Parallel(8 / 2): A[i] = 0": "use n // m or T.ceildiv",
    "for i in T.Pipelined(4, num_stages=-1): A[i] = 0": "num_stages must be a compile-time integer from 0 on, got -1",
    "for i in T.Pipelined(4, num_stages='2'): A[i] = 0": "expected a scalar, got str '2'",
}


@pytest.mark.parametrize("statement", MISTAKES)
def test_common_mistakes_name_the_users_line(statement, tmp_path, monkeypatch):
    (tmp_path / "mistaken.py").write_text(
        "import math\nimport tilelang.language as T\n@T.prim_func\ndef main(A: T.Tensor((8,), 'float32')):\n"
        f"    with T.Kernel(1):\n        {statement}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mistaken", raising=False)
    with pytest.raises(CompileError, match=MISTAKES[statement]) as caught:
        importlib.import_module("mistaken")
    line = 6 + statement.count("\n")
    assert (caught.value.location.file, caught.value.location.line) == (str(tmp_path / "mistaken.py"), line)


def test_return_from_an_iteration_of_parallel_on_the_cpu():
    @T.prim_func
    def main(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                if A[i] < 0:
                    return  # <- error

    with error_at_mark(match="return inside of T.Parallel"):
        tilelang.lower(main, target="cpu")


@pytest.mark.parametrize("name", ["alloc_shared", "alloc_fragment", "alloc_local"])
def test_shape_and_dtype_in_the_wrong_order(name):
    with error_at_mark(match=rf'write T.{name}\(\(64, 64\), "float16"\)'):

        @T.prim_func
        def main(A: T.Tensor((8,), "int32")):
            with T.Kernel(1, threads=32):
                getattr(T, name)("float16", (64, 64))  # <- error


def _tiles(*shapes: tuple[int, int], dtype: str = "float32"):
    return [T.alloc_fragment(shape, dtype) for shape in shapes]


@T.macro
def _leaves_a_parallel_loop():
    for i in T.Parallel(64):
        if i > 3:
            break


@T.macro
def _leaves_a_parallel_loop_by_name():
    for i in T.Parallel(64):
        if i > 3:
            T.loop_break()


@T.macro
def _bits_of_floats():
    a, b = _tiles((64, 64), (64, 1))
    T.reduce_bitand(a, b, dim=1)


@T.macro
def _multiplies_into_its_operand():
    a, b = _tiles((64, 64), (64, 64))
    T.gemm(a, b, a)


@pytest.mark.parametrize(
    "mistake, message",
    [
        (_leaves_a_parallel_loop, "break in T.Parallel"),
        (_leaves_a_parallel_loop_by_name, "break in T.Parallel"),
        (_bits_of_floats, "T.reduce_bitand takes integers"),
        (_multiplies_into_its_operand, "T.gemm: C is A itself"),
    ],
)
def test_mistakes_that_have_no_meaning_are_errors_at_their_lines(mistake, message):
    with pytest.raises(CompileError, match=f"(?s){message}.*test_errors"):

        @T.prim_func
        def main(A: T.Tensor((64,), "float32")):
            with T.Kernel(1, threads=32):
                mistake()


def test_a_tensor_has_a_stride_for_each_axis():
    with pytest.raises(CompileError, match="a tensor of 2 axes has 1 strides"):
        T.StridedTensor((4, 4), (1,), "float32")


def test_t_kernel_outside_of_a_with_statement():
    with error_at_mark(CompileError, "T.Kernel without `with` opens no kernel"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            T.Kernel(5)  # <- error


def test_a_loop_outside_of_a_for_statement():
    with error_at_mark(CompileError, "a loop that no `for` statement goes through"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                T.serial(5)  # <- error


def test_an_assertion_of_a_text():
    with error_at_mark(CompileError, "the condition comes before the message"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                T.device_assert("A is empty")  # <- error


def test_a_tile_operator_in_a_parallel_loop():
    with error_at_mark(CompileError, "T.copy inside T.Parallel: its iterations are shared out"):

        @T.prim_func
        def main(A: T.Tensor((8, 8), "float32"), B: T.Tensor((8, 8), "float32")):
            with T.Kernel(1):
                for i in T.Parallel(8):
                    T.copy(A[i, :], B[i, :])  # <- error


def test_a_division_of_floats_in_a_plain_helper():
    def half(x):
        return x // 2.0  # <- error

    with error_at_mark(TraceError, "// and % of floating-point values"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                A[0] = half(A[1])


def test_an_allocation_outside_of_programs_takes_few_lines(tmp_path):
    script = tmp_path / "outside.py"
    script.write_text('import tilelang.language as T\ntile = T.alloc_shared((4,), "float32")\n')
    said = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False).stderr
    assert "T.alloc_shared only works inside a kernel" in said and f"{script}:2" in said
    assert len(said.splitlines()) < 15, said


def test_indices_of_a_kernel_that_do_not_fit_its_axes():
    with error_at_mark(CompileError, "1 value is unpacked into 2 names: bx, by"):

        @T.prim_func
        def one(A: T.Tensor((8,), "float32")):
            with T.Kernel(2) as (bx, by):  # <- error
                A[bx] = 0

    with error_at_mark(CompileError, "3 values are unpacked into 2 names: bx, by"):

        @T.prim_func
        def three(A: T.Tensor((8,), "float32")):
            with T.Kernel(2, 2, 2) as (bx, by):  # <- error
                A[bx] = 0


@pytest.mark.parametrize(("loop", "said"), [(lambda: T.Parallel(8), "1 value is"), (lambda: T.grid(2, 2, 2), "3 values are")])
def test_variables_of_a_loop_that_do_not_fit_its_axes(loop, said):
    with error_at_mark(CompileError, f"{said} unpacked into 2 names: i, j"):

        @T.prim_func
        def main(A: T.Tensor((8, 8), "float32")):
            with T.Kernel(1):
                for i, j in loop():  # <- error
                    A[i, j] = 0


def test_a_row_assigned_in_a_parallel_loop():
    with error_at_mark(CompileError, "1 of the 2 axes of A are indexed, and T.Parallel assigns single elements"):

        @T.prim_func
        def main(A: T.Tensor((8, 8), "float32")):
            with T.Kernel(1):
                for i in T.Parallel(8):
                    A[i] = 0  # <- error


def test_a_value_that_a_loop_put_into_a_python_list():
    with error_at_mark(OutOfScopeError, "a value that a run-time loop or condition put into a Python list"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                values = []
                for i in T.serial(4):
                    values.append(A[i])
                A[0] = values[0]  # <- error


def test_a_mistaken_keyword_offers_the_near_one():
    with error_at_mark(TraceError, r"unexpected keyword argument 'num_stage'(?s:.*)did you mean 'num_stages'"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                for i in T.Pipelined(3, num_stage=2):  # <- error
                    A[i] = 1


def test_names_and_orders_of_other_languages():
    with error_at_mark(TraceError, r"tilelang.language has no 'arange'(?!; did you mean)"):

        @T.prim_func
        def indices(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                A[T.arange(0, 8)] = 1  # <- error

    with error_at_mark(CompileError, "T.cast takes the value first"):

        @T.prim_func
        def swapped(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                A[0] = T.cast("float16", A[1])  # <- error

    with error_at_mark(CompileError, r"policy='FullRow' is none of T.GemmWarpPolicy.Square, T.GemmWarpPolicy.FullRow, "):

        @T.prim_func
        def policy_by_name(A: T.Tensor((64, 64), "float16")):
            with T.Kernel(1, threads=128):
                a = T.alloc_shared((64, 64), "float16")
                c = T.alloc_fragment((64, 64), "float32")
                T.gemm(a, a, c, policy="FullRow")  # <- error


@T.prim_func
def plain(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            B[i] = A[i]


def factory(M):
    @T.prim_func
    def main(A: T.Tensor((M,), "float32")):
        with T.Kernel(1):
            A[0] = 1

    return main


@tilelang.jit(target="cpu")
def eager(A):
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    B = T.empty((N,), "float32")
    with T.Kernel(1, threads=32):
        for i in T.Parallel(N):
            B[i] = A[i] + 1
    return B


@tilelang.jit(target="cpu")
def number(A):
    A: T.Tensor((8,), "float32")
    with T.Kernel(1):
        A[0] = 1
    return 3


@tilelang.jit(target="cpu")
def without_kernel(A):
    n = T.const("n")
    A: T.Tensor((n,), "float32")
    return T.empty((n,), "float32")


@T.prim_func
def no_statements(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
    pass


@T.prim_func
def unknown_symbol(A: T.Tensor((8,), "float32")):
    with T.Kernel(1):
        A[0] = T.call_extern("float32", "no_such_function", A[1])


@pytest.mark.parametrize(
    "mistake, kind, message",
    [
        (lambda a: plain(a, a), CompileError, "plain is a program, which is compiled before it is called"),
        (lambda a: tilelang.jit(factory)(a), CompileError, "factory makes kernels from compile-time values"),
        (lambda a: eager([1.0]), CompileError, r"A is declared a tensor, and the call gives list"),
        (number, CompileError, "a program returns tensors of T.empty, not int 3"),
        (without_kernel, CompileError, r"(?s)without_kernel computes nothing: its call would return \w+ as .*test_errors.py:\d"),
        (lambda a: tilelang.compile(no_statements, out_idx=-1), CompileError, "no_statements computes nothing: .* return B as"),
        (lambda a: tilelang.compile(no_statements, out_idx=-1, target="interpret"), CompileError, "computes nothing"),
        (lambda a: tilelang.compile(plain, out_idx="B"), CompileError, "out_idx takes positions of parameters, got 'B'"),
        (lambda a: tilelang.compile(plain, out_idx=1.5), CompileError, "out_idx takes positions of parameters, got 1.5"),
        (lambda a: tilelang.compile(unknown_symbol, target="cpu"), ExecutionError, "nothing defines no_such_function"),
        (lambda a: tilelang.compile(unknown_symbol, target="c"), ExecutionError, "nothing defines no_such_function"),
        (lambda a: tilelang.compile(unknown_symbol, target="cpu", execution_backend="ctypes"), ExecutionError, "nothing defines"),
        (lambda a: tilelang.compile(plain, outidx=1), TypeError, "'outidx'; did you mean 'out_idx'"),
        (lambda a: tilelang.jit(outidx=1), TypeError, "'outidx'; did you mean 'out_idx'"),
        (lambda a: tilelang.autotune(configs=[], warmupp=1), TypeError, "'warmupp'; did you mean 'warmup'"),
        (lambda a: tilelang.do_bench(eager, warmupp=1), TypeError, "'warmupp'; did you mean 'warmup'"),
        (lambda a: tilelang.compile(plain, target={"kind": "cuda", "archh": "sm_80"}), CompileError, "field of a target 'archh'"),
        (lambda a: tilelang.compile(plain, target="hip"), CompileError, "kernels are compiled for CPUs and CUDA: 'hip'"),
        (lambda a: tilelang.compile(plain, target="cuda -archh=sm_80"), CompileError, "field of a target 'archh'"),
    ],
)
def test_mistakes_around_a_kernel(mistake, kind, message):
    with pytest.raises(kind, match=message) as caught:
        mistake(torch.zeros(8))
    assert len(str(caught.value).splitlines()) < 6


def test_a_program_without_statements_may_return_what_has_no_elements():
    assert without_kernel(torch.empty(0)).shape == (0,)
    assert tilelang.compile(no_statements, target="cpu")(torch.ones(8), torch.ones(8)) is None


def test_an_eager_function_takes_arrays_of_other_libraries():
    assert eager(np.ones(8, dtype=np.float32)).tolist() == [2.0] * 8


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
