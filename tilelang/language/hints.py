"""Hints: they may change how fast a program runs, never what it computes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tilelang.errors import LayoutError, OperandError, OptionError
from tilelang.frontend.access import as_region, is_buffer
from tilelang.frontend.bounded import note_bounds
from tilelang.frontend.builder import current, require_kernel
from tilelang.frontend.conversion import convert
from tilelang.frontend.tiles import Slice
from tilelang.frontend.values import as_expr
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_global
from tilelang.language.kernel import get_thread_extents
from tilelang.language.math import condition
from tilelang.tileop.hint import (
    AnnotateLayout,
    L2HitRatio,
    MaxRegisters,
    MinBlocksPerSM,
    RestrictBuffers,
    SafeValue,
    UseSwizzle,
)


def use_swizzle(panel_size: int = 10, order: str = "row", enable: bool = True) -> None:
    """Runs the blocks of the grid in panels, so that blocks that run together share data in the L2 cache.

    Args:
        panel_size: rows (or columns) of blocks in a panel.
        order: ``"row"``, or ``"column"``, which programs also write as ``"col"``.
        enable: False makes this a no-op.

    Raises:
        OptionError: another ``order``, or a ``panel_size`` that is not positive.
    """
    order = {"col": "column"}.get(order, order)
    if order not in ("row", "column"):
        raise OptionError(f"T.use_swizzle: order={order!r} is neither 'row' nor 'column'")
    if int(panel_size) < 1:
        raise OptionError(f"T.use_swizzle: panel_size={panel_size} is not positive")
    if enable:
        require_kernel("T.use_swizzle").perform(UseSwizzle(int(panel_size), order))


def annotate_layout(layout_map: Mapping[Any, Any]) -> None:
    """Fixes the layout of buffers: ``T.annotate_layout({A_shared: tilelang.layout.make_swizzled_layout(A_shared)})``.

    A tensor in global memory keeps the order that the caller knows, and a tile of run-time sizes the one that it has anyway.

    Args:
        layout_map: a ``T.Layout``, a ``T.Fragment``, or a function from indices to the new indices, for each buffer.

    Raises:
        CompileError: a key is no buffer, the layout's shape is not the buffer's, or it has more threads than the block.
    """
    for buffer, layout in layout_map.items():
        if _has_run_time_size(buffer):
            continue
        if not is_buffer(buffer):
            raise OperandError(f"T.annotate_layout: {type(buffer).__name__} is not a buffer")
        if not hasattr(layout, "to_text") and not callable(layout):
            raise OperandError(f"T.annotate_layout: {type(layout).__name__} is no layout", hint="give a T.Layout or a T.Fragment")
        if not is_global(buffer):
            layout = layout if hasattr(layout, "to_text") else _layout_of(buffer, layout)
            shape = [int(size) for size in buffer.shape]
            if list(layout.shape) != shape:
                raise LayoutError(f"T.annotate_layout: a layout of {list(layout.shape)} for {buffer.name} of {shape}")
            if not getattr(layout, "injective", True):
                raise LayoutError(f"T.annotate_layout: two elements of {buffer.name} share a place")
            _check_threads(buffer, getattr(layout, "threads", 1))
            require_kernel("T.annotate_layout").perform(AnnotateLayout(as_region(buffer), layout.to_text()))


def _has_run_time_size(tile: Any) -> bool:
    """Whether a tile is a slice of memory for its largest size."""
    return isinstance(tile, Slice) and any(not isinstance(as_int(extent), int) for extent in tile.extents)


def _check_threads(buffer: Any, needed: int) -> None:
    """Whether the block has the threads that a fragment's layout names."""
    threads = math.prod(int(extent) for extent in get_thread_extents())
    if needed > threads:
        raise LayoutError(f"T.annotate_layout: the layout of {buffer.name} has {needed} threads, the block has {threads}")


def _layout_of(buffer: Any, function: Any) -> Any:
    from tilelang.layout import Layout

    return Layout([int(size) for size in buffer.shape], function)


def annotate_safe_value(safe_value_map: Mapping[Any, Any]) -> None:
    """Sets what reads beyond a buffer's bounds give instead of zero: ``T.annotate_safe_value({A: -1.0})``.

    It holds for the statements that follow it in its block: the kernel, or the loop or branch that it stands in.
    """
    for buffer, safe in safe_value_map.items():
        region = as_region(buffer, "T.annotate_safe_value")
        require_kernel("T.annotate_safe_value").perform(SafeValue(region, convert(as_expr(safe, region.dtype), region.dtype)))


