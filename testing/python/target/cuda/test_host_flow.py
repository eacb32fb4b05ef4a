"""Control flow around kernels: the host launches what the CPU target would run."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import CompileError
from tilelang.execution import supported

SM80, SM90 = {"kind": "cuda", "arch": "sm_80"}, {"kind": "cuda", "arch": "sm_90a"}


def alike(program, *args, backend="auto", target=SM80):
    """Calls ``program`` on the interpreter and on the simulator; tensors must end up the same."""
    results = []
    for where, using in (("interpret", "auto"), (target, backend)):
        given = [arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args]
        kernel = tilelang.compile(program, target=where, execution_backend=using)
        with tilelang.simulator():
            kernel(*given)
        results.append([arg for arg in given if isinstance(arg, torch.Tensor)])
    for want, got in zip(*results):
        torch.testing.assert_close(got, want)
    return kernel, results[1]


@T.prim_func
def steps(A: T.Tensor((64,), "int32"), s: T.int32, u: T.bool):
    with T.Kernel(1, threads=64):
        for j in T.Parallel(64):
            A[j] = 1
    for i in T.serial(2, s + 2):
        m = s // 2
        if m > 3 and u:
            with T.Kernel(m, threads=64) as bx:
                for j in T.Parallel(64):
                    if bx == m - 1:
                        A[j] = A[j] * 2 + i
            with T.Kernel(1, threads=64):
                for j in T.Parallel(64):
                    A[j] = A[j] + m
        else:
            with T.Kernel(1, threads=64):
                for j in T.Parallel(64):
                    A[j] = A[j] + i * 100
    with T.Kernel(1, threads=64):
        for j in T.Parallel(64):
            A[j] = A[j] - 3


@pytest.mark.parametrize("backend", supported("cuda"))
@pytest.mark.parametrize(("s", "u"), [(3, True), (9, True), (9, False), (0, True)])
def test_loops_and_branches_over_arguments(backend, s, u):
    kernel, _ = alike(steps, torch.zeros(64, dtype=torch.int32), s, u, backend=backend)
    assert len(kernel.artifact.launches) == 5  # each kernel once, however often it is launched


def test_nested_loops_have_variables_of_their_own():
    n = T.dynamic("n")

    @T.prim_func
    def program(A: T.Tensor((n,), "int32")):
        for i in T.serial(n // 2):
            for k in T.serial(i + 1):
                with T.Kernel(k + 1, threads=32) as n_blocks:
                    A[n_blocks] = A[n_blocks] + i * k + n
        for i in T.serial(n):
            with T.Kernel(1, threads=32):
                A[i] = A[i] * 2

    alike(program, torch.arange(7, dtype=torch.int32))


def test_a_long_loop_of_a_known_length_launches_one_kernel():
    @T.prim_func
    def program(A: T.Tensor((100,), "int32")):
        for i in T.serial(100):
            with T.Kernel(1, threads=32):
                A[i] = i

    kernel, (a,) = alike(program, torch.zeros(100, dtype=torch.int32))
    assert len(kernel.artifact.launches) == 1 and a.tolist() == list(range(100))


@pytest.mark.parametrize("target", [SM80, SM90], ids=["sm_80", "sm_90a"])
@pytest.mark.parametrize("alpha", [0.0, 0.1, 2.0])
def test_a_condition_over_a_float_is_evaluated_by_the_kernel(target, alpha):
    @T.prim_func
    def program(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32"), alpha: T.float32):
        if alpha == T.float32(0.1):
            with T.Kernel(1, threads=128):
                shared = T.alloc_shared((64, 64), "float16")
                total = T.alloc_fragment((64, 64), "float32")
                T.clear(total)
                for _ in T.Pipelined(2, num_stages=2):
                    T.copy(A, shared)
                    T.gemm(shared, shared, total, transpose_B=True)
                T.copy(total, C)
        elif alpha > 1:
            with T.Kernel(1, threads=128):
                T.fill(C, 7)

    alike(program, torch.randn(64, 64).half(), torch.zeros(64, 64), alpha, target=target)


@pytest.mark.parametrize("flag", [0, 1])
def test_a_condition_over_a_tensor_is_evaluated_by_the_kernel(flag):
    @T.prim_func
    def program(F: T.Tensor((1,), "int32"), A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32")):
        if F[0] > 0:
            with T.Kernel(1, threads=32):
                T.copy(A, B)
            with T.Kernel(1, threads=32):
                T.fill(A, 5)
        else:
            with T.Kernel(1, threads=32):
                T.fill(A, 6)

    alike(
        program, torch.tensor([flag], dtype=torch.int32), torch.arange(32, dtype=torch.int32), torch.zeros(32, dtype=torch.int32)
    )


def test_a_condition_that_its_kernels_change_is_refused():
    @T.prim_func
    def program(A: T.Tensor((32,), "int32")):
        if A[0] > 0:
            with T.Kernel(1, threads=32):
                T.fill(A, 0)
        else:
            with T.Kernel(1, threads=32):
                T.fill(A, 1)

    with pytest.raises(CompileError, match="a condition around kernels reads A, which they write"):
        tilelang.compile(program, target=SM80)


def test_a_value_is_not_read_after_it_changed():
    @T.prim_func
    def late(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        x = A[0]
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                A[i] = A[i] + 5
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                B[i] = A[i] * 100 + x

    @T.prim_func
    def repeated(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32"), s: T.int32):
        x = A[0]
        for _ in T.serial(s):
            with T.Kernel(1, threads=64):
                for i in T.Parallel(64):
                    B[i] = B[i] + x
            with T.Kernel(1, threads=64):
                T.fill(A, 3)

    @T.prim_func
    def in_time(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                A[i] = A[i] + 5
        x = A[0]
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                B[i] = A[i] * 100 + x

    for program in (late, repeated):
        with pytest.raises(CompileError, match="x reads A before kernels that write it"):
            tilelang.compile(program, target=SM80)
    alike(in_time, torch.arange(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int32))


def test_launches_cannot_depend_on_tensor_contents():
    @T.prim_func
    def counted(A: T.Tensor((32,), "int32")):
        for _ in T.serial(A[0]):
            with T.Kernel(1, threads=32):
                T.fill(A, 0)

    @T.prim_func
    def awaited(A: T.Tensor((32,), "int32")):
        while A[0] > 0:
            with T.Kernel(1, threads=32):
                T.fill(A, 0)

    with pytest.raises(CompileError, match=r"how often kernels are launched is not known before they run: A\[0\]"):
        tilelang.compile(counted, target=SM80)
    with pytest.raises(CompileError, match="a `while` loop outside of a kernel is for the CPU"):
        tilelang.compile(awaited, target=SM80)
