"""Loops: what a ``for`` statement of a kernel iterates over."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tilelang.errors import OptionError, RunTimeValueError
from tilelang.frontend.builder import Builder, current, sequence
from tilelang.frontend.loops import LoopSpec, bound, range_bounds
from tilelang.frontend.values import as_expr
from tilelang.ignored import ignored, unless
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.language.math import condition as as_condition


def _notes(annotations: Mapping[str, Any] | None, **own: Any) -> dict[str, Any]:
    return {**(annotations or {}), **{key.replace("__", "."): value for key, value in own.items() if value is not None}}


def serial(start: Any, stop: Any = None, step: Any = None, *, annotations: Mapping[str, Any] | None = None) -> LoopSpec:
    """A loop whose iterations run in order: ``for i in T.serial(n)``, ``T.serial(start, stop, step)``.

    Args:
        start, stop, step: as in ``range``, compile-time or run-time integers.
        annotations: notes for the loop, kept in the IR.

    Returns:
        What a ``for`` statement of a kernel iterates over; its variable is an int32 expression.
    """
    return LoopSpec("SERIAL", (range_bounds(start, stop, step),), _notes(annotations))


def unroll(
    start: Any,
    stop: Any = None,
    step: Any = None,
    *,
    explicit: bool = False,
    unroll_factor: int | None = None,
    annotations: Mapping[str, Any] | None = None,
) -> LoopSpec:
    """A serial loop that the compiler of the generated code unrolls.

    Args:
        start, stop, step: as in ``range``; the length is known at compile time.
        explicit: accepted for compatibility; unrolling is left to the compiler of the generated code either way.
        unroll_factor: iterations that are unrolled together, in CUDA code; all by default.
        annotations: notes for the loop, kept in the IR.

    Returns:
        What a ``for`` statement of a kernel iterates over.
    """
    notes = _notes(annotations, pragma_unroll_explicit=explicit or None, pragma_unroll_factor=unroll_factor)
    return LoopSpec("UNROLLED", (range_bounds(start, stop, step),), notes)


def vectorized(start: Any, stop: Any = None, *, annotations: Mapping[str, Any] | None = None) -> LoopSpec:
    """A loop of constant length whose iterations are the lanes of vector instructions.

    Args:
        start, stop: as in ``range``.
        annotations: notes for the loop, kept in the IR.

    Returns:
        What a ``for`` statement of a kernel iterates over.

    Raises:
        RunTimeValueError: the length is not known at compile time.
    """
    bounds = range_bounds(start, stop)
    if not isinstance(bounds[1], int):
        raise RunTimeValueError("the length of T.vectorized must be known at compile time")
    return LoopSpec("VECTORIZED", (bounds,), _notes(annotations))


def Parallel(
    *extents: Any,
    coalesced_width: int | None = None,
    loop_layout: Any = None,
    prefer_async: bool | None = None,
    annotations: Mapping[str, Any] | None = None,
) -> LoopSpec:
    """Independent iterations over a box, shared out among the threads: ``for i, j in T.Parallel(m, n)``.

    ``T.Parallel(0, n)`` and ``T.Parallel(0, n, step)`` are ranges, as a box of no elements has no use.

    Args:
        extents: length of each axis, compile-time or dynamic.
        coalesced_width: elements that one thread handles together.
        loop_layout: a ``T.Fragment`` that says which thread handles which iteration.
        prefer_async: has no effect; a value warns.
        annotations: notes for the outermost loop, kept in the IR.

    Returns:
        What a ``for`` statement of a kernel iterates over; one int32 index an extent.

    Raises:
        OptionError: no extent.
    """
    if not extents:
        raise OptionError("T.Parallel needs at least one extent")
    ignored("T.Parallel", prefer_async=prefer_async)
    layout = None if loop_layout is None else loop_layout.to_text()
    notes = _notes(annotations, tl__parallel=len(extents), tl__coalesced_width=coalesced_width, tl__loop_layout=layout)
    first, *others = extents
    if 1 <= len(others) <= 2 and as_int(bound(first)) == 0:
        return LoopSpec("PARALLEL", (range_bounds(*extents),), {**notes, "tl.parallel": 1})
    return LoopSpec("PARALLEL", tuple((0, as_int(bound(extent)), 1) for extent in extents), notes)


def Pipelined(
    start: Any,
    stop: Any = None,
    num_stages: int = 0,
    order: list[int] | None = None,
    stage: list[int] | None = None,
    annotations: Mapping[str, Any] | None = None,
    sync: list[list[int]] | None = None,
    group: list[list[int]] | None = None,
) -> LoopSpec:
    """A serial loop whose copies for later iterations overlap the computation of earlier ones.

    Args:
        start, stop: as in ``range``.
        num_stages: iterations whose data is in flight; 0 or 1 is a plain loop.
        order, stage, group: the schedule of the statements of the body, where the user fixes it.
        sync: has no effect, as synchronisation follows from the accesses; a value warns.
        annotations: notes for the loop, kept in the IR.

    Returns:
        What a ``for`` statement of a kernel iterates over; its variable is an int32 expression.

    Raises:
        OptionError: ``num_stages`` is no compile-time integer from 0 on.
    """
    ignored("T.Pipelined", sync=sync or None)
    first, extent, _ = range_bounds(start, stop)
    stages = as_int(as_expr(num_stages))
    if not isinstance(stages, int) or stages < 0:
        raise OptionError(f"T.Pipelined: num_stages must be a compile-time integer from 0 on, got {num_stages}")
    notes = _notes(
        annotations,
        num_stages=stages,
        tl__pipeline_order=order or None,
        tl__pipeline_stage=stage or None,
        tl__pipeline_group=group or None,
    )
    return LoopSpec("SERIAL", ((first, extent, 1),), notes)


@contextmanager
def While(condition: Any) -> Iterator[None]:
    """``with T.While(condition): …``, the statement ``while condition:`` as a context manager."""
    builder = current("T.While")
    test, span = as_condition(condition), builder.span()
    with builder.scope("loop", lambda body: ir.While(test, body, span)), builder.in_loop("WHILE"):
        yield


def grid(*extents: Any) -> LoopSpec:
    """Nested serial loops: ``for i, j in T.grid(m, n)``."""
    return LoopSpec("SERIAL", tuple((0, as_int(bound(extent)), 1) for extent in extents), many=len(extents) > 1)


def parallel(start: Any, stop: Any = None, *, annotations: Mapping[str, Any] | None = None) -> LoopSpec:
    """Independent iterations over one range, shared out among the threads.

    Args:
        start, stop: as in ``range``.
        annotations: notes for the loop, kept in the IR.

    Returns:
        What a ``for`` statement of a kernel iterates over; one int32 index.
    """
    return LoopSpec("PARALLEL", (range_bounds(start, stop),), _notes(annotations, tl__parallel=1))


Serial = serial
"""Another name of :func:`serial`."""

Unroll = unroll
"""Another name of :func:`unroll`."""

Vectorized = vectorized
"""Another name of :func:`vectorized`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PersistentSpec(LoopSpec):
    """The loop of :func:`Persistent`: waves of blocks, each decoded to an index of the domain."""

    domain: tuple[Any, ...]
    wave_size: Any
    index: Any
    group_size: int

    def open(self, builder: Builder, names: tuple[str, ...]) -> tuple[Any, Any]:
        frame, wave = LoopSpec.open(self, builder, ("wave",))
        tile = builder.bind("tile", as_expr(wave * self.wave_size + self.index))
        inside = tile < _product(self.domain)
        loop = frame.wrap
        frame.wrap = lambda body: loop(_guarded(body, inside))
        first, *others = self._decode(tile)
        return frame, (first, *others) if others else first

    def _decode(self, tile: Any) -> tuple[Any, ...]:
        """Tiles in groups of ``group_size`` along the last axis, for reuse in the L2 cache."""
        *outer, last = self.domain
        rows, columns = _product(outer), as_int(last)
        group = self.group_size if isinstance(columns, int) and columns % self.group_size == 0 else 1
        band, inside = tile // (rows * group), tile % (rows * group)
        # Tile 0, 1, 2, … of a band of `group` columns go along the columns first, so blocks that run together share rows and
        # columns.
        column, row = band * group + inside % group, inside // group
        indices = []
        for size in reversed(outer):
            indices.append(row % size)
            row = row // size
        return (*reversed(indices), column)


