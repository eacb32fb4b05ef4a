"""Products of integers are exact modulo 2**32, whatever the instruction that forms them: full range, ragged and odd shapes."""

import pytest
import torch

import tilelang.language as T
from tilelang.target.info import parse_target

from .support import build, on_both


def product(m, n, k, dtype, transpose_a, transpose_b, dtype_b=None):
    dtype_b = dtype_b or dtype

    @T.prim_func
    def main(
        A: T.Tensor((k, m) if transpose_a else (m, k), dtype),
        B: T.Tensor((n, k) if transpose_b else (k, n), dtype_b),
        C: T.Tensor((m, n), "int32"),
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared(A.shape, dtype), T.alloc_shared(B.shape, dtype_b)
            c = T.alloc_fragment((m, n), "int32")
            T.copy(A, a)
            T.copy(B, b)
            T.copy(C, c)
            T.gemm(a, b, c, transpose_A=transpose_a, transpose_B=transpose_b)
            T.copy(c, C)

    return main


def operand(generator, dtype, *size):
    """Values over the whole range, many of them at its ends."""
    info = torch.iinfo(getattr(torch, dtype))
    values = torch.randint(info.min, info.max + 1, size, generator=generator)
    ends = torch.rand(size, generator=generator) < 0.3
    return torch.where(ends, torch.full(size, info.min if info.min else info.max), values)


@on_both
@pytest.mark.parametrize("shape", [(32, 64, 64), (7, 19, 10), (5, 33, 9), (9, 23, 76)], ids=str)
@pytest.mark.parametrize(
    "dtypes",
    [("int8", "int8"), ("uint8", "uint8"), ("int8", "uint8"), ("uint8", "int8"), ("int16", "int16"), ("uint16", "uint16")],
    ids="-".join,
)
def test_exact(dtypes, shape, target):
    m, n, k = shape
    transpose_a, transpose_b = dtypes[0].startswith("u"), k == 64
    generator = torch.Generator().manual_seed(0)
    a, b = operand(generator, dtypes[0], m, k), operand(generator, dtypes[1], k, n)
    c = torch.randint(-(2**31), 2**31, (m, n), generator=generator)
    want = ((c + a @ b + 2**31) % 2**32 - 2**31).to(torch.int32)
    stored = c.to(torch.int32)
    left, right = (a.T if transpose_a else a).contiguous(), (b.T if transpose_b else b).contiguous()
    left, right = left.to(getattr(torch, dtypes[0])), right.to(getattr(torch, dtypes[1]))
    build(product(m, n, k, dtypes[0], transpose_a, transpose_b, dtypes[1]), target)(left, right, stored)
    assert torch.equal(stored, want)


def test_the_instruction_of_a_product_follows_from_the_targets_features():
    """Pairs and fours are chosen from the target's features, not from the machine that compiles."""
    from tilelang.target.cpu.context import CpuContext, VectorUnit
    from tilelang.target.cpu.dot import choose_dot_product

    def depth(unit, a, b, k=64):
        return choose_dot_product(a, b, "int32", k, CpuContext(None, "main", unit)).depth

    with_it, without = VectorUnit(512, 32, int_dot=True), VectorUnit(512, 32)
    assert depth(with_it, "int8", "int8") == depth(with_it, "uint8", "int8") == depth(with_it, "int4", "uint8", 4) == 4
    assert depth(with_it, "int4", "int16") == depth(with_it, "int8", "int8", 62) == 2
    assert depth(without, "int8", "int8") == depth(with_it, "uint16", "int16") == depth(with_it, "int8", "int8", 63) == 1


def test_the_dot_product_is_used_where_the_target_has_it():
    features = parse_target("cpu").features
    if "avx512vnni" not in features:
        pytest.skip("no AVX512-VNNI here")
    registers = {"kind": "cpu", "features": [feature for feature in features if not feature.startswith("amx")]}
    assert "vpdpbusd" in build(product(32, 64, 64, "int8", False, False), registers).get_kernel_source()
    assert "vpdpwssd" in build(product(32, 64, 64, "int16", False, False), registers).get_kernel_source()
