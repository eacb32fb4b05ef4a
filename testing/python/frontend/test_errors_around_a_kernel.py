"""Mistakes outside of a kernel's body: compiling, calling, options, what a program returns."""

from pathlib import Path

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import (
    CompileError,
    ExecutionError,
)


@T.prim_func
def plain(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            B[i] = A[i]


def interpreted(target):
    with tilelang.interpret():
        tilelang.compile(plain, target=target)


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
def argument(A):
    A: T.Tensor((8,), "float32")
    with T.Kernel(1):
        A[0] = 1
    return A


@tilelang.jit(target="cpu")
def undeclared(A, B):
    A: T.Tensor((8,), "float32")
    with T.Kernel(1):
        A[0] = B[0]


@T.prim_func
def scalar(A: T.Tensor((8,), "float32"), n: T.int32):
    with T.Kernel(1):
        A[0] = n


@T.prim_func
def padded(A: T.Tensor((4, 4), "float32"), B: T.StridedTensor((4, 4), (8, 1), "float32")):
    with T.Kernel(1):
        T.copy(A, B)


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
        (lambda a: eager[(4,)](a), CompileError, "eager is called without a grid in brackets"),
        (lambda a: T.constexpr, AttributeError, "no 'constexpr': arguments of the function under @tilelang.jit"),
        (lambda a: eager([1.0]), CompileError, r"A is declared a tensor, and the call gives list"),
        (lambda a: eager(None), CompileError, r"A is declared a tensor, and the call gives None"),
        (lambda a: undeclared(a, a), CompileError, r"argument B is used, but not declared above"),
        (number, CompileError, "a program returns tensors of T.empty, not int 3"),
        (argument, CompileError, r"returns a tensor that is not from T.empty\n(.*\n)+.*return A\n"),
        (
            without_kernel,
            CompileError,
            rf"(?s)without_kernel computes nothing: its call would return \w+ as .*{Path(__file__).name}:\d",
        ),
        (lambda a: tilelang.compile(no_statements, out_idx=-1), CompileError, "no_statements computes nothing: .* return B as"),
        (lambda a: tilelang.compile(no_statements, out_idx=-1, target="interpret"), CompileError, "computes nothing"),
        (lambda a: tilelang.compile(plain, out_idx="B"), CompileError, "out_idx takes positions of parameters, got 'B'"),
        (lambda a: tilelang.compile(plain, out_idx=1.5), CompileError, "out_idx takes positions of parameters, got 1.5"),
        (lambda a: tilelang.compile(scalar, out_idx=1), CompileError, "out_idx=1 names n, which is no tensor"),
        (
            lambda a: tilelang.compile(padded, out_idx=1),
            CompileError,
            "out_idx=1 names B, a T.StridedTensor whose elements do not",
        ),
        (lambda a: tilelang.compile(unknown_symbol, target="cpu"), ExecutionError, "nothing defines no_such_function"),
        (lambda a: tilelang.compile(unknown_symbol, target="c"), ExecutionError, "nothing defines no_such_function"),
        (lambda a: tilelang.compile(unknown_symbol, target="cpu", execution_backend="ctypes"), ExecutionError, "nothing defines"),
        (lambda a: tilelang.compile(plain, outidx=1), TypeError, "'outidx'[;.] [dD]id you mean 'out_idx'"),
        (lambda a: tilelang.jit(outidx=1), TypeError, "'outidx'[;.] [dD]id you mean 'out_idx'"),
        (lambda a: tilelang.autotune(configs=[], warmupp=1), TypeError, "'warmupp'[;.] [dD]id you mean 'warmup'"),
        (lambda a: tilelang.do_bench(eager, warmupp=1), TypeError, "'warmupp'[;.] [dD]id you mean 'warmup'"),
        (lambda a: tilelang.compile(plain, target={"kind": "cuda", "archh": "sm_80"}), CompileError, "field of a target 'archh'"),
        (lambda a: interpreted(target="cdua"), CompileError, "unknown target 'cdua'"),
        (
            lambda a: tilelang.jit(factory).par_compile([8]),
            CompileError,
            "takes a tuple or dict of arguments for each kernel, got 8",
        ),
        (lambda a: tilelang.compile(plain, pass_configs={"tl.disable_tma_lower": "no"}), CompileError, "is a switch, got 'no'"),
        (lambda a: tilelang.compile(plain).get_profiler("Normal"), CompileError, "'Normal' is none of tilelang.TensorSupplyType"),
        (lambda a: tilelang.TensorSupplyType.Normale, AttributeError, "no Normale; did you mean 'Normal'"),
        (lambda a: tilelang.option.cach_dir("x"), AttributeError, "no cach_dir; did you mean 'cache_dir'"),
        (lambda a: tilelang.do_bench(eager, rep=-1), ValueError, "warmup=25 and rep=-1 are milliseconds"),
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


def test_an_eager_function_allocates_a_tensor_of_the_shape_of_another():
    @tilelang.jit(target="interpret")
    def like(A):
        A: T.Tensor((3, 4), "float32")
        B = T.empty(A.shape, "float16")
        with T.Kernel(1):
            T.copy(A, B)
        return B

    assert torch.equal(like(torch.ones(3, 4)), torch.ones(3, 4).half())


def test_an_eager_function_takes_arrays_of_other_libraries():
    assert eager(np.ones(8, dtype=np.float32)).tolist() == [2.0] * 8
