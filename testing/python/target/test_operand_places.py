"""Operands of tile operators whose place, or value, is an element of a fragment."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.definition import check_meaning


@T.macro
def product(f, a, b, c):
    T.gemm(a, b[f[0, 0] % 2, :, :], c, clear_accum=True)


@T.macro
def both_operands(f, a, b, c):
    T.gemm(b[f[0, 0] % 2, :, :], b[f[1, 0] % 2, :, :], c)


@T.macro
def in_a_loop(f, a, b, c):
    for k in T.serial(2):
        T.gemm(a, b[f[k, 0] % 2, :, :], c)


@T.macro
def in_a_while(f, a, b, c):
    n = T.alloc_var("int32", init=0)
    while n < 2:
        T.gemm(a, b[f[n, 0] % 2, :, :], c)
        n += 1


@T.macro
def sums(f, a, b, c):
    T.reduce_sum(b[f[0, 1] % 2, :, :], c[f[0, 0], :], dim=1)


@T.macro
def filled(f, a, b, c):
    T.fill(c, f[1, 1])


@pytest.mark.parametrize("body", [product, both_operands, in_a_loop, in_a_while, sums, filled], ids=lambda body: body.__name__)
def test_an_invalid_element_of_a_fragment_is_reported_with_its_location(body):
    @T.prim_func
    def main(
        A: T.Tensor((2, 2), "int32"), B: T.Tensor((16, 16), "float16"), D: T.Tensor((2, 16, 16), "float16"),
        C: T.Tensor((16, 16), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=32):
            f, c = T.alloc_fragment((2, 2), "int32"), T.alloc_fragment((16, 16), "float32")
            a, b = T.alloc_shared((16, 16), "float16"), T.alloc_shared((2, 16, 16), "float16")
            T.copy(A, f)
            T.copy(B, a)
            T.copy(D, b)
            T.clear(c)
            body(f, a, b, c)
            T.copy(c, C)

    places = torch.tensor([[1, 2], [4, 3]], dtype=torch.int32)
    check_meaning(
        main, places, torch.randint(-2, 3, (16, 16)).half(), torch.randint(-2, 3, (2, 16, 16)).half(), torch.zeros(16, 16)
    )
