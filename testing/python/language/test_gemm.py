"""``T.gemm`` against torch: transposes, memory of the operands, types, accumulation, ragged sizes."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tilelang.language as T
from tilelang.errors import GemmDtypeError, GemmShapeError, OptionError

from .support import name_of, random, run

SCOPES = {"shared": T.alloc_shared, "fragment": T.alloc_fragment}


def product(
    M, N, K, dtype, accumulator, transpose_A=False, transpose_B=False, scope_a="shared", scope_b="shared", scope_c="fragment"
):
    """C = A @ B in one tile."""
    a_shape = (K, M) if transpose_A else (M, K)
    b_shape = (N, K) if transpose_B else (K, N)

    @T.prim_func
    def main(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((M, N), accumulator)):
        with T.Kernel(1, threads=128):
            a = SCOPES[scope_a](a_shape, dtype)
            b = SCOPES[scope_b](b_shape, dtype)
            c = SCOPES[scope_c]((M, N), accumulator)
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c, transpose_A=transpose_A, transpose_B=transpose_B)
            T.copy(c, C)

    return main


def operands(M, N, K, dtype, transpose_A=False, transpose_B=False):
    a = random((K, M) if transpose_A else (M, K), dtype, 1)
    b = random((N, K) if transpose_B else (K, N), dtype, 2)
    left, right = (a.T if transpose_A else a), (b.T if transpose_B else b)
    return a, b, left.double() @ right.double()


@pytest.mark.parametrize("transpose_A,transpose_B", list(itertools.product([False, True], repeat=2)))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int8], ids=name_of)
def test_transposes(dtype, transpose_A, transpose_B):
    accumulator = "int32" if dtype == torch.int8 else "float32"
    a, b, expected = operands(32, 48, 40, dtype, transpose_A, transpose_B)
    c = run(product(32, 48, 40, name_of(dtype), accumulator, transpose_A, transpose_B), a, b, out_idx=-1)
    torch.testing.assert_close(c.double(), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("scopes", list(itertools.product(SCOPES, repeat=3)), ids="-".join)
def test_memory_of_the_operands(scopes):
    a, b, expected = operands(32, 32, 32, torch.float16)
    c = run(product(32, 32, 32, "float16", "float32", False, True, *scopes), a, b.T.contiguous(), out_idx=-1)
    torch.testing.assert_close(c.double(), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    "dtype,accumulator",
    [
        (torch.float64, "float64"),
        (torch.float32, "float32"),
        (torch.float16, "float16"),
        (torch.bfloat16, "float32"),
        (torch.float8_e4m3fn, "float32"),
        (torch.float8_e5m2, "float32"),
        (torch.int8, "int32"),
        (torch.uint8, "int32"),
        (torch.int32, "int32"),
    ],
    ids=lambda value: value if isinstance(value, str) else name_of(value),
)
def test_types(dtype, accumulator):
    a, b, expected = operands(16, 32, 64, dtype)
    c = run(product(16, 32, 64, name_of(dtype), accumulator), a, b, out_idx=-1)
    tolerance = 2e-1 if accumulator == "float16" else 1e-4
    torch.testing.assert_close(c.double(), expected, rtol=1e-2 if accumulator == "float16" else 1e-5, atol=tolerance)


def test_mixed_float8_formats():
    @T.prim_func
    def main(A: T.Tensor((16, 32), "float8_e4m3"), B: T.Tensor((32, 16), "float8_e5m2"), C: T.Tensor((16, 16), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((16, 32), "float8_e4m3"), T.alloc_shared((32, 16), "float8_e5m2")
            c = T.alloc_fragment((16, 16), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C)

    a, b = random((16, 32), torch.float8_e4m3fn), random((32, 16), torch.float8_e5m2)
    torch.testing.assert_close(run(main, a, b, out_idx=-1), a.float() @ b.float(), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("clear", ["no", "yes", "first"])
def test_accumulation(clear):
    @T.prim_func
    def main(A: T.Tensor((16, 64), "float32"), B: T.Tensor((64, 16), "float32"), C: T.Tensor((16, 16), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((16, 16), "float32"), T.alloc_shared((16, 16), "float32")
            c = T.alloc_fragment((16, 16), "float32")
            T.fill(c, 5.0)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 16], a)
                T.copy(B[k * 16, 0], b)
                T.gemm(a, b, c, clear_accum={"no": False, "yes": True, "first": k == 0}[clear])
            T.copy(c, C)

    a, b = random((16, 64), torch.float32, 1), random((64, 16), torch.float32, 2)
    expected = {"no": a @ b + 5, "yes": a[:, 48:] @ b[48:], "first": a @ b}[clear]
    torch.testing.assert_close(run(main, a, b, out_idx=-1), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.property
@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 90), st.integers(1, 90), st.integers(1, 90), st.sampled_from([8, 16, 24, 48]), st.sampled_from([16, 32, 40]),
    st.booleans(),
)  # fmt: skip
def test_any_size(M, N, K, block, block_K, transpose_B):
    b_shape = (N, K) if transpose_B else (K, N)

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor(b_shape, "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
            a = T.alloc_shared((block, block_K), "float16")
            b = T.alloc_shared((block, block_K) if transpose_B else (block_K, block), "float16")
            c = T.alloc_fragment((block, block), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block, k * block_K], a)
                if transpose_B:
                    T.copy(B[bx * block, k * block_K], b)
                else:
                    T.copy(B[k * block_K, bx * block], b)
                T.gemm(a, b, c, transpose_B=transpose_B)
            T.copy(c, C[by * block, bx * block])

    a, b, expected = operands(M, N, K, torch.float16, False, transpose_B)
    torch.testing.assert_close(run(main, a, b, out_idx=-1).double(), expected, rtol=1e-4, atol=1e-3)


def test_regions_of_larger_tiles():
    @T.prim_func
    def main(A: T.Tensor((2, 16, 32), "float32"), B: T.Tensor((32, 32), "float32"), C: T.Tensor((16, 32), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((2, 16, 32), "float32")
            b = T.alloc_shared((32, 32), "float32")
            c = T.alloc_fragment((16, 32), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            for i in T.serial(2):
                T.gemm(a[i, :, 0:16], b[0:16, :], c)
            T.copy(c, C)

    a, b = random((2, 16, 32), torch.float32, 1), random((32, 32), torch.float32, 2)
    expected = (a[0] + a[1])[:, :16] @ b[:16]
    torch.testing.assert_close(run(main, a, b, out_idx=-1), expected, rtol=1e-4, atol=1e-4)


def test_reports_the_operand_that_does_not_fit():
    with pytest.raises(GemmShapeError, match=r"A is \(32, 32\), expected \(32, 64\)"):
        product_of((32, 32), (64, 32), (32, 64))


@pytest.mark.parametrize(
    "a_shape,b_shape,flags",
    [
        ((32, 16), (64, 16), "transpose_B=True"),
        ((16, 32), (16, 64), "transpose_A=True"),
        ((16, 32), (64, 16), "transpose_A=True and transpose_B=True"),
    ],
)
def test_names_the_flag_that_is_missing(a_shape, b_shape, flags):
    with pytest.raises(GemmShapeError, match=f"the shapes fit with {flags}$"):
        product_of(a_shape, b_shape, (32, 64))


def test_reports_types_that_do_not_go_together():
    with pytest.raises(GemmDtypeError, match="A is float16, B is float16, C is int32"):
        product_of((16, 16), (16, 16), (16, 16), "int32")


def product_of(a_shape, b_shape, c_shape, accumulator="float32"):
    @T.prim_func
    def main(A: T.Tensor(a_shape, "float16")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared(a_shape, "float16"), T.alloc_shared(b_shape, "float16")
            T.gemm(a, b, T.alloc_fragment(c_shape, accumulator))


def sparse(dense: torch.Tensor):
    """The two largest of every four elements of a row, and where they stood (two bits each, packed in uint16)."""
    M, K = dense.shape
    groups = dense.view(M, K // 4, 4)
    position = groups.abs().topk(2, dim=2).indices.sort(dim=2).values
    kept = groups.gather(2, position)
    bits = (position[..., 0] | position[..., 1] << 2).view(M, K // 16, 4)
    metadata = sum(bits[..., i] << (4 * i) for i in range(4))
    pruned = torch.zeros_like(groups).scatter_(2, position, kept).view(M, K)
    return kept.reshape(M, K // 2).contiguous(), metadata.to(torch.int32).to(torch.uint16), pruned


@pytest.mark.parametrize("k_pack", [2, np.int64(2), 0, 3, True, 2.0])
def test_k_pack_is_one_or_two_of_any_type_of_integers(k_pack):
    def declare():
        @T.prim_func
        def main(A: T.Tensor((16, 16), "float16"), C: T.Tensor((16, 16), "float16")):
            with T.Kernel(1, threads=32):
                a, c = T.alloc_shared((16, 16), "float16"), T.alloc_fragment((16, 16), "float16")
                T.copy(A, a)
                T.gemm(a, a, c, clear_accum=True, k_pack=k_pack)
                T.copy(c, C)

        return main

    if k_pack == 2 and not isinstance(k_pack, float):
        assert declare()
    else:
        with pytest.raises(OptionError, match="k_pack must be an int equal to 1 or 2"):
            declare()


def test_sparse_product():
    @T.prim_func
    def main(
        A: T.Tensor((32, 32), "float16"), E: T.Tensor((32, 4), "uint16"), B: T.Tensor((64, 32), "float16"),
        C: T.Tensor((32, 32), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            a, e = T.alloc_shared((32, 32), "float16"), T.alloc_shared((32, 4), "uint16")
            b, c = T.alloc_shared((64, 32), "float16"), T.alloc_fragment((32, 32), "float32")
            T.copy(A, a)
            T.copy(E, e)
            T.copy(B, b)
            T.clear(c)
            T.gemm_sp(a, e, b, c)
            T.copy(c, C)

    kept, metadata, pruned = sparse(random((32, 64), torch.float16, 1))
    b = random((64, 32), torch.float16, 2)
    c = run(main, kept, metadata, b, out_idx=-1)
    torch.testing.assert_close(c, pruned.float() @ b.float(), rtol=1e-4, atol=1e-3)
