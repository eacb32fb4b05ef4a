"""Variables and arrays that branches for different threads use for values of their own."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.definition import check_meaning


def test_values_of_one_branch_say_nothing_of_those_in_another():
    """In the second the array holds the same for all threads, which a T.Parallel over a product's tile needs."""

    @T.prim_func
    def main(A: T.Tensor((64, 32), "float16"), B: T.Tensor((64, 32), "float16"), P: T.Tensor((2,), "int32"),
             C: T.Tensor((64, 64), "float32"), D: T.Tensor((32,), "int32")):  # fmt: skip
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            left, right = T.alloc_shared((64, 32), "float16"), T.alloc_shared((64, 32), "float16")
            place = T.alloc_local((2,), "int32")
            T.copy(A, left)
            T.copy(B, right)
            if tx < 32:
                place[0] = tx * 3
                place[1] = T.shfl_sync(place[0], 1)
                D[tx] = place[0] + place[1]
            with T.ws(1):
                product = T.alloc_fragment((64, 64), "float32")
                T.gemm(left, right, product, transpose_B=True, clear_accum=True)
                for i in T.unroll(2):
                    place[i] = P[i]
                if place[0] < 64:
                    for i, j in T.Parallel(64, 64):
                        product[i, j] = T.if_then_else(place[1] + i >= j, product[i, j], 0)
                T.copy(product, C)

    a, b = torch.randint(-3, 4, (64, 32)).half(), torch.randint(-3, 4, (64, 32)).half()
    tensors = a, b, torch.tensor([3, 5], dtype=torch.int32), torch.zeros(64, 64), torch.zeros(32, dtype=torch.int32)
    check_meaning(main, *tensors)


@T.macro
def later(v, tx, D):
    if tx < 32:
        v[0] = 5
    if tx < 16:
        D[tx] = v[0]


@T.macro
def iterations(v, tx, D):
    for k in T.serial(2):
        if tx < 16:
            if k > 0:
                D[tx] += v[0]
            v[0] = k + 3
        else:
            if k > 0:
                D[tx] += v[0]
            v[0] = k + 7


@T.macro
def some_store(v, tx, D):
    v[0] = tx
    if tx < 16:
        if D[tx] > 0:
            v[0] = 3
        D[tx] = v[0]
    else:
        v[0] = 4
        D[tx] = v[0]


@pytest.mark.parametrize("body", [later, iterations, some_store], ids=lambda body: body.__name__)
def test_values_that_outlast_a_branch(body):
    @T.prim_func
    def main(D: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            body(T.alloc_local((1,), "int32"), T.get_thread_binding(), D)

    check_meaning(main, torch.arange(32, dtype=torch.int32) % 2)
