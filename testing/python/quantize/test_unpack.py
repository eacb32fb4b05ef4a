"""Elements of few bits inside of kernels: packed by torch, unpacked by expressions on a CPU."""

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import quantize
from tilelang.errors import CompileError


def unpacked(storage, dtype, count, element):
    """A kernel of one row: the elements ``element(byte, position)`` of ``count`` bytes of ``storage``."""

    @tilelang.jit(out_idx=[-1], target="c")
    def factory(each):
        @T.prim_func
        def main(A: T.Tensor((count,), storage), B: T.Tensor((count * each,), dtype)):
            with T.Kernel(1) as _:
                for i in T.Parallel(count * each):
                    B[i] = element(A[i // each], i % each)

        return main

    return factory


BYTES = torch.arange(256).to(torch.uint8)


def fields(bits):
    return torch.stack([BYTES.int() >> shift & ((1 << bits) - 1) for shift in range(0, 8, bits)], 1).flatten()


@pytest.mark.parametrize("bits", [1, 2, 4])
@pytest.mark.parametrize(
    ("convert", "expected"),
    [
        (quantize._tir_packed_to_unsigned_convert, lambda value, bits: value),
        (quantize._tir_packed_to_signed_convert, lambda value, bits: value - (1 << bits - 1)),
        (quantize._tir_packed_int_to_int_convert, lambda value, bits: value - (value >> bits - 1 << bits)),
    ],
)
@pytest.mark.parametrize("storage", ["uint8", "int8"])
def test_integers(convert, expected, bits, storage):
    function = convert(storage.rstrip("8"), 8)
    kernel = unpacked(storage, "float16", 256, lambda byte, position: function(bits, byte, position, dtype="float16"))(8 // bits)
    assert torch.equal(kernel(BYTES.view(getattr(torch, storage))), expected(fields(bits), bits).half())


def test_zero_points():
    function = quantize._tir_packed_to_unsigned_convert_with_zeros("uint", 8)
    kernel = unpacked("uint8", "float16", 256, lambda byte, position: function(4, byte, position, T.uint8(9), "float16"))(2)
    assert torch.equal(kernel(BYTES), (fields(4) - 9).half())


def test_floats():
    exponents = quantize._tir_packed_to_fp4_to_f16("uint", 8)
    kernel = unpacked("uint8", "float16", 256, lambda byte, position: exponents(4, byte, position, "float16"))(2)
    bits = fields(4)
    magnitude = torch.where(bits % 8 == 0, 0.0, 2.0 ** (bits % 8 - 7))
    assert torch.equal(kernel(BYTES), torch.where(bits >= 8, -magnitude, magnitude).half())

    kernel = unpacked("uint8", "float16", 256, lambda byte, position: quantize._tir_u8_to_f8_e4m3_to_f16(8, byte, "float16"))(1)
    assert torch.equal(kernel(BYTES).nan_to_num(1000), BYTES.view(torch.float8_e4m3fn).half().nan_to_num(1000))

    scaled = quantize._tir_u8_to_f4_to_bf16
    kernel = unpacked("uint8", "bfloat16", 256, lambda byte, position: scaled(4, byte, position, T.uint8(3), "bfloat16"))(2)
    magnitude = (1 + bits % 2 / 2) * 2.0 ** ((bits >> 1) % 4 - 1 + 3)
    assert torch.equal(kernel(BYTES), torch.where(bits >= 8, -magnitude, magnitude).bfloat16())


def test_mistakes_are_named():
    function = quantize._tir_packed_to_unsigned_convert("int", 32)
    with pytest.raises(CompileError, match="the packed value's dtype is uint8, and int32 is needed"):
        unpacked("uint8", "float16", 8, lambda byte, position: function(4, byte, position, "float16"))(2)
    with pytest.raises(CompileError, match="the converted dtype is float32, and bfloat16 is needed"):
        unpacked("uint8", "float32", 8, lambda byte, position: quantize._tir_u8_to_f4_to_bf16(4, byte, position, 0, "float32"))(2)
