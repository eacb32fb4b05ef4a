"""Reductions, shuffles and indices of threads in the spelling of TVM's scripts."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate
from tilelang.errors import CompileError


def _program(combine, identity, counts=lambda tx, ty: True):
    @T.prim_func
    def main(A: T.Tensor((4, 32), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=(4, 32)):
            tx = T.get_thread_binding(0)
            ty = T.thread_binding(32, "threadIdx.y")
            value, result = T.alloc_local((1,), "float32"), T.alloc_local((1,), "float32")
            value[0] = A[tx, ty]
            reducer = T.comm_reducer(combine, [T.cast(identity, "float32")])
            with T.attr(reducer, "reduce_scope", T.reinterpret(T.uint64(0), dtype="handle")):
                T.evaluate(T.tvm_thread_allreduce(T.uint32(1), value[0], counts(tx, ty), result[0], ty, dtype="handle"))
            B[tx] = result[0]

    return main


def test_threads_along_an_axis_are_combined():
    a, b = torch.randn(4, 32), torch.zeros(4)
    simulate(_program(lambda x, y: x + y, 0), a, b)
    torch.testing.assert_close(b, a.sum(1))


def test_only_some_threads_count():
    a, b = torch.randn(4, 32), torch.zeros(4)
    simulate(_program(lambda x, y: T.max(x, y), -1e30, counts=lambda tx, ty: ty > tx + 20), a, b)
    torch.testing.assert_close(b, torch.stack([a[i, i + 21 :].max() for i in range(4)]))


def test_shuffle_and_nested_parallel_loops():
    @T.prim_func
    def main(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32"), C: T.Tensor((4, 8), "int32")):
        with T.Kernel(1, threads=32):
            tx = T.thread_binding(0, 32, thread="threadIdx.x")
            value = T.alloc_local((1,), "int32")
            value[0] = A[tx]
            B[tx] = T.tvm_warp_shuffle(0xFFFFFFFF, value[0], (tx + 5) % 32, 32, 32)
            for i in T.parallel(4):
                for j in T.parallel(8):
                    C[i, j] = A[i * 8 + j] + 1

    a, b, c = torch.arange(32, dtype=torch.int32), torch.zeros(32, dtype=torch.int32), torch.zeros(4, 8, dtype=torch.int32)
    simulate(main, a, b, c)
    assert torch.equal(b, a.roll(-5)) and torch.equal(c, a.reshape(4, 8) + 1)


def test_a_reduction_without_its_scope_and_a_binding_of_another_length():
    with pytest.raises(CompileError, match="stands inside of T.attr"):

        @T.prim_func
        def main(A: T.Tensor((32,), "int32")):
            with T.Kernel(1, threads=32):
                T.tvm_thread_allreduce(1, A[0], True, A[1], T.get_thread_binding(0))

    with pytest.raises(CompileError, match="threadIdx.x has 32 values"):

        @T.prim_func
        def other(A: T.Tensor((32,), "int32")):
            with T.Kernel(1, threads=32):
                A[T.thread_binding(0, 64, thread="threadIdx.x")] = 0