def _product(sizes: Iterable[Any]) -> Any:
    return math.prod(sizes, start=as_expr(1))


def _guarded(body: Any, condition: Any) -> Any:
    """The body, whose first statement binds the tile, with the rest under ``condition``."""
    first, *rest = list(body.seq) if isinstance(body, ir.SeqStmt) else [body]
    return sequence([first, ir.IfThenElse(condition, sequence(rest), None)])


def Persistent(
    domain: list[Any],
    wave_size: Any,
    index: Any,
    group_size: int | None = 8,
    num_stages: int = 0,
    *,
    annotations: Mapping[str, Any] | None = None,
) -> LoopSpec:
    """The tiles that one block of a persistent kernel handles: ``for bx, by in T.Persistent([m, n], sms, block)``.

    A domain of one axis gives the index itself: ``for t in T.Persistent([n], sms, block)``.

    Args:
        domain: tiles along each axis.
        wave_size: blocks that run together.
        index: this block's number, 0 to ``wave_size`` - 1.
        group_size: tiles of the last axis that are handled together, where it divides that axis.
        num_stages: has no effect; a value but 0 warns.
        annotations: notes for the loop over the block's tiles, kept in the IR.

    Returns:
        What a ``for`` statement of a kernel iterates over; one int32 index an axis of ``domain``.
    """
    ignored("T.Persistent", num_stages=unless(0, num_stages))
    sizes, wave = tuple(map(as_expr, domain)), as_expr(wave_size)
    waves = as_int((_product(sizes) + (wave - 1)) // wave)
    return _PersistentSpec(
        "SERIAL", ((0, waves, 1),), _notes(annotations),
        domain=sizes, wave_size=wave, index=as_expr(index), group_size=as_int(group_size) or 1,
    )  # fmt: skip
