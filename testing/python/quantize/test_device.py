"""Packed weights in the order that the CUDA functions decode, and those functions on the simulator."""

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import quantize

WORDS = 4


def decoding(source, storage, count, dtype, extra=()):
    """A kernel whose threads decode ``count`` elements each; ``extra`` are the dtypes of scales and zero points."""
    zeros = (*extra, "float16", "float16")[1]

    @tilelang.jit(out_idx=[-1], target={"kind": "cuda", "arch": "sm_80"})
    def factory(size_in):
        @T.prim_func
        def main(
            A: T.Tensor((WORDS * size_in,), storage),
            S: T.Tensor((1,), "float16"),
            Z: T.Tensor((1,), zeros),
            B: T.Tensor((WORDS * count,), dtype),
        ):
            with T.Kernel(1, threads=WORDS):
                T.import_source(source["c_source"])
                packed, numbers = T.alloc_local((size_in,), storage), T.alloc_local((count,), dtype)
                tx = T.get_thread_binding()
                for v in T.serial(size_in):
                    packed[v] = A[tx * size_in + v]
                constants = (T.address_of(S[0]), T.address_of(Z[0]))[: len(extra)]
                T.call_extern("handle", source["func_name"], T.address_of(packed[0]), T.address_of(numbers[0]), *constants)
                for v in T.serial(count):
                    B[tx * count + v] = numbers[v]

        return main

    return factory


@pytest.mark.parametrize(
    ("bits", "dtype", "form", "extra", "mode"),
    [
        (4, "float16", "uint", (), ""),
        (4, "float16", "int", (), ""),
        (2, "float16", "int", (), ""),
        (1, "float16", "uint", (), ""),
        (4, "int8", "int", (), ""),
        (2, "int8", "uint", (), ""),
        (1, "int8", "uint", (), ""),
        (4, "float16", "int", ("float16",), ""),
        (4, "float16", "uint", ("float16", "float16"), "original"),
        (4, "float16", "uint", ("float16", "float16"), "rescale"),
        (4, "float16", "uint", ("float16", "int16"), "quantized"),
    ],
)
def test_decoded_weights(bits, dtype, form, extra, mode):
    torch.manual_seed(0)
    count = 8 if dtype == "float16" else 16
    low = 1 << bits - 1 if form == "int" else 0
    numbers = torch.randint(0, 1 << bits, (1, WORDS * count))
    packed = quantize.general_compress(numbers.to(torch.int8), bits)
    order = (
        quantize.interleave_weight(packed, bits, dtype)
        if count * bits >= 32
        else part_words(packed, bits, dtype, count * bits // 8)
    )
    source = quantize.get_lop3_intrin_group(
        dtype, form, bits, with_scaling=bool(extra), with_zeros=bool(mode), zeros_mode=mode or "original"
    )
    assert source["func_name"].startswith(f"decode_i{bits}{form[0] if form == 'uint' else 's'}_to_")
    scale, zero = torch.tensor([0.25]).half(), torch.tensor([3]).to(getattr(torch, (*extra, "float16", "float16")[1]))
    with tilelang.simulator():
        found = decoding(source, "int8", count, dtype, extra)(count * bits // 8)(order.flatten(), scale, zero)
    expected = numbers.flatten().float() - low
    factor = 0.25 if extra else 1.0
    expected = {"": expected * factor, "rescale": expected * factor - 3}.get(mode, (expected - 3) * factor)
    assert torch.equal(found.float(), expected)


def part_words(packed, bits, dtype, size):
    """Weights of which a call decodes ``size`` bytes, less than a word: what a word of those and zeros begins with."""
    padded = torch.zeros(packed.numel() // size, 4, dtype=torch.int8)
    padded[:, :size] = packed.view(-1, size)
    return quantize.interleave_weight(padded, bits, dtype)[:, :size].contiguous()


def twiddled(numbers):
    """Four bytes of each eight float4 numbers, in the order of bits that the function decodes."""
    words = torch.zeros(numbers.numel() // 8, dtype=torch.int64)
    for element, number in enumerate(numbers.view(-1, 8).T.long()):
        # sign, exponent and mantissa of the first four numbers are in the upper half of the word
        spread = (number >> 3) << 15 | (number & 7) << 6
        shift = 0 if element < 4 else -16
        field = element % 4
        if field < 3:
            part = spread << 16 >> 3 * field
        else:
            part = (spread & 0x8000) << 16 >> 1 | (spread & 0x180) << 16 << 3 | (spread & 0x40) << 16 << 7
        words |= part >> -shift
    return torch.stack([words >> shift & 255 for shift in (24, 16, 8, 0)], 1).to(torch.uint8).flatten()


def test_decoded_float4():
    torch.manual_seed(0)
    numbers = torch.randint(0, 16, (WORDS * 8,))
    source = quantize.get_mxfp_intrin_group("bfloat16", "uint", 4, "uint8", use_twiddling=True)
    call = f"{source['func_name']}(packed, numbers, 1);"
    source["c_source"] += "template <typename A, typename B> __device__ void one_word(A *packed, B *numbers) {" + call + "}\n"
    source["func_name"] = "one_word"
    with tilelang.simulator():
        found = decoding(source, "uint8", 8, "bfloat16")(4)(twiddled(numbers), torch.zeros(1).half(), torch.zeros(1).half())
    exponent, mantissa = numbers >> 1 & 3, numbers & 1
    magnitude = torch.where(exponent > 0, (1 + mantissa / 2) * 2.0 ** (exponent - 1), mantissa / 2)
    assert torch.equal(found.float(), torch.where(numbers >= 8, -magnitude, magnitude))


def test_quantised_weights():
    torch.manual_seed(0)
    weights, linear, scales, integers = quantize.gen_quant4(16, 8, groupsize=4)
    assert scales.shape == (4, 8) and integers.abs().max() <= 8
    assert torch.equal(linear.weight.data.t(), (integers.half() * scales.repeat_interleave(4, 0)))
    assert torch.allclose(linear.weight.data.t(), weights, atol=float(scales.max()) / 2 + 1e-3)


def test_unsupported_formats_are_refused():
    with pytest.raises(ValueError, match="no function decodes int1 in int8"):
        quantize.get_lop3_intrin_group("float16", "int", 1)
    with pytest.raises(ValueError, match=r"int4 in int8 \(local\) to float16 with scaling = True, zeros = original"):
        quantize.get_lop3_intrin_group("float16", "int", 4, with_scaling=True, with_zeros=True)
    with pytest.raises(ValueError, match="with use_twiddling=True"):
        quantize.get_mxfp_intrin_group()
    with pytest.raises(ValueError, match="not 3 for float16"):
        quantize.interleave_weight(torch.zeros(1, 4, dtype=torch.int8), 3)
