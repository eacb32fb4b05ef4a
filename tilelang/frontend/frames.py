"""Open scopes of a program that is being traced, and places between their statements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True, eq=False)
class Place:
    """A place between two statements of the trace, which stays there when others are put before it.

    Attributes:
        frame: the scope.
        position: how many of its statements come before.
        is_past: whether a scope around it has ended after a statement behind the place that may have changed memory.
    """

    frame: Frame
    position: int
    is_past: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """A change of a Python object by a statement of the program.

    Attributes:
        holder: the object.
        name: of the attribute; "" for an item.
        is_new: whether the object had no such attribute.
        before: what the attribute held, None where it held nothing.
    """

    holder: Any
    name: str = ""
    is_new: bool = False
    before: Any = None


@dataclass(slots=True, eq=False)
class Frame:
    """An open scope.

    Attributes:
        kind: ``"function"``, ``"kernel"``, ``"loop"``, ``"branch"`` or ``"scope"``.
        wrap: makes the finished statement from the body.
        always: whether the body runs whenever the statement is reached.
        repeats: whether it may run several times, one after the other.
        assigned: names that user code bound inside, as (scope, name), with the value that each had before.
        left: of a condition with two arms, what the first one left in names that the second one found as they were before.
        allocations: statements to put at the start: memory, and what fills it once.
        places: those that :meth:`here` gave.
    """

    kind: str
    wrap: Callable[[Any], Any]
    always: bool = False
    repeats: bool = False
    stmts: list[Any] = field(default_factory=list)
    allocations: list[Any] = field(default_factory=list)
    assigned: dict[Any, Any] = field(default_factory=dict)
    left: dict[Any, Any] = field(default_factory=dict)
    places: list[Place] = field(default_factory=list)

    def here(self) -> Place:
        """The place after the last statement so far."""
        if not self.places or self.places[-1].position != len(self.stmts) or self.places[-1].is_past:
            self.places.append(Place(self, len(self.stmts)))
        return self.places[-1]
