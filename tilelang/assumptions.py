"""What a program takes for granted of the sizes and integer arguments of a call (``T.assume``), as plain data.

The host of every target checks it before anything runs, and :mod:`tilelang.execution.arguments` says which one does not hold.
"""

from __future__ import annotations

import linecache
from collections.abc import Mapping
from dataclasses import astuple
from typing import Any

from tilelang.artifact import Dim, KernelArtifact, dim_names, evaluate_dim
from tilelang.errors import ArgumentError, Location
from tilelang.records import Record

_KEY = "assumptions"


class Assumption(Record):
    """A condition that every call must meet.

    Attributes:
        condition: not 0 where it holds.
        message: what is wrong with a call that does not meet it.
        file, line: where the program says it; no file where no line of it does.
        source: the text of that line.
    """

    condition: Dim
    message: str
    file: str = ""
    line: int = 0
    source: str = ""

    @property
    def located_message(self) -> str:
        """The message with its place, for hosts that have no other way to say it."""
        return f"{self.file}:{self.line}: {self.message}" if self.file else self.message

    def check(self, kernel: str, sizes: Mapping[str, int]) -> None:
        """Refuses a call that does not meet it; does nothing where a size is unknown.

        Raises:
            ArgumentError: it does not hold.
        """
        names = sorted(set(dim_names((self.condition,))))
        if not all(name in sizes for name in names) or evaluate_dim(self.condition, sizes):
            return
        given = ", ".join(f"{name} is {sizes[name]}" for name in names)
        message = f"{kernel}: {self.message}{f': {given}' if given else ''}"
        # Files change, and kernels are kept: the line is shown where it still says the same.
        if self.file and linecache.getline(self.file, self.line).strip() == self.source:
            raise ArgumentError(message, Location(self.file, self.line))
        raise ArgumentError(f"{message} ({self.file}:{self.line})" if self.file else message)


def recorded(found: tuple[Assumption, ...]) -> dict[str, Any]:
    """The assumptions of a program as an entry of :attr:`~tilelang.artifact.KernelArtifact.metadata`; none without any."""
    return {_KEY: tuple(map(astuple, found))} if found else {}


def assumptions_of(artifact: KernelArtifact) -> tuple[Assumption, ...]:
    """The assumptions that an artifact was compiled with."""
    return tuple(Assumption(*row) for row in artifact.metadata.get(_KEY, ()))
