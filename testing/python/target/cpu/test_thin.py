"""Products of few rows: dot products along K, B read where it lies, widened, packed; every edge, with and without what C held."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T

from .support import build

SHAPES = ((1, 37, 50), (3, 70, 20))


def product(m, n, k, dtype, accumulator, transposed, clear, offset=0):
    """``C = A B`` or ``C += A B`` of parts of tensors that begin at an ``offset`` of columns."""
    rows, columns = (n, k + offset) if transposed else (k, n + offset)

    @T.prim_func
    def main(A: T.Tensor((m, k), dtype), B: T.Tensor((rows, columns), dtype), C: T.Tensor((m, n), accumulator)):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((m, k), dtype)
            b = T.alloc_shared((n, k) if transposed else (k, n), dtype)
            c = T.alloc_fragment((m, n), accumulator)
            T.copy(A, a)
            T.copy(B[0, offset], b)
            T.copy(C, c)
            T.gemm(a, b, c, transpose_B=transposed, clear_accum=clear)
            T.copy(c, C)

    return main


def check(program, m, n, k, dtype, accumulator, transposed, clear, offset=0):
    torch.manual_seed(m)
    low = 0 if dtype.startswith("u") else -3
    a = torch.randint(low, 4, (m, k)).to(getattr(torch, dtype))
    b = torch.randint(low, 4, (n, k + offset) if transposed else (k, n + offset)).to(getattr(torch, dtype))
    c = torch.randint(-3, 4, (m, n)).to(getattr(torch, accumulator))
    factor = b[:, offset:].T if transposed else b[:, offset:]
    want = a.double() @ factor.double() + (0 if clear else c.double())
    build(program)(a, b, c)
    assert torch.equal(c.double(), want), (m, n, k)


@pytest.mark.parametrize("transposed", [True, False], ids=["B transposed", "B"])
@pytest.mark.parametrize(
    "types",
    [("float32", "float32"), ("bfloat16", "float32"), ("float16", "float32"), ("int8", "int32"), ("uint8", "int32"),
     ("int16", "int32"), ("float64", "float64"), ("bfloat16", "bfloat16"), ("int32", "int32")],
    ids="-".join,
)  # fmt: skip
def test_exact(types, transposed):
    for clear, (m, n, k) in zip((True, False), SHAPES):
        check(product(m, n, k, *types, transposed, clear), m, n, k, *types, transposed, clear)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_part_of_a_tensor(dtype):
    """Rows that begin at an odd column, and at an even one, where pairs of elements are aligned."""
    for transposed, offset in ((True, 3), (True, 4), (False, 5)):
        arguments = (3, 40, 24, dtype, "float32", transposed, False, offset)
        check(product(*arguments), *arguments)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bfloat16"])
def test_both_operands_transposed(dtype):
    accumulator = "float32" if dtype == "bfloat16" else dtype

    @T.prim_func
    def main(A: T.Tensor((20, 3), dtype), B: T.Tensor((17, 20), dtype), C: T.Tensor((3, 17), accumulator)):
        with T.Kernel(1, threads=128):
            c = T.alloc_fragment((3, 17), accumulator)
            T.gemm(A, B, c, transpose_A=True, transpose_B=True, clear_accum=True)
            T.copy(c, C)

    a, b = (torch.randint(-3, 4, shape).to(getattr(torch, dtype)) for shape in ((20, 3), (17, 20)))
    assert torch.equal(build(main, out_idx=-1)(a, b).double(), a.double().T @ b.double().T)


@pytest.mark.parametrize("types", [("float32", "float32"), ("bfloat16", "float32"), ("int8", "int32"), ("bfloat16", "bfloat16")])
@pytest.mark.parametrize("clear", [True, False])
def test_rows_of_a_wide_b_are_taken_in_order(types, clear):
    arguments = (3, 1600, 70, *types, False, clear)
    check(product(*arguments), *arguments)


@pytest.mark.parametrize(
    "n, k, transposed, parts",
    [(2048, 256, False, 8), (2048, 32, False, 0), (64, 256, False, 0), (2048, 256, True, 0)],
    ids=["wide", "few rows of B", "one strip", "transposed"],
)
def test_parts_of_k(n, k, transposed, parts):
    """A B of rows that lie far apart is cut along K where it has several strips of columns."""
    text = build(product(1, n, k, "float32", "float32", transposed, True), "c").get_kernel_source()
    assert (f"kk < {parts};" in text) if parts else "kk" not in text


@pytest.mark.parametrize("m", [9, 16, 17])
def test_a_small_b_is_read_in_place(m):
    arguments = (m, 50, 30, "float32", "float32", False, False)
    program = product(*arguments)
    kernel = build(program, "c").get_kernel_source()
    assert "b_panel" not in kernel
    check(program, *arguments)
