"""CUDA functions that decode packed weights, for ``T.import_source`` and ``T.call_extern``."""

from __future__ import annotations

from typing import Any

from tilelang.dtypes import canonical
from tilelang.quantize.pack import STRIDES, places

_RESULTS = {
    # element type -> its name in the functions' names, how many elements they decode by default, and how many a store has
    "float16": ("f16", 8, 2),
    "int8": ("i8s", 16, 4),
}

_WORDS = {8: "unsigned char", 16: "unsigned short", 32: "unsigned int"}

_FINISH = {
    # what follows the subtraction of the offset, of two float16 numbers
    "": "",
    "_scale": "value = __hmul2(value, factor);",
    "_scale_zeros_original": "value = __hmul2(__hsub2(value, zero), factor);",
    "_scale_zeros_rescale": "value = __hfma2(value, factor, __hneg2(zero));",
    "_scale_zeros_quantized": "value = __hmul2(__hsub2(value, zero), factor);",
}

_DECODE = """\
#include <cuda_fp16.h>

template <{types}>
__device__ void {name}(const T1 *packed, T2 *out{parameters}, const int N = {count}) {{
{before}  #pragma unroll
  for (int first = 0; first < N; first += {each}) {{
    {word} word;
    memcpy(&word, packed + first * {bits} / (8 * sizeof(T1)), sizeof(word));
{stores}
  }}
}}
"""

# In a bfloat16 a float4_e2m1 has its sign in bit 15, its two exponent bits in bits 8 and 7 (the low end of the exponent) and its
# mantissa bit in bit 6 (the high end of the mantissa): mask 0x81c0. The bias of the exponent is 127 instead of 1, so the product
# with 2**126 (0x7e80) gives the number. That holds for 0.5, too, which is subnormal in both formats.
# Each half of a word has four numbers, at distances that bring three of them there by one shift and one mask; the fourth has the
# bits that they leave, 14, 13, 11 and 10. The bytes of a word are stored in the opposite order.
_MXFP = """\
#include <cuda_bf16.h>

template <typename T1, typename T2>
__device__ void decode_fp4_to_bf16_twiddling(const T1 *packed, T2 *out, const int N = 8) {
  const __nv_bfloat162 power = __halves2bfloat162(__ushort_as_bfloat16(0x7e80), __ushort_as_bfloat16(0x7e80));
  #pragma unroll
  for (int group = 0; group < N; ++group) {
    unsigned int word;
    memcpy(&word, packed + group * 4, sizeof(word));
    word = __byte_perm(word, 0, 0x0123);
    const unsigned int fields[4] = {
      word & 0x81c081c0u,
      (word << 3) & 0x81c081c0u,
      (word << 6) & 0x81c081c0u,
      ((word << 1) & 0x80008000u) | ((word >> 3) & 0x01800180u) | ((word >> 7) & 0x00400040u),
    };
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
      __nv_bfloat162 pair;
      memcpy(&pair, &fields[i], sizeof(pair));
      pair = __hmul2(pair, power);
      memcpy(out + group * 8 + i, &pair.y, sizeof(T2));
      memcpy(out + group * 8 + 4 + i, &pair.x, sizeof(T2));
    }
  }
}
"""


def get_lop3_intrin_group(
    out_dtype: Any,
    source_format: str = "uint",
    source_bit: int = 4,
    storage_dtype: Any = "int8",
    with_scaling: bool = False,
    with_zeros: bool = False,
    zeros_mode: str = "original",
    storage_scope: str = "local",
) -> dict[str, str]:
    """A CUDA function that decodes weights in the order of :func:`tilelang.quantize.interleave_weight`.

    It is called with the addresses of the packed weights and of the result, then of the scale and of the zero point where it
    takes them, and the number of elements: 8 of float16 and 16 of int8 if that is left out.

    Args:
        out_dtype: float16 or int8.
        source_format: ``"uint"`` or ``"int"``; the latter are stored with ``2**(source_bit - 1)`` added.
        source_bit: 1 (unsigned), 2 or 4.
        storage_dtype: of the packed weights: int8, uint8 or int32.
        with_scaling: the numbers are multiplied by a scale (float16 only).
        with_zeros: a zero point is subtracted (unsigned float16 with a scale only).
        zeros_mode: ``"original"`` before the scale, ``"rescale"`` after it, ``"quantized"`` before it, as int16.
        storage_scope: ``"local"``.

    Returns:
        Its name, ``func_name``, and its source, ``c_source``.

    Raises:
        ValueError: for what no function is there for.
    """
    target, signed = str(canonical(out_dtype)), str(source_format) == "int"
    suffix = ("_scale" if with_scaling else "") + (f"_zeros_{zeros_mode}" if with_zeros else "")
    known = target in STRIDES and str(source_format) in ("int", "uint") and source_bit in ((2, 4) if signed else (1, 2, 4))
    fits = suffix in _FINISH and (not suffix or target == "float16") and not (with_zeros and signed) and storage_scope == "local"
    if not known or not fits or canonical(storage_dtype) not in ("int8", "uint8", "int32", "uint32"):
        raise ValueError(
            f"get_lop3_intrin_group: no function decodes {source_format}{source_bit} in {storage_dtype} ({storage_scope})"
            f" to {target} with scaling = {with_scaling}, zeros = {zeros_mode if with_zeros else False}"
        )
    short, count, _ = _RESULTS[target]
    name = f"decode_i{source_bit}{'s' if signed else 'u'}_to_{short}{suffix}"
    return {"func_name": name, "c_source": _decode(name, target, source_bit, signed, suffix)}


