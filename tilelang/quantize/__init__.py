"""Weights of few bits: packing them with torch, and unpacking them inside of kernels.

Expressions (``unpack.py``) run on every target; ``device.py`` has CUDA sources for ``T.import_source`` and ``T.call_extern``.
"""

from tilelang.quantize.device import get_lop3_intrin_group, get_mxfp_intrin_group
from tilelang.quantize.pack import gen_quant4, general_compress, interleave_weight
from tilelang.quantize.unpack import (
    _tir_packed_int_to_int_convert,
    _tir_packed_to_fp4_to_f16,
    _tir_packed_to_signed_convert,
    _tir_packed_to_unsigned_convert,
    _tir_packed_to_unsigned_convert_with_zeros,
    _tir_u8_to_f4_to_bf16,
    _tir_u8_to_f8_e4m3_to_f16,
)

__all__ = [
    "_tir_packed_int_to_int_convert",
    "_tir_packed_to_fp4_to_f16",
    "_tir_packed_to_signed_convert",
    "_tir_packed_to_unsigned_convert",
    "_tir_packed_to_unsigned_convert_with_zeros",
    "_tir_u8_to_f4_to_bf16",
    "_tir_u8_to_f8_e4m3_to_f16",
    "gen_quant4",
    "general_compress",
    "get_lop3_intrin_group",
    "get_mxfp_intrin_group",
    "interleave_weight",
]
