"""Types of less than a byte: int4, uint4, float4_e2m1fn with two elements a byte, the even one in the low half; uint1 with one.

In memory there are bytes; rows of an odd length end with half a byte unused, as the torch tensors that hold them do. In
expressions an integer of such a type is held in 8 bits, and every operation wraps it to its own range.
"""

from __future__ import annotations

from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.target.cpu import helpers

HELD = {"int4": "int8", "uint4": "uint8", "uint1": "uint8"}
"""Small integer -> the type of its values in expressions."""

PACKED = frozenset({"int4", "uint4", "float4_e2m1fn"})
"""Types of which two elements share a byte of memory."""

helpers.register(
    "tl_set_nibble",
    # Threads may write the two halves of a byte of a tensor at the same time: neither update touches the other half.
    "define i32 @tl_set_nibble(ptr %p, i8 %keep, i8 %bits) alwaysinline {\n"
    "  %a = atomicrmw and ptr %p, i8 %keep monotonic\n  %b = atomicrmw or ptr %p, i8 %bits monotonic\n  ret i32 0\n}",
    "static inline int32_t tl_set_nibble(uint8_t* place, uint8_t keep, uint8_t bits) {\n"
    "  __atomic_fetch_and(place, keep, __ATOMIC_RELAXED);\n  __atomic_fetch_or(place, bits, __ATOMIC_RELAXED);\n  return 0;\n}",
)


def memory_shape(buffer: Any) -> list[Any]:
    """The shape of the bytes that hold ``buffer``."""
    shape = list(buffer.shape)
    if str(buffer.dtype) not in PACKED or not shape:
        return shape
    last = as_int(shape[-1])
    return [*shape[:-1], constant((last + 1) // 2)]


def memory_strides(buffer: Any) -> list[Any] | None:
    """The strides of the bytes that hold ``buffer``; None where it is compact."""
    strides = list(buffer.strides)
    if str(buffer.dtype) not in PACKED or not strides:
        return strides or None
    return [*(constant(as_int(stride) // 2) for stride in strides[:-1]), strides[-1]]


def place(indices: list[Any]) -> tuple[list[Any], Any]:
    """Where an element lies: the indices of its byte, and by how many bits it is shifted there (uint8)."""
    *outer, last = indices
    one = ir.IntImm(last.ty, 1)
    return [*outer, last >> one], ir.Cast("uint8", (last & one) << ir.IntImm(last.ty, 2))


def code_at(byte: Any, shift: Any) -> Any:
    """The four bits of an element."""
    return (byte >> shift) & _u8(15)


def replaced(old: Any, shift: Any, code: Any) -> Any:
    """The byte ``old`` with one of its packed elements replaced.

    Args:
        old: the byte.
        shift: the element's position, in bits.
        code: the element's bits, in the low bits.
    """
    return (old & other_bits(shift)) | (code << shift)


def other_bits(shift: Any) -> Any:
    """The mask of the bits of a byte that belong to the other element."""
    return _u8(0xF0) >> shift


def value_of(code: Any, dtype: str) -> Any:
    """The small integer whose bits are ``code`` (uint8)."""
    return wrapped(code, dtype) if dtype == "int4" else code


def code_of(value: Any, dtype: str) -> Any:
    """The bits of a small integer, as uint8."""
    mask = _u8((1 << canonical(dtype).bits) - 1)
    return (value if str(value.ty) == "uint8" else ir.Cast("uint8", value)) & mask


def wrapped(value: Any, dtype: str) -> Any:
    """An integer modulo the range of a small type, as the type that holds it."""
    code = code_of(value, dtype)
    if dtype != "int4":
        return code
    # Sign extension without a shift: (code ^ 8) - 8 takes 0 to 7 to themselves, and 8 to 15 to -8 to -1.
    eight = ir.IntImm("int8", 8)
    return ir.tirx.BitwiseXor(ir.Cast("int8", code), eight) - eight


def _u8(value: int) -> Any:
    return ir.IntImm("uint8", value)
