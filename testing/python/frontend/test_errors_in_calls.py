"""Mistaken calls of the language's functions: operands, keywords, types, and the place of a call."""

from pathlib import Path

import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import (
    CompileError,
    CopyShapeError,
    DtypeError,
    GemmDtypeError,
    GemmShapeError,
    ReduceShapeError,
    TraceError,
)

from .support import error_at_mark


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


def test_an_index_beside_a_slice():
    remedy = r"\(1, 1, 16\) and the destination is \(8, 16\)(.|\n)*hint: an index beside .*; axis 1 of A needs x : x \+ 8"
    with error_at_mark(CopyShapeError, remedy):

        @T.prim_func
        def main(A: T.Tensor((4, 64, 64), "float32")):
            with T.Kernel(4) as bx:
                a = T.alloc_shared((8, 16), "float32")
                T.copy(A[bx, bx * 8, 0:16], a)  # <- error


def test_reduce_shape():
    with error_at_mark(ReduceShapeError, r"dim=1(\n.*)*hint: the destination has the shape \(8,\)"):

        @T.prim_func
        def main(A: T.Tensor((8, 16), "float32")):
            with T.Kernel(1):
                a = T.alloc_fragment((8, 16), "float32")
                b = T.alloc_fragment((16,), "float32")
                T.reduce_sum(a, b, dim=1)  # <- error


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


def test_unknown_dtype():
    with error_at_mark(CompileError, "unknown dtype 'floot16'") as caught:

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                a = T.alloc_shared((8,), "floot16")  # <- error
                T.copy(A, a)

    assert "did you mean 'float16'?" in str(caught.value)


@pytest.mark.parametrize("name, meant", [("fp32", "float32"), ("f16", "float16"), ("bf16", "bfloat16"), ("u8", "uint8")])
def test_dtype_by_its_name_in_other_languages(name, meant):
    with pytest.raises(DtypeError) as caught:
        T.Tensor((8,), name)
    assert f"did you mean {meant!r}" in str(caught.value)


def test_a_second_size_in_the_place_of_the_dtype():
    with error_at_mark(CompileError, "unknown dtype '64'") as caught:

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                T.alloc_shared(64, 64, "float32")  # <- error

    assert "the sizes of a shape are one argument, as in (m, n)" in str(caught.value)


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


def test_any_number_of_arguments():
    with error_at_mark(CompileError, "main takes any number of arguments as B, and a program declares each"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32"), *B: T.int32):  # <- error
            pass

    with error_at_mark(CompileError, "main takes any number of arguments as B"):

        @T.prim_func  # <- error
        def main(A: T.Tensor((8,), "float32"), *B):
            pass

    def later(B: int) -> None:  # is no line of the program above
        pass


def test_a_scalar_argument_named_like_a_size():
    n = T.dynamic("n")
    with error_at_mark(CompileError, "n is a scalar argument, and also a dynamic size of A"):

        @T.prim_func
        def main(
            A: T.Tensor((n, 4), "float32"),
            n: T.int32,  # <- error
        ):
            pass


def test_missing_annotation():
    with pytest.raises(CompileError, match="parameter B of main has no annotation"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32"), B):
            pass


@pytest.mark.parametrize("name", ["alloc_shared", "alloc_fragment", "alloc_local"])
def test_shape_and_dtype_in_the_wrong_order(name):
    with error_at_mark(match=rf'write T.{name}\(\(64, 64\), "float16"\)'):

        @T.prim_func
        def main(A: T.Tensor((8,), "int32")):
            with T.Kernel(1, threads=32):
                getattr(T, name)("float16", (64, 64))  # <- error


@T.prim_func
def plain(A: T.Tensor((64,), "float32")):
    with T.Kernel(1):
        A[0] = 1


@tilelang.jit(target="cpu")
def doubled(A):
    A: T.Tensor((64,), "float32")
    with T.Kernel(1):
        A[0] = A[0] * 2


@T.macro
def _calls_a_kernel():
    tilelang.compile(plain, target="interpret")(T.alloc_local((64,), "float32"))


@T.macro
def _calls_an_eager_function():
    doubled(T.alloc_local((64,), "float32"))


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


@T.macro
def _an_axis_that_is_no_integer():
    a, b = _tiles((64, 64), (64, 1))
    T.reduce_sum(a, b, dim=1.0)


@T.macro
def _an_axis_that_is_not_known():
    for (a,), axis in ((_tiles((64, 64)), T.get_block_binding()),):
        T.cumsum(a, dim=axis)


@T.macro
def _an_unknown_memory():
    T.alloc_shared((64,), "float32", scope="shard")


@T.macro
def _another_memory():
    T.alloc_var("float32", scope="shared")


@pytest.mark.parametrize(
    "mistake, message",
    [
        (_leaves_a_parallel_loop, "break in T.Parallel"),
        (_leaves_a_parallel_loop_by_name, "break in T.Parallel"),
        (_bits_of_floats, "T.reduce_bitand takes integers"),
        (_multiplies_into_its_operand, "T.gemm: C is A itself"),
        (_an_axis_that_is_no_integer, "T.reduce_sum: dim=1.0 is no compile-time integer"),
        (_an_axis_that_is_not_known, "T.cumsum: dim=.* is no compile-time integer"),
        (_an_unknown_memory, "T.alloc_shared: scope='shard' is none of 'shared.dyn', 'shared', 'local.fragment', 'local'"),
        (_another_memory, "T.alloc_var: scope='shared' is none of 'local.var', 'local'"),
        (_calls_a_kernel, "plain is a kernel, which programs cannot call"),
        (_calls_an_eager_function, "doubled is a kernel, which programs cannot call"),
    ],
)
def test_mistakes_that_have_no_meaning_are_errors_at_their_lines(mistake, message):
    with pytest.raises(CompileError, match=f"(?s){message}.*{Path(__file__).name}"):

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


@pytest.mark.parametrize(("name", "perform"), [
    ("T.atomic_max", lambda A, row, sums: T.atomic_max(A[0, :], row)),
    ("T.reduce_sum", lambda A, row, sums: T.reduce_sum(row, sums)),
    ("T.cumsum", lambda A, row, sums: T.cumsum(row, row)),
])  # fmt: skip
def test_a_tile_operator_in_a_parallel_loop_has_the_name_that_the_program_calls(name, perform):
    with pytest.raises(CompileError, match=f"{name} inside T.Parallel: its iterations are shared out"):

        @T.prim_func
        def main(A: T.Tensor((8, 8), "float32")):
            with T.Kernel(1):
                row, sums = T.alloc_fragment((8,), "float32"), T.alloc_fragment((1,), "float32")
                for _ in T.Parallel(8):
                    perform(A, row, sums)


@pytest.mark.parametrize("mistaken", ["num_stage", "stages"])
def test_a_mistaken_keyword_offers_the_near_one(mistaken):
    with error_at_mark(TraceError, rf"unexpected keyword argument '{mistaken}'(?s:.*)did you mean 'num_stages'"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                for i in T.Pipelined(3, **{mistaken: 2}):  # <- error
                    A[i] = 1


def test_a_name_whose_error_says_what_to_use_has_no_other_hint():
    with error_at_mark(TraceError, r"no 'atomic_cas': the atomic operations are T.atomic_add(?!(?s:.*)did you mean)"):

        @T.prim_func
        def main(A: T.Tensor((8,), "int32")):
            with T.Kernel(1):
                T.atomic_cas(A[0], 0, 1)  # <- error


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
