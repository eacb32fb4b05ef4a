"""From index functions to modes: which stride each part of each axis has.

The functions are called with integers: along each axis alone to find the modes, then on a sample of whole indices to verify
that the axes add up.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from tilelang.errors import LayoutError
from tilelang.layout.digits import largest_divisor

_SAMPLES = 256

_Mode = tuple[int, int, str]
"""Extent, stride, and ``"t"`` for threads or ``"r"`` for registers."""


def recover_modes(
    shape: Sequence[int], thread_of: Callable[..., int], register_of: Callable[..., int | None]
) -> list[list[_Mode]]:
    """Modes ``(extent, stride, "t" or "r")`` of each axis, minor first.

    Args:
        shape: extents of the tile.
        thread_of: the thread of an element, of its indices.
        register_of: its register; None where registers are numbered in row-major order.

    Returns:
        The modes over threads (``"t"``) and registers (``"r"``).

    Raises:
        CompileError: the functions are not mixed-radix, threads are not numbered from 0 without gaps, or elements share a
            register.
    """
    numbered = register_of(*(0,) * len(shape)) is not None
    axes = [_axis_modes(shape, axis, thread_of, register_of, numbered) for axis in range(len(shape))]
    _verify(shape, axes, thread_of, register_of, numbered)
    modes = sorted((stride, extent, kind) for axis in axes for extent, stride, kind in axis if extent > 1)
    _check_threads([(stride, extent) for stride, extent, kind in modes if kind == "t"])
    if numbered:
        _check_registers([(stride, extent) for stride, extent, kind in modes if kind == "r"])
    return axes


def _check_threads(modes: Sequence[tuple[int, int]]) -> None:
    """Whether thread modes ``(stride, extent)``, in the order of their strides, count from 0 and leave no number out."""
    threads = 1
    for stride, extent in modes:
        if stride != threads:
            fault = "leave numbers out" if stride > threads else "repeat numbers"
            raise LayoutError(f"the threads of the fragment {fault}: a stride of {stride} follows {threads} threads")
        threads *= extent


def _check_registers(modes: Sequence[tuple[int, int]]) -> None:
    """Whether register modes ``(stride, extent)``, in the order of their strides, put every element in a register of its own."""
    # A mode of stride s is free of collisions if all smaller modes together reach below s: the sum of their largest digits,
    # plus one.
    reach = 1
    for stride, extent in modes:
        if stride < reach:
            raise LayoutError("the fragment maps several elements to one register")
        reach += stride * (extent - 1)


def _axis_modes(
    shape: Sequence[int], axis: int, thread_of: Callable[..., Any], register_of: Callable[..., Any], numbered: bool
) -> list[_Mode]:
    extent = shape[axis]

    def at(value: int) -> tuple[int, int]:
        index = [0] * len(shape)
        index[axis] = value
        return thread_of(*index), (register_of(*index) if numbered else 0)

    values = [at(value) for value in range(extent)]
    # Modes have no offset: every index of zeros is thread 0, register 0.
    if values[0] != (0, 0):
        raise LayoutError("a fragment's first element must be in its first thread and in register 0")
    modes: list[_Mode] = []
    step = 1
    while step < extent:
        # What lies below `step` is known by now; the element at `step` is the first that only the next mode moves, and shows its
        # stride.
        stride = values[step]
        # The longest run of equal steps is one mode, as far as it divides the rest of the axis.
        count = 1
        while count * step < extent and values[count * step] == (stride[0] * count, stride[1] * count):
            count += 1
        count = largest_divisor(extent // step, count)
        # One mode moves either the thread or the register; a step that moves both has no modes.
        if count == 1 or (stride[0] and stride[1]):
            raise LayoutError(f"axis {axis} of the fragment does not decompose into strides")
        if stride == (0, 0) and numbered:
            raise LayoutError(f"axis {axis} of the fragment maps several elements to one register")
        modes.append((count, stride[0] or stride[1] or 1, "t" if stride[0] else "r"))
        step *= count
    return modes


def _verify(
    shape: Sequence[int],
    axes: Sequence[Sequence[_Mode]],
    thread_of: Callable[..., int],
    register_of: Callable[..., int | None],
    numbered: bool,
) -> None:
    """Whether the modes give the thread and the register of whole indices, too.

    Args:
        shape: extents of the tile.
        axes: the modes of each axis.
        thread_of, register_of: as for :func:`recover_modes`.
        numbered: whether ``register_of`` gives registers.
    """
    # The modes come from each axis alone: an index that mixes axes (i ^ j) agrees with them there and differs
    # elsewhere.
    generator = random.Random(0)
    for _ in range(_SAMPLES):
        index = [generator.randrange(extent) for extent in shape]
        thread = register = 0
        for value, modes in zip(index, axes):
            for extent, stride, kind in modes:
                value, digit = divmod(value, extent)
                thread += digit * stride * (kind == "t")
                register += digit * stride * (kind == "r")
        if thread_of(*index) != thread or (numbered and register_of(*index) != register):
            raise LayoutError("the axes of the fragment do not add up: thread and register must be sums over the axes")
