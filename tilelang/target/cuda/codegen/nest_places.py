"""Where an iteration of a nest finds elements: in the registers of the thread that runs it, in staged vectors, or in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tilelang.target.cuda.codegen.element_types import is_packed, packed_element
from tilelang.target.cuda.codegen.nest_loops import NestLoops
from tilelang.target.cuda.codegen.places import Places
from tilelang.target.cuda.inference.loop_layout import register_form
from tilelang.target.cuda.reading.nest import READ, WRITE, is_memory
from tilelang.target.cuda.reading.tree import FRAGMENT


class NestPlaces(Places):
    """Elements as one iteration sees them.

    Args:
        loops: the loops of the nest.
        lane: text of the vector element that the iteration is for; None where the body runs on single elements.
        stages: name of the array that stands for an access, by :meth:`stage_key`.
    """

    def __init__(self, loops: NestLoops, lane: str | None = None, stages: Mapping[tuple[str, str], str] | None = None):
        super().__init__(loops.e)
        self.loops, self.lane, self.stages = loops, lane, stages or {}
        self.base = "" if lane is None else self.e.var_text[loops.axis]
        self.shares_bytes = lane is None

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """While this lasts, what is printed is for this iteration."""
        e = self.e
        outer, e.places = e.places, self
        with self._at(self.base if self.lane is None else f"({self.base} + {self.lane})"):
            yield
        e.places = outer

    @contextmanager
    def _at(self, text: str) -> Iterator[None]:
        """While this lasts, ``text`` is where the iteration is along the axis of vectors."""
        if self.lane is None:
            yield
            return
        names, axis = self.e.var_text, self.loops.axis
        outer, names[axis] = names[axis], text
        yield
        names[axis] = outer

    def element(self, buffer: Any, indices: list[Any]) -> str:
        held = self._held(READ, buffer, indices)
        if held is not None:
            return held
        return self.or_missing(buffer, super().place(buffer, indices), super().bounds_guard(buffer, indices))

    def place(self, buffer: Any, indices: list[Any]) -> str:
        held = self._held(WRITE, buffer, indices)
        return super().place(buffer, indices) if held is None else held

    def bounds_guard(self, buffer: Any, indices: list[Any]) -> str | None:
        return None if self._staged(WRITE, buffer, indices) else super().bounds_guard(buffer, indices)

    def _held(self, kind: str, buffer: Any, indices: list[Any]) -> str | None:
        """The register or staged element that an element is; None where it is where the kernel's layouts have it."""
        layout = self.e.layouts.fragments.get(buffer) if buffer.scope() == FRAGMENT else None
        if layout is None:
            stage = self._staged(kind, buffer, indices)
            return None if stage is None else self._indexed(stage, str(self.lane), buffer)
        form = register_form(indices, layout, self.loops.layout)
        return (
            None if form is None else self._indexed(self.e.name(buffer), self.loops.register_text(form, self.lane or "0"), buffer)
        )

    @staticmethod
    def _indexed(name: str, index: str, buffer: Any) -> str:
        return packed_element(name, index, str(buffer.dtype)) if is_packed(str(buffer.dtype)) else f"{name}[{index}]"

    def _staged(self, kind: str, buffer: Any, indices: list[Any]) -> str | None:
        if self.lane is None or not is_memory(buffer):
            return None
        with self._at(self.base):
            return self.stages.get(self.stage_key(kind, buffer, indices))

    def stage_key(self, kind: str, buffer: Any, indices: list[Any]) -> tuple[str, str]:
        """A staged access, named by what it is at the base of the vector."""
        return kind, f"{self.e.name(buffer)}[{self.offset(buffer, indices)}]"
