"""Findings: undefined behaviour of a program, with the user's line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilelang.errors import Location

KINDS = {
    # kind -> what a program did
    "race": "iterations, threads or blocks touch one element, one of them writes it, and nothing orders them",
    "uninitialised": "an element is read that nothing has written",
    "out-of-bounds": "an index leaves a tile",
    "async": "data of an asynchronous copy or product is used before it is waited for",
    "divergence": "only some of the threads execute what all of them must execute together",
    "deadlock": "threads wait for something that no other thread will do",
    "barrier": "a barrier is used in another way than its kind allows",
    "metadata": "the metadata of a sparse operand names no positions of elements",
    "assumption": "a condition does not hold that the program tells the compiler to rely on",
}


@dataclass(slots=True)
class Finding:
    """Undefined behaviour of a program at one line: its first occurrence, and how many there were.

    Attributes:
        kind: one of :data:`KINDS`.
        message: what happened, in one line.
        location: the user's line.
        block: the block's indices.
        occurrences: how often it happened at this line.
    """

    kind: str
    message: str
    location: Location | None
    block: tuple[int, ...] = ()
    occurrences: int = 1

    def __str__(self) -> str:
        block = f", block ({', '.join(map(str, self.block))})" if self.block else ""
        times = f", {self.occurrences} times" if self.occurrences > 1 else ""
        head = f"{self.kind}: {self.message}{block}{times}"
        return head if self.location is None else f"{head}\n{self.location.excerpt()}"


class Findings:
    """The findings of one run, one for each kind and line."""

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], Finding] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, kind: str, message: str, location: Location | None, block: tuple[int, ...] = ()) -> None:
        """Notes an occurrence; of each kind only the first one at a line is kept, with a count.

        Args:
            kind: a key of :data:`KINDS`.
            message: what happened, in one line.
            location: the user's line.
            block: the block's indices.
        """
        key = (kind, None if location is None else (location.file, location.line, location.column))
        if key in self._found:
            self._found[key].occurrences += 1
        else:
            self._found[key] = Finding(kind, message, location, block)

    def all(self) -> list[Finding]:
        """The findings in the order in which they were made."""
        return list(self._found.values())
