"""Matrix instructions of a warp: ldmatrix and mma, on registers of every type."""

import pytest
import torch

import tilelang.language as T
from tilelang.errors import OptionError

from .support import run


def test_matrix_instructions_of_a_warp():
    @T.prim_func
    def main(A: T.Tensor((16, 16), "float16"), B: T.Tensor((8, 16), "float16"), C: T.Tensor((16, 8), "float32")):
        with T.Kernel(1, threads=32):
            lane = T.get_lane_idx()
            left, right = T.alloc_shared((16, 16), "float16"), T.alloc_shared((8, 16), "float16")
            a, b = T.alloc_local((8,), "float16"), T.alloc_local((4,), "float16")
            c = T.alloc_local((4,), "float32")
            T.copy(A, left)
            T.copy(B, right)
            T.clear(c)
            T.ptx_ldmatrix(0, 4, left[lane % 16, lane // 16 * 8], a[0])
            T.ptx_ldmatrix(0, 2, right[lane % 8, lane // 8 % 2 * 8], b[0])
            T.ptx_mma("float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32", a.data, 0, b.data, 0, c.data, 0, False)
            for i in T.serial(4):
                C[lane // 4 + i // 2 * 8, lane % 4 * 2 + i % 2] = c[i]

    a, b, c = torch.randn(16, 16).half(), torch.randn(8, 16).half(), torch.zeros(16, 8)
    run(main, a, b, c)
    torch.testing.assert_close(c, a.float() @ b.float().T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "dtype, shape, k, count", [("float16", "m16n8k16", 16, 2), ("int8", "m16n8k32", 32, 4), ("int4", "m16n8k64", 64, 8)]
)
def test_registers_of_a_matrix_instruction_hold_packed_elements(dtype, shape, k, count):
    """Arrays of ``uint32``, from memory that has ``count`` elements in each word, are the registers of an instruction."""
    total = "float32" if dtype == "float16" else "int32"

    @T.prim_func
    def main(A: T.Tensor((16, k // count), "uint32"), B: T.Tensor((8, k // count), "uint32"), C: T.Tensor((16, 8), total)):
        with T.Kernel(1, threads=32):
            lane = T.get_lane_idx()
            a, b, c = T.alloc_local((8,), "uint32"), T.alloc_local((2,), "uint32"), T.alloc_local((4,), "uint32")
            for i in T.serial(4):
                a[4 + i] = A[lane // 4 + i % 2 * 8, lane % 4 + i // 2 * 4]
                c[i] = 0
            for i in T.serial(2):
                b[i] = B[lane // 4, lane % 4 + i * 4]
            T.ptx_mma(total, shape, "row", "col", dtype, dtype, total, a.data, 4, b.data, 0, c.data, 0, False)
            for i in T.serial(4):
                C[lane // 4 + i // 2 * 8, lane % 4 * 2 + i % 2] = T.reinterpret(c[i], total)

    a, b = torch.randint(-8, 8, (16, k)), torch.randint(-8, 8, (8, k))
    if dtype == "int4":
        words = [(x[:, ::2] & 15 | (x[:, 1::2] & 15) << 4).to(torch.uint8) for x in (a, b)]
    else:
        words = [x.to(getattr(torch, dtype)) for x in (a, b)]
    c = torch.zeros(16, 8, dtype=getattr(torch, total))
    run(main, *(x.view(torch.uint32) for x in words), c)
    assert torch.equal(c.long(), a @ b.T)


@pytest.mark.parametrize("count", [0, 3, 8])
@pytest.mark.parametrize("function", [T.ptx_ldmatrix, T.ptx_stmatrix])
def test_another_number_of_matrices_is_refused(function, count):
    with pytest.raises(OptionError, match=f"moves 1, 2 or 4 matrices, not {count}"):

        @T.prim_func
        def main(A: T.Tensor((16, 16), "float16")):
            with T.Kernel(1, threads=32):
                tile, registers = T.alloc_shared((16, 16), "float16"), T.alloc_local((8,), "float16")
                function(0, count, tile[0, 0], registers[0])
