"""Where an iteration of a nest finds elements: in the registers of the thread that runs it, in staged vectors, or in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tilelang.target.cuda.codegen.nest_loops import NestLoops
from tilelang.target.cuda.codegen.places import Places
from tilelang.target.cuda.inference.loop_layout import register_form
from tilelang.target.cuda.ir.access import READ, WRITE
from tilelang.target.cuda.ir.values import Array, Element, Value
from tilelang.target.cuda.tile.nest import is_memory
from tilelang.target.cuda.tile.tree import FRAGMENT

StageKey = tuple[str, Any]
"""The kind of a staged access, and the element that it is at the base of the vector."""


class NestPlaces(Places):
    """Elements as one iteration sees them.

    Args:
        loops: the loops of the nest.
        lane: number of the vector element that the iteration is for; None where the body runs on single elements.
        stages: the array that stands for an access, by :meth:`stage_key`.
    """

    def __init__(self, loops: NestLoops, lane: Value | None = None, stages: Mapping[StageKey, Array] | None = None):
        super().__init__(loops.e)
        self.loops, self.lane, self.stages = loops, lane, stages or {}
        self.base = None if lane is None else self.e.names.values[loops.axis]
        self.shares_bytes = lane is None

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """While this lasts, what is lowered is for this iteration."""
        e = self.e
        outer, e.places = e.places, self
        with self._at(None if self.lane is None else self.base + self.lane):
            yield
        e.places = outer

    @contextmanager
    def _at(self, position: Value | None) -> Iterator[None]:
        """While this lasts, the iteration is at a position along the axis of vectors."""
        if position is None:
            yield
            return
        values, axis = self.e.names.values, self.loops.axis
        outer, values[axis] = values[axis], position
        yield
        values[axis] = outer

    def element(self, buffer: Any, indices: list[Any]) -> Value:
        held = self._held(READ, buffer, indices)
        if held is not None:
            return held
        place = super().place(buffer, indices)
        if self.shares_bytes and isinstance(place, Element) and is_memory(buffer) and self._stored(buffer):
            place = replace(place, shared_byte=True)
        return self.or_missing(buffer, place, super().bounds_guard(buffer, indices))

    def _stored(self, buffer: Any) -> bool:
        """Whether other iterations may store to neighbours of what an iteration reads."""
        return any(access.kind == WRITE and access.buffer == buffer for access in self.loops.nest.accesses)

    def place(self, buffer: Any, indices: list[Any]) -> Value:
        held = self._held(WRITE, buffer, indices)
        return super().place(buffer, indices) if held is None else held

    def bounds_guard(self, buffer: Any, indices: list[Any]) -> Value | None:
        return None if self._staged(WRITE, buffer, indices) else super().bounds_guard(buffer, indices)

    def _held(self, kind: str, buffer: Any, indices: list[Any]) -> Value | None:
        """The register or staged element that an element is; None where it is where the kernel's layouts have it."""
        layout = self.e.layouts.fragments.get(buffer) if buffer.scope() == FRAGMENT else None
        if layout is None:
            stage = self._staged(kind, buffer, indices)
            return None if stage is None else stage.at(self.lane)
        form = register_form(indices, layout, self.loops.layout)
        return None if form is None else self.e.array(buffer).at(self.loops.register(form, self.lane))

    def _staged(self, kind: str, buffer: Any, indices: list[Any]) -> Array | None:
        if self.lane is None or not is_memory(buffer):
            return None
        with self._at(self.base):
            return self.stages.get(self.stage_key(kind, buffer, indices))

    def stage_key(self, kind: str, buffer: Any, indices: list[Any]) -> StageKey:
        """A staged access, named by what it is at the base of the vector."""
        return kind, self.e.array(buffer).at(self.offset(buffer, indices))
