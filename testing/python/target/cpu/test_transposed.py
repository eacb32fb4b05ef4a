"""Products with a transposed B, which is packed in blocks: whole blocks, the steps and columns that are left, and every width."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from tilelang.target.info import parse_target

from .support import build, on_both


def product(m, n, k, bk, dtype, accumulator, dtype_b=None):
    @T.prim_func
    def main(A: T.Tensor((m, k), dtype), B: T.Tensor((n, k), dtype_b or dtype), C: T.Tensor((m, n), accumulator)):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((m, bk), dtype), T.alloc_shared((n, bk), dtype_b or dtype)
            c = T.alloc_fragment((m, n), accumulator)
            T.clear(c)
            for step in T.serial(T.ceildiv(k, bk)):
                T.copy(A[0, step * bk], a)
                T.copy(B[0, step * bk], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C)

    return main


@on_both
@pytest.mark.parametrize("shape", [(9, 70, 176, 88), (4, 32, 64, 64), (3, 64, 100, 48)], ids=str)
@pytest.mark.parametrize(
    "types",
    [("float32", "float32"), ("bfloat16", "float32"), ("float16", "float32"), ("int8", "int32"), ("int8", "int32", "uint8"),
     ("uint8", "int32"), ("int16", "int32"), ("int32", "int32"), ("float64", "float64")],
    ids="-".join,
)  # fmt: skip
def test_exact(types, shape, target):
    m, n, k, bk = shape
    left, right = types[0], types[-1] if len(types) == 3 else types[0]
    a = torch.randint(0 if left.startswith("u") else -3, 4, (m, k)).to(getattr(torch, left))
    b = torch.randint(0 if right.startswith("u") else -3, 4, (n, k)).to(getattr(torch, right))
    c = torch.zeros(m, n, dtype=getattr(torch, types[1]))
    build(product(m, n, k, bk, *types), target)(a, b, c)
    assert torch.equal(c.double(), a.double() @ b.double().T)


def test_blocks_are_used_where_registers_hold_sixteen_words():
    if "avx512f" not in parse_target("cpu").features:
        pytest.skip("no AVX-512 here")
    for dtype in ("float32", "bfloat16"):
        assert "_mm512_unpacklo_epi32" in build(product(8, 32, 64, 64, dtype, "float32"), "c").get_kernel_source()