def annotate_l2_hit_ratio(l2_hit_ratio_map: Mapping[Any, float]) -> None:
    """Asks to keep a share (0 to 1) of global buffers in the L2 cache: ``T.annotate_l2_hit_ratio({B: 0.8})``."""
    for buffer, ratio in l2_hit_ratio_map.items():
        region = as_region(buffer, "T.annotate_l2_hit_ratio")
        if not is_global(region):
            raise OperandError(f"T.annotate_l2_hit_ratio: {region.buffer.name} is in {region.scope}, not in global memory")
        if not 0 <= float(ratio) <= 1:
            raise OptionError(f"T.annotate_l2_hit_ratio: {ratio} is not between 0 and 1")
        require_kernel("T.annotate_l2_hit_ratio").perform(L2HitRatio(region, float(ratio)))


def annotate_restrict_buffers(*buffers: Any) -> None:
    """Declares that the given parameters may overlap others (by default no two do)."""
    names = []
    for buffer in buffers:
        if not is_buffer(buffer):
            raise OperandError(f"T.annotate_restrict_buffers: {type(buffer).__name__} is not a buffer")
        names.append(buffer.name)
    require_kernel("T.annotate_restrict_buffers").perform(RestrictBuffers(tuple(names)))


def annotate_min_blocks_per_sm(n: int) -> None:
    """Asks the compiler to use so few registers that ``n`` blocks fit on a multiprocessor."""
    if int(n) < 1:
        raise OptionError(f"T.annotate_min_blocks_per_sm: {n} is not positive")
    require_kernel("T.annotate_min_blocks_per_sm").perform(MinBlocksPerSM(int(n)))


def assume(cond: Any) -> None:
    """Declares that ``cond`` holds; tiles may have sizes that it bounds (``n <= 256``).

    Before or in a kernel, outside of branches and of loops that may be skipped, what it says of sizes and integer arguments is
    checked when the kernel is called. Otherwise behaviour is undefined where it does not hold.
    """
    builder = current("T.assume")
    assumed = condition(cond)
    if builder.in_every_call():
        note_bounds(builder, assumed)
    builder.evaluate(ir.tirx.assume(assumed))


def _registers(what: str, count: int, change: str) -> None:
    if not 24 <= int(count) <= 256 or int(count) % 8:
        raise OptionError(f"{what}: {count} registers; expected a multiple of 8 from 24 to 256")
    require_kernel(what).perform(MaxRegisters(int(count), change))


def set_max_nreg(reg_count: int, is_inc: int) -> None:
    """Changes the registers of each thread of the warp group (``setmaxnreg``, sm_90a).

    Args:
        reg_count: a multiple of 8 from 24 to 256.
        is_inc: 1 to raise the number, 0 to lower it.
    """
    _registers("T.set_max_nreg", reg_count, "inc" if is_inc else "dec")


def inc_max_nreg(reg_count: int) -> None:
    """Raises the registers of each thread of the warp group to ``reg_count``."""
    _registers("T.inc_max_nreg", reg_count, "inc")


def dec_max_nreg(reg_count: int) -> None:
    """Lowers the registers of each thread of the warp group to ``reg_count``."""
    _registers("T.dec_max_nreg", reg_count, "dec")


def annotate_producer_reg_dealloc(reg_count: int = 24) -> None:
    """The number of registers that automatic warp specialisation leaves to producer threads."""
    _registers("T.annotate_producer_reg_dealloc", reg_count, "producer")


def annotate_consumer_reg_alloc(reg_count: int = 240) -> None:
    """The number of registers that automatic warp specialisation gives to consumer threads."""
    _registers("T.annotate_consumer_reg_alloc", reg_count, "consumer")


def no_set_max_nreg() -> None:
    """Keeps automatic warp specialisation from moving registers between warp groups."""
    require_kernel("T.no_set_max_nreg").perform(MaxRegisters(0, "off"))


disable_warp_group_reg_alloc = no_set_max_nreg
"""Another name of :func:`no_set_max_nreg`."""
