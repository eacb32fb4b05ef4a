"""Sparse matrices and their compressed form, as ``T.gemm_sp`` takes it."""

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import cuda
from tilelang.errors import OperandError, ShapeError
from tilelang.utils.sparse import arange_semi_sparse, compress, get_e_factor, randint_semi_sparse, randn_semi_sparse

M, N, K = 64, 32, 64


def product(dtype: str, meta: str, accumulator: str):
    factor = get_e_factor(dtype, meta)

    @T.prim_func
    def main(
        A: T.Tensor((M, K // 2), dtype),
        E: T.Tensor((M, K // factor), meta),
        B: T.Tensor((K, N), dtype),
        C: T.Tensor((M, N), accumulator),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, K // 2), dtype)
            e = T.alloc_shared((M, K // factor), meta)
            b = T.alloc_shared((K, N), dtype)
            c = T.alloc_fragment((M, N), accumulator)
            T.copy(A, a)
            T.copy(E, e)
            T.copy(B, b)
            T.gemm_sp(a, e, b, c, clear_accum=True)
            T.copy(c, C)

    return main


@pytest.mark.parametrize("target", ["interpret", "sm_80", "sm_90a"])
@pytest.mark.parametrize("dtype, meta", [("float16", "int16"), ("bfloat16", "uint8"), ("float32", "int16"), ("int8", "int32")])
def test_what_is_compressed_is_what_gemm_sp_multiplies(target, dtype, meta):
    accumulator = "int32" if dtype == "int8" else "float32"
    a = randint_semi_sparse(M, K, -4, 5, dtype=getattr(torch, dtype), device="cpu")
    b = torch.randint(-4, 5, (K, N)).to(a.dtype)
    kept, metadata = compress(a, getattr(torch, meta))
    c = torch.empty(M, N, dtype=getattr(torch, accumulator))
    kernel = tilelang.compile(product(dtype, meta, accumulator), target=target if target == "interpret" else cuda(target))
    with tilelang.simulator(strict=True):
        kernel(kept, metadata, b, c)
    assert torch.equal(c, (a.double() @ b.double()).to(c.dtype))


def test_half_of_each_group_is_zero():
    normal = randn_semi_sparse(16, 32, device="cpu")
    assert normal.dtype == torch.float16
    assert ((normal.view(16, 8, 4) != 0).sum(2) == 2).all()
    pairs = randn_semi_sparse(16, 32, dtype=torch.float32, device="cpu", transposed=True)
    assert pairs.shape == (32, 16)
    assert ((pairs.t().reshape(16, 16, 2) != 0).sum(2) == 1).all()
    numbers = arange_semi_sparse(4, 8, device="cpu")
    assert set(numbers[numbers != 0].tolist()) <= set(range(32))


def test_bytes_are_compressed_too():
    a = randn_semi_sparse(16, 64, dtype=torch.float8_e4m3fn, device="cpu")
    kept, metadata = compress(a)
    assert kept.dtype == a.dtype
    assert metadata.shape == (16, 64 // get_e_factor(a.dtype, "int16"))
    assert torch.equal(kept.float().sum(1), a.float().sum(1))


def test_mistakes():
    with pytest.raises(OperandError, match="at most 2 may differ from zero"):
        compress(torch.ones(16, 32, dtype=torch.float16))
    with pytest.raises(ShapeError, match="must be a multiple of 16 elements"):
        compress(torch.zeros(16, 40, dtype=torch.float16))
