"""Warp-group products written by hand (sm_90a): descriptors of shared tiles, and single instructions."""

from __future__ import annotations

import re
from typing import Any

from tilelang.dtypes import canonical
from tilelang.errors import DtypeError, OperandError, OptionError, RunTimeValueError, UnsupportedError
from tilelang.frontend.access import as_region, assign_subscript
from tilelang.frontend.builder import require_kernel
from tilelang.frontend.conversion import convert
from tilelang.frontend.values import as_expr, as_operand, is_symbolic
from tilelang.ir import nodes as ir
from tilelang.ir.memory import lies_in_shared
from tilelang.ir.region import Region
from tilelang.language import calls
from tilelang.language.intrinsics import TYPES_OF_PTX
from tilelang.language.math import condition
from tilelang.language.memory import alloc_local
from tilelang.tileop.warp_group import FenceOperand, M, WarpGroupInstruction

_KINDS = ("wgmma",)
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")


def alloc_descriptor(kind: str = "wgmma", dtype: Any = "uint64") -> Any:
    """A descriptor of a shared tile, in registers of each thread; :func:`initialize_wgmma_descriptor` says of which.

    Raises:
        CompileError: a ``kind`` of other architectures, or another ``dtype``.
    """
    if kind not in _KINDS:
        raise UnsupportedError(f"T.alloc_descriptor: no {kind!r} descriptors, only {', '.join(_KINDS)} (sm_90a)")
    if str(canonical(dtype)) != "uint64":
        raise DtypeError(f"T.alloc_descriptor: a descriptor is a uint64, not {canonical(dtype)}")
    return alloc_local((1,), "uint64")


def alloc_wgmma_desc(dtype: Any = "uint64") -> Any:
    """:func:`alloc_descriptor` of the kind ``"wgmma"``."""
    return alloc_descriptor("wgmma", dtype)


def initialize_wgmma_descriptor(
    descriptor: Any, start_address: Any, layout_type_: int = 0, leading_byte_offset: int = 0, stride_byte_offset: int = 0
) -> None:
    """Sets a descriptor to a tile in shared memory.

    Args:
        descriptor: of :func:`alloc_wgmma_desc`. It is of one tile: another tile needs another descriptor.
        start_address: where the tile starts: an element, or its ``T.access_ptr``. The tile's layout is fixed by
            :func:`annotate_layout`.
        layout_type_: 0 without swizzle, 1, 2 and 3 for panels of 128, 64 and 32 bytes.
        leading_byte_offset, stride_byte_offset: in units of 16 bytes, compile-time integers (PTX manual, "Matrix descriptor").

    Raises:
        CompileError: an address outside of shared memory, another layout type, or a second tile.
    """
    builder, what = require_kernel("T.initialize_wgmma_descriptor"), "T.initialize_wgmma_descriptor"
    start, place = calls.address(start_address, what), _descriptor(descriptor, what)
    if not lies_in_shared(start.source):
        raise OperandError(f"{what}: {start.source.name} is not in shared memory")
    # The compiler must know which tile an instruction reads, to order it after what writes that tile; the descriptor's number
    # does not tell.
    known = builder.described.setdefault(place, start.source)
    if known != start.source:
        hint = f"T.alloc_wgmma_desc() makes another for {start.source.name}"
        raise OperandError(f"{what}: the descriptor is of {known.name} already", hint=hint)
    numbers = [_number(each, what) for each in (layout_type_, leading_byte_offset, stride_byte_offset)]
    if numbers[0] not in range(4):
        raise OptionError(f"{what}: layout_type_ is 0, 1, 2 or 3, got {numbers[0]}")
    assign_subscript(place, 0, calls.value("wgmma_descriptor", start, *numbers))


def increase_descriptor_offset(descriptor: Any, offset: Any) -> None:
    """Moves the start of a descriptor's tile by ``offset`` bytes, a multiple of 16."""
    place = _descriptor(descriptor, "T.increase_descriptor_offset")
    assign_subscript(place, 0, place[0] + _units(as_expr(offset) >> 4))


def warpgroup_fence_operand(buffer_or_ptr: Any, offset: Any = 0, num_regs: int | None = None, dtype: Any = None) -> None:
    """Keeps the compiler from moving accesses of registers, such as accumulators, across this point.

    Args:
        buffer_or_ptr: a ``T.alloc_local`` array or a fragment, or their ``.data``.
        offset: the first register, in elements of each thread.
        num_regs: how many of 32 bits; None for all.
        dtype: of the elements, which the buffer knows.
    """
    what = "T.warpgroup_fence_operand"
    count = 0 if num_regs is None else _number(num_regs, what)
    require_kernel(what).perform(FenceOperand(_whole(buffer_or_ptr, what), convert(as_expr(offset), "int32"), count))


