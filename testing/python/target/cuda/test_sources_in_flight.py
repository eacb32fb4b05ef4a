"""What an asynchronous operation reads is not written before the operation has read it, in straight code and around loops."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.definition import check_meaning

LOOPS = {
    "serial": lambda: T.serial(3),
    "unrolled": lambda: T.unroll(3),
    "pipelined": lambda: T.Pipelined(3, num_stages=2),
}
A = torch.randint(-2, 3, (64, 64)).half()


def test_a_tensor_that_copies_read_is_written_again_in_an_unrolled_loop():
    @T.prim_func
    def main(A: T.Tensor((4, 1), "float32"), B: T.Tensor((1, 2, 1), "float32")):
        with T.Kernel(1, threads=32) as bx:
            f = T.alloc_fragment((4, 1), "float32")
            T.copy(A, f)
            s = T.alloc_shared((2, 1), "float32")
            T.fill(s, 0)
            for _ in T.unroll(3):
                T.copy(f[0:2, :], B[bx, 0, 0])
                T.copy(B[bx, 0, 0], s)

    check_meaning(main, torch.ones(4, 1), torch.zeros(1, 2, 1))


@T.macro
def there_and_back(f, B, s):
    T.copy(f, B)
    T.copy(B, s)
    for i, j in T.Parallel(64, 64):
        f[i, j] = f[i, j] + 1


@pytest.mark.parametrize("loop", [*LOOPS, "while"])
def test_a_tensor_that_copies_read_is_written_in_the_next_round(loop):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            f, s, n = T.alloc_fragment((64, 64), "float16"), T.alloc_shared((64, 64), "float16"), T.alloc_var("int32", init=0)
            T.copy(A, f)
            if loop == "while":
                while n < 3:
                    n += 1
                    there_and_back(f, B, s)
            else:
                for _ in LOOPS[loop]():
                    there_and_back(f, B, s)
            T.copy(s, f)
            for i, j in T.Parallel(64, 64):
                B[i, j] = f[i, j] * 2

    check_meaning(main, A, torch.zeros(64, 64).half())


def test_a_tensor_is_written_after_the_pipeline_that_read_it():
    @T.prim_func
    def main(A: T.Tensor((256, 64), "float16"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            s, c = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=3):
                T.copy(A[k * 64, 0], s)
                T.gemm(s, s, c)
            T.copy(c, B)
            for i, j in T.Parallel(256, 64):
                A[i, j] = A[i, j] + 1

    check_meaning(main, torch.randint(-2, 3, (256, 64)).half(), torch.zeros(64, 64))


@pytest.mark.parametrize("loop", [*LOOPS, "while"])
def test_a_tile_is_changed_after_the_store_that_reads_it(loop):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((192, 64), "float16")):
        with T.Kernel(1, threads=128):
            s, n = T.alloc_shared((64, 64), "float16"), T.alloc_var("int32", init=0)
            T.copy(A, s)
            if loop == "while":
                while n < 3:
                    T.copy(s, B[n * 64, 0])
                    n += 1
                    for i, j in T.Parallel(64, 64):
                        s[i, j] = s[i, j] + 1
            else:
                for k in LOOPS[loop]():
                    T.copy(s, B[k * 64, 0])
                    for i, j in T.Parallel(64, 64):
                        s[i, j] = s[i, j] + 1

    check_meaning(main, A, torch.zeros(192, 64).half())


@T.macro
def products(tile, s, b, c):
    T.copy(tile, s)
    T.gemm(s, b, c)
    for i, j in T.Parallel(64, 64):
        s[i, j] = s[i, j] + 1
    T.gemm(s, b, c)
    for i, j in T.Parallel(64, 64):
        b[i, j] = 1 - b[i, j]


@pytest.mark.parametrize("loop", [*LOOPS, "while"])
def test_operands_are_changed_after_the_products_that_read_them(loop):
    @T.prim_func
    def main(A: T.Tensor((192, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            s, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c, n = T.alloc_fragment((64, 64), "float32"), T.alloc_var("int32", init=0)
            T.clear(c)
            T.copy(B, b)
            if loop == "while":
                while n < 3:
                    products(A[n * 64 : n * 64 + 64, :], s, b, c)
                    n += 1
            else:
                for k in LOOPS[loop]():
                    products(A[k * 64 : k * 64 + 64, :], s, b, c)
            T.copy(c, C)

    check_meaning(main, torch.randint(-2, 3, (192, 64)).half(), A, torch.zeros(64, 64))


def test_the_programs_own_wait_completes_the_reads_of_its_copies():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((64, 64), "float16")
            T.copy(A, s)
            for _ in T.serial(3):
                T.copy(s, B)
                T.async_copy(B, s)
                T.ptx_commit_group()
                T.ptx_wait_group(0)
                for i, j in T.Parallel(64, 64):
                    B[i, j] = s[i, j] + 1

    check_meaning(main, A, torch.zeros(64, 64).half())
