"""What reductions mean for layouts: where their results are, what they cost, and what must hold of them."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping
from typing import Any

from tilelang.ir.expr import as_int
from tilelang.layout.fragment import REGISTER, THREAD, FragmentLayout
from tilelang.target.cuda.arch import WARP
from tilelang.target.cuda.inference.cost import BARRIER, REQUEST, SHUFFLE


def result_layout(op: Any, fragments: Mapping[Any, FragmentLayout]) -> tuple[Any, FragmentLayout] | None:
    """The fragment that a reduction fills and its layout: that of the source, the threads along the axis become replicas."""
    source = fragments.get(op.src.buffer)
    if source is None or op.dst.buffer in fragments or not (op.dst.is_whole and op.src.is_whole):
        return None
    layout = source.project(op.dim, len(op.dst.buffer.shape) == len(op.src.buffer.shape))
    return (op.dst.buffer, layout) if layout.shape == tuple(as_int(extent) for extent in op.dst.buffer.shape) else None


def reduces_to(op: Any, source: FragmentLayout, target: FragmentLayout) -> bool:
    """Whether a reduction leaves its result where ``target`` has it; registers may be numbered differently."""
    expected = source.project(op.dim, len(target.shape) == len(source.shape))
    counts = ([[m.extent for m in axis if m.unit == REGISTER] for axis in layout.modes] for layout in (expected, target))
    alike = expected.shape == target.shape and expected.same_threads(target) and operator.eq(*counts)
    return alike and stays_in_rows(source, target, op.dim)


def reduction_cost(op: Any, fragments: Mapping[Any, FragmentLayout]) -> float:
    """Cycles of a reduction: of its registers, the shuffles between lanes, and the exchange between warps."""
    if op.src.buffer not in fragments:
        return 0
    source = fragments[op.src.buffer]
    kept = [mode for axis, modes in enumerate(source.modes) if axis != op.dim for mode in modes]
    results = math.prod(mode.extent for mode in kept if mode.unit == REGISTER)
    threads = [mode for mode in source.modes[op.dim] if mode.unit == THREAD]
    lanes = [mode for mode in threads if mode.stride < WARP]
    across = any(mode.stride * mode.extent > WARP for mode in threads)
    shuffles = sum(math.log2(min(mode.extent, WARP // mode.stride)) for mode in lanes)
    return source.registers + results * (shuffles * SHUFFLE + across * 4 * REQUEST) + across * BARRIER


# The proof -------------------------------------------------------------------------------------------------------------


def proofs(op: Any, fragments: Mapping[Any, FragmentLayout], threads: int) -> Iterator[tuple[bool, Any, str]]:
    """What must hold of the layouts of a reduction by so many threads."""
    source, target = fragments[op.src.buffer], fragments[op.dst.buffer]
    yield source.threads <= threads, op.src.buffer, "more threads hold it than reduce it"
    yield stays_in_rows(source, target, op.dim), op.dst.buffer, "it is not where its sums are"


def stays_in_rows(source: FragmentLayout, target: FragmentLayout, dim: int) -> bool:
    """Whether each element of ``source`` reduced over ``dim`` is in all threads that hold a part of it, and in no other."""
    kept = [axis for axis in range(len(source.shape)) if axis != dim]
    axes = [axis for axis, extent in enumerate(target.shape) if len(target.shape) <= len(kept) or axis != dim]
    if kept and (len(kept) != len(axes) or any(source.axis_threads(a) != target.axis_threads(b) for a, b in zip(kept, axes))):
        return False
    steps = {place + step for place in source.owners([0] * len(source.shape)) for step in _all_threads(source, dim)}
    return steps == set(target.owners([0] * len(target.shape)))


def _all_threads(layout: FragmentLayout, axis: int) -> set[int]:
    """What the positions along an axis, padding included, add to the thread's number."""
    found = {0}
    for mode in layout.modes[axis]:
        found = {start + step * mode.stride * (mode.unit == THREAD) for start in found for step in range(mode.extent)}
    return found