def ptx_wgmma_ss(
    dtype: Any, wgmma_prefix: str, a_is_k_major: Any, b_is_k_major: Any, a_dtype_abbrv: str, b_dtype_abbrv: str,
    accum_dtype_abbrv: str, A_desc: Any, A_offset: Any, B_desc: Any, B_offset: Any, C_data: Any, C_offset: Any, scale_out: Any,
    scale_in_a: Any = 1, scale_in_b: Any = 1,
) -> None:  # fmt: skip
    """One ``wgmma`` instruction with both operands in shared memory.

    It stands between ``T.warpgroup_arrive`` and ``T.warpgroup_commit_batch``, and C is valid after ``T.warpgroup_wait``.

    Args:
        dtype: of C; that of its elements.
        wgmma_prefix: the shape, ``"m64n128k16"``.
        a_is_k_major, b_is_k_major: whether the operand's rows run along K.
        a_dtype_abbrv, b_dtype_abbrv, accum_dtype_abbrv: ``"fp16"``, ``"bf16"``, ``"fp32"`` (operands: as tf32), ``"e4m3"``,
            ``"e5m2"``, ``"int8"``, ``"int32"``.
        A_desc, B_desc: descriptors, or their ``.data``.
        A_offset, B_offset: where in the tile the operand starts, in units of 16 bytes.
        C_data: the accumulators of each thread, or their ``.data``: a ``T.alloc_local`` array, or a fragment with an annotated
            layout.
        C_offset: the first of them, in elements.
        scale_out: 0 to overwrite C, else it is added to.
        scale_in_a, scale_in_b: 1.

    Raises:
        CompileError: an unknown shape or type, a negated operand, or a descriptor that was not initialised.
    """
    what = "T.ptx_wgmma_ss"
    left = _described(A_desc, A_offset, what)
    _perform(
        what, wgmma_prefix, (a_dtype_abbrv, b_dtype_abbrv, accum_dtype_abbrv), left, 0, _described(B_desc, B_offset, what),
        (C_data, C_offset), scale_out, (a_is_k_major, b_is_k_major), (scale_in_a, scale_in_b),
    )  # fmt: skip


def ptx_wgmma_rs(
    dtype: Any, wgmma_prefix: str, b_is_k_major: Any, a_dtype_abbrv: str, b_dtype_abbrv: str, accum_dtype_abbrv: str,
    A_buf: Any, A_offset: Any, B_desc: Any, B_offset: Any, C_data: Any, C_offset: Any, scale_out: Any, scale_in_a: Any = 1,
    scale_in_b: Any = 1,
) -> None:  # fmt: skip
    """One ``wgmma`` instruction with A in registers.

    Args:
        A_buf: registers of each thread, as C's, or their ``.data``.
        A_offset: the first of them, in elements.
        dtype, wgmma_prefix, b_is_k_major, a_dtype_abbrv, b_dtype_abbrv, accum_dtype_abbrv: as for :func:`ptx_wgmma_ss`.
        B_desc, B_offset, C_data, C_offset, scale_out, scale_in_a, scale_in_b: as for :func:`ptx_wgmma_ss`.

    Raises:
        CompileError: as for :func:`ptx_wgmma_ss`.
    """
    what = "T.ptx_wgmma_rs"
    _perform(
        what, wgmma_prefix, (a_dtype_abbrv, b_dtype_abbrv, accum_dtype_abbrv), (_whole(A_buf, what), None), A_offset,
        _described(B_desc, B_offset, what), (C_data, C_offset), scale_out, (True, b_is_k_major), (scale_in_a, scale_in_b),
    )  # fmt: skip


def _perform(
    what: str, shape: str, types: tuple[str, str, str], left: tuple[Region, Any], a_register: Any, right: tuple[Region, Any],
    accumulators: tuple[Any, Any], scale: Any, along_k: tuple[Any, Any], negation: tuple[Any, Any],
) -> None:  # fmt: skip
    match = _SHAPE.fullmatch(str(shape))
    if match is None or int(match[1]) != M:
        raise OptionError(f"{what}: no shape {shape}", hint="for example m64n128k16")
    if any(_number(each, what) != 1 for each in negation):
        raise UnsupportedError(f"{what}: scale_in_a and scale_in_b are 1; products are not negated")
    data, register = accumulators
    c = _whole(data, what)
    for name, spelled, region in zip("ABC", types, (left[0], right[0], c)):
        if str(canonical(TYPES_OF_PTX.get(str(spelled), spelled))) != str(canonical(region.dtype)):
            raise DtypeError(f"{what}: {name} is {spelled}, {region.buffer.name} holds {region.dtype}")
    a_transposed, b_transposed = (not _number(each, what) for each in along_k)
    a_place, c_place = (convert(as_expr(each), "int32") for each in (a_register, register))
    scale = convert(condition(scale) if is_symbolic(scale) else as_expr(bool(scale)), "int32")
    (a, a_offset), (b, b_offset) = left, right
    instruction = WarpGroupInstruction(
        a, b, c, a_offset, b_offset, a_place, c_place, scale, int(match[2]), int(match[3]), a_transposed, b_transposed
    )
    require_kernel(what).perform(instruction)


def _descriptor(value: Any, what: str) -> Any:
    """The buffer of a descriptor, from itself, its element, its slice or its ``.data``."""
    buffer = calls.pointed(value, what) if isinstance(value, ir.Call) else as_region(value, what).buffer
    if str(buffer.dtype) != "uint64" or len(buffer.shape) != 1:
        raise OperandError(f"{what}: {buffer.name} is no descriptor of T.alloc_wgmma_desc()")
    return buffer


def _described(value: Any, offset: Any, what: str) -> tuple[Region, Any]:
    """The tile of a descriptor, and the descriptor ``offset`` units of 16 bytes further."""
    buffer = _descriptor(value, what)
    tile = require_kernel(what).described.get(buffer)
    if tile is None:
        raise OperandError(f"{what}: the descriptor {buffer.name} is of no tile", hint="T.initialize_wgmma_descriptor(...)")
    return Region.whole(tile), buffer[0] + _units(offset)


def _units(offset: Any) -> Any:
    """An offset that is added to a descriptor's address; a negative one lowers it."""
    return convert(convert(as_expr(offset), "int64"), "uint64")


def _whole(value: Any, what: str) -> Region:
    """All registers of an array or fragment, from itself or its ``.data``."""
    pointed = calls.pointed(value, what) if isinstance(value, ir.Call) else as_region(value, what).buffer
    return Region.whole(pointed)


def _number(value: Any, what: str) -> int:
    value = as_operand(value)
    if is_symbolic(value) and not isinstance(value, ir.IntImm):
        raise RunTimeValueError(f"{what} needs an argument that is known at compile time")
    return int(value)
