"""``T.gemm_sp``: the tensor cores read the kept elements and their metadata as they are; what they cannot read is expanded."""

from __future__ import annotations

import re

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import simulate, source

TYPES = {
    "float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32, "int8": torch.int8, "uint8": torch.uint8,
    "float8_e4m3fn": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2, "int16": torch.int16, "int32": torch.int32,
}  # fmt: skip


def _turned(transposed, pair):
    return pair[::-1] if transposed else pair


def _program(m, n, k, tile, dtype, accumulate, bits, *, ta=False, tb=True, threads=128, stages=2, fragment=False, shared=False):
    bm, bn, bk = tile
    factor = bits // 4 * (2 if dtype == "float32" else 4)

    @T.prim_func
    def main(
        A: T.Tensor(_turned(ta, (m, k // 2)), dtype),
        E: T.Tensor(_turned(ta, (m, k // factor)), f"int{bits}"),
        B: T.Tensor(_turned(tb, (k, n)), dtype),
        C: T.Tensor((m, n), accumulate),
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (bx, by):
            A_shared = T.alloc_shared(_turned(ta, (bm, bk // 2)), dtype)
            E_shared = T.alloc_shared(_turned(ta, (bm, bk // factor)), f"int{bits}")
            B_shared = T.alloc_shared(_turned(tb, (bk, bn)), dtype)
            A_local = T.alloc_fragment(_turned(ta, (bm, bk // 2)), dtype)
            C_local = (T.alloc_shared if shared else T.alloc_fragment)((bm, bn), accumulate)
            T.clear(C_local)
            for ko in T.Pipelined(T.ceildiv(k, bk), num_stages=stages):
                if ta:
                    T.copy(A[ko * bk // 2, by * bm], A_shared)
                    T.copy(E[ko * bk // factor, by * bm], E_shared)
                else:
                    T.copy(A[by * bm, ko * bk // 2], A_shared)
                    T.copy(E[by * bm, ko * bk // factor], E_shared)
                if tb:
                    T.copy(B[bx * bn, ko * bk], B_shared)
                else:
                    T.copy(B[ko * bk, bx * bn], B_shared)
                if fragment:
                    T.copy(A_shared, A_local)
                left = A_local if fragment else A_shared
                T.gemm_sp(left, E_shared, B_shared, C_local, transpose_A=ta, transpose_E=ta, transpose_B=tb)
            T.copy(C_local, C[by * bm, bx * bn])

    return main


def _compressed(m, k, dtype, bits):
    """A dense matrix with half of each group zero, what is kept of it, and the metadata."""
    size = 2 if dtype == "float32" else 4
    values = torch.randint(0 if dtype == "uint8" else -7, 8, (m, k // size, size)).float()
    position = torch.rand(m, k // size, size).topk(size // 2, dim=2).indices.sort(dim=2).values
    kept = values.gather(2, position)
    dense = torch.zeros_like(values).scatter_(2, position, kept).reshape(m, k)
    code = torch.where(position[..., 0] == 0, 0x4, 0xE) if size == 2 else position[..., 0] | position[..., 1] << 2
    per = bits // 4
    word = sum(code.reshape(m, -1, per)[..., at] << (4 * at) for at in range(per))
    word = torch.where(word >= 1 << (bits - 1), word - (1 << bits), word)
    return dense, kept.reshape(m, k // 2).to(TYPES[dtype]), word.to(getattr(torch, f"int{bits}"))


def _check(arch, m, n, k, tile, dtype, accumulate, bits, instruction, **options):
    torch.manual_seed(m + n + k)
    ta, tb = options.get("ta", False), options.get("tb", True)
    dense, kept, metadata = _compressed(m, k, dtype, bits)
    b = torch.randint(0 if dtype == "uint8" else -3, 4, (k, n)).to(TYPES[dtype])
    program = _program(m, n, k, tile, dtype, accumulate, bits, **options)
    arguments = [_oriented(t, x) for t, x in ((ta, kept), (ta, metadata), (tb, b))]
    expected = (dense.double() @ b.double()).to(TYPES[accumulate])
    for arch_name in ("cpu", arch):
        c = torch.zeros(m, n, dtype=TYPES[accumulate])
        if arch_name == "cpu":
            tilelang.compile(program, target="cpu")(*arguments, c)
        else:
            simulate(program, *arguments, c, arch=arch)
        torch.testing.assert_close(c, expected, rtol=0, atol=0)
    assert set(re.findall(r"tl::(\w*mma_m\w+|mma_sp_\w+)", source(program, arch=arch))) == set(instruction.split())


def _oriented(transposed, tensor):
    return tensor.t().contiguous() if transposed else tensor


@pytest.mark.parametrize("arch", ("sm_80", "sm_90a"))
@pytest.mark.parametrize(
    "dtype, accumulate, bits, ta, tb, instruction",
    [
        ("float16", "float32", 16, False, False, "mma_sp_m16n8k32_f32_f16"),
        ("float16", "float16", 8, True, False, "mma_sp_m16n8k32_f16_f16"),
        ("bfloat16", "float32", 32, False, True, "mma_sp_m16n8k32_f32_bf16"),
        ("int8", "int32", 32, False, True, "mma_sp_m16n8k64_s32_s8"),
        ("int8", "int32", 16, True, False, "mma_sp_m16n8k64_s32_s8"),
        ("uint8", "int32", 8, False, True, "mma_sp_m16n8k64_s32_u8"),
        ("float32", "float32", 16, False, True, "mma_sp_m16n8k16_f32_tf32"),
        ("float32", "float32", 32, True, False, "mma_sp_m16n8k16_f32_tf32"),
    ],
)
def test_types_and_orders(arch, dtype, accumulate, bits, ta, tb, instruction):
    _check(arch, 64, 64, 128, (32, 64, 64), dtype, accumulate, bits, instruction, ta=ta, tb=tb)


@pytest.mark.parametrize("arch, instruction", [("sm_80", "mma_m16n8k16_f32_f16"), ("sm_89", "mma_sp_m16n8k64_f32_e4m3")])
def test_float8(arch, instruction):
    _check(arch, 64, 64, 128, (64, 64, 64), "float8_e4m3fn", "float32", 32, instruction)


def test_sizes_that_no_tile_divides():
    """Metadata beyond the tensor's edge is zero, which is no valid code: such groups keep their first elements."""
    _check("sm_80", 50, 20, 96, (64, 32, 64), "float16", "float32", 16, "mma_sp_m16n8k32_f32_f16", stages=3)


def test_kept_elements_in_registers():
    _check("sm_80", 64, 64, 128, (64, 64, 64), "float16", "float32", 16, "mma_sp_m16n8k32_f32_f16", fragment=True)


def test_a_result_in_shared_memory():
    _check("sm_80", 64, 32, 128, (64, 32, 64), "float16", "float32", 16, "mma_sp_m16n8k32_f32_f16", shared=True, stages=0)


def test_tiles_that_are_no_multiple_of_the_instruction_are_expanded():
    _check("sm_80", 40, 24, 64, (20, 12, 32), "float16", "float32", 16, "", threads=64)


def test_metadata_of_another_shape_is_refused():
    with pytest.raises(tilelang.errors.GemmShapeError, match="E is"):

        @T.prim_func
        def main(C: T.Tensor((64, 64), "float32")):
            with T.Kernel(1, threads=128):
                A_shared = T.alloc_shared((64, 32), "float16")
                E_shared = T.alloc_shared((64, 8), "int16")
                B_shared = T.alloc_shared((64, 64), "float16")
                C_local = T.alloc_fragment((64, 64), "float32")
                T.gemm_sp(A_shared, E_shared, B_shared, C_local)
                T.copy(C_local, C)


def test_the_form_for_warp_groups_is_complete_at_its_end(monkeypatch):
    sizes = (64, 64, 64, (64, 64, 64), "float16", "float32", 16)
    expected = source(_program(*sizes), "sm_90a")
    monkeypatch.setattr(T, "gemm_sp", T.wgmma_gemm_sp)
    assert source(_program(*sizes), "sm_90a") == expected


def test_one_tile_as_both_operands():
    """The order that suits A's elements XORs by rows of sixteen, and the loads of B step by eight rows."""

    @T.prim_func
    def main(A: T.Tensor((32, 64), "int8"), E: T.Tensor((64, 8), "int8"), C: T.Tensor((64, 32), "int32")):
        with T.Kernel(1, threads=32):
            A_shared = T.alloc_shared((32, 64), "int8")
            E_shared = T.alloc_shared((64, 8), "int8")
            C_local = T.alloc_fragment((64, 32), "int32")
            T.clear(C_local)
            T.copy(A, A_shared)
            T.copy(E, E_shared)
            T.gemm_sp(A_shared, E_shared, A_shared, C_local, transpose_A=True, transpose_B=True)
            T.copy(C_local, C)

    torch.manual_seed(0)
    _, _, metadata = _compressed(64, 64, "int8", 8)
    a = torch.randint(-7, 8, (32, 64), dtype=torch.int8)
    c = torch.zeros(64, 32, dtype=torch.int32)
    simulate(main, a, metadata, c)
    place = torch.stack([metadata.int() & 3, metadata.int() >> 2 & 3, metadata.int() >> 4 & 3, metadata.int() >> 6 & 3], 2)
    columns = (place.reshape(64, 16, 2) + 4 * torch.arange(16)[None, :, None]).reshape(64, 32).long()
    dense = torch.zeros(64, 64).scatter_(1, columns, a.T.float())
    torch.testing.assert_close(c, (dense @ a.T.float()).int(), rtol=0, atol=0)