def _decode(name: str, target: str, bits: int, signed: bool, suffix: str) -> str:
    """The source of a decoding function.

    Args:
        name: of the function.
        target: the element type that it decodes to.
        bits: of a packed element.
        signed: the numbers are stored with an offset.
        suffix: which scale and zero point it takes, a key of ``_FINISH``.

    Returns:
        The source.
    """
    _, count, together = _RESULTS[target]
    each = min(count, 32 // bits)
    offset = 1 << (bits - 1) if signed else 0
    shifts = places(bits, STRIDES[target])
    extra = [kind for kind in ("scale", "zeros") if kind in suffix]
    return _DECODE.format(
        types=", ".join(f"typename T{number + 1}" for number in range(2 + len(extra))),
        name=name,
        parameters="".join(f", const T{number + 3} *{kind}" for number, kind in enumerate(extra)),
        count=count,
        before=_operands(suffix),
        each=each,
        word=_WORDS[each * bits],
        bits=bits,
        stores="\n".join(_store(target, shifts, first, (1 << bits) - 1, offset, suffix) for first in range(0, each, together)),
    )


def _operands(suffix: str) -> str:
    """The declarations of the scale and the zero point, as pairs."""
    zero = "*reinterpret_cast<const short *>(zeros)" if "quantized" in suffix else "*zeros"
    lines = ["const __half2 factor = __half2half2(__half(*scale));"] if suffix else []
    lines += [f"const __half2 zero = __float2half2_rn(float({zero}));"] if "zeros" in suffix else []
    return "".join(f"  {line}\n" for line in lines)


def _store(target: str, shifts: list[int], first: int, mask: int, offset: int, suffix: str) -> str:
    """The statements that decode and store neighbouring elements.

    Args:
        target: the element type.
        shifts: where each element of a word is.
        first: the first of the neighbours.
        mask: of an element's bits.
        offset: what is subtracted.
        suffix: a key of ``_FINISH``.

    Returns:
        The statements.
    """
    stride, together = STRIDES[target], _RESULTS[target][2]
    fields = (f"((unsigned(word) >> {shifts[first + i]} & {mask}u) << {stride * i})" for i in range(together))
    gathered = " | ".join(fields)
    if target == "int8":
        # __vsub4 subtracts each byte by itself: a borrow must not reach the number above.
        lines = [f"unsigned int value = {gathered};", f"value = __vsub4(value, {offset * 0x01010101:#x}u);"]
    else:
        # 0x6400 is 1024 in float16, whose last ten bits count up from there
        lines = [
            f"const unsigned int raw = {gathered} | 0x64006400u;",
            "__half2 value;",
            "memcpy(&value, &raw, sizeof(value));",
            f"value = __hsub2(value, __float2half2_rn({1024 + offset}.0f));",
            _FINISH[suffix],
        ]
    body = " ".join(line for line in lines if line)
    return f"    {{ {body} memcpy(out + first + {first}, &value, sizeof(value)); }}"


def get_mxfp_intrin_group(
    out_dtype: Any = "bfloat16",
    source_format: str = "uint",
    source_bit: int = 4,
    storage_dtype: Any = "uint8",
    use_twiddling: bool = False,
    target: Any = None,
    with_scaling: bool = False,
    with_zeros: bool = False,
) -> dict[str, str]:
    """A CUDA function that decodes float4_e2m1 numbers whose bits are spread over words so that few instructions decode them.

    It is called with the addresses of the packed numbers and of the result, and how many words of four bytes (eight numbers) to
    decode.

    Args:
        out_dtype: bfloat16.
        source_format: ``"uint"`` or ``"int"``.
        source_bit: 4.
        storage_dtype: of the packed numbers: uint8, int8 or int32.
        use_twiddling: True.
        target: has no effect: the function is for CUDA.
        with_scaling, with_zeros: False.

    Returns:
        Its name, ``func_name``, and its source, ``c_source``.

    Raises:
        ValueError: for what no function is there for.
    """
    form = canonical(out_dtype) == "bfloat16" and str(source_format) in ("int", "uint") and source_bit == 4
    stored = canonical(storage_dtype) in ("uint8", "int8", "int32")
    if not form or not stored or not use_twiddling or with_scaling or with_zeros:
        raise ValueError("get_mxfp_intrin_group: only 4 bits are decoded, to bfloat16, with use_twiddling=True and no scale")
    return {"func_name": "decode_fp4_to_bf16_twiddling", "c_source": _MXFP}
