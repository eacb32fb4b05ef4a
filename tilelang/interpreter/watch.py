"""The argument of a ``run.watch`` callback: the program stopped at a statement."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilelang.interpreter.state import Lanes
from tilelang.ir.span import location_of

if TYPE_CHECKING:
    from tilelang.interpreter.program import Program


class Moment:
    """A statement that is about to run.

    ``at["C_local"]`` is the tile of that name as a tensor (a copy; of memory of threads, a row for each thread where they
    differ), or the value of the variable of that name.

    Attributes:
        line: of the source.
        block: the block's indices.
        iteration: the values of the loop variables around the statement, by name.
    """

    def __init__(self, program: Program, x: Lanes, location: Any):
        self._program = program
        self._x = x
        self.line = location.line
        self.file = location.file
        self.block = x.block.indices if x.block else ()

    @property
    def iteration(self) -> dict[str, Any]:
        """The values of the loop variables that have one, by name."""
        found = {str(var.name): self._x.values[slot] for var, slot in self._program.loop_variables(self.line).items()}
        return {name: value if np.ndim(value) else int(value) for name, value in found.items() if value is not None}

    def names(self) -> list[str]:
        """The names that :meth:`__getitem__` accepts."""
        buffers = [str(b.name) for b, slot in self._program.buffers.items() if self._x.views[slot] is not None]
        return sorted(
            {*buffers, *(str(v.name) for v, slot in self._program.variables.items() if self._x.values[slot] is not None)}
        )

    def __getitem__(self, name: str) -> Any:
        for buffer, slot in self._program.buffers.items():
            if str(buffer.name) == name and self._x.views[slot] is not None:
                return _tensor(self._x.views[slot])
        for var, slot in self._program.variables.items():
            if str(var.name) == name and self._x.values[slot] is not None:
                value = self._x.values[slot]
                return _as_tensor(value) if np.ndim(value) else value.item()
        raise KeyError(f"{name} is none of {', '.join(self.names())}")

    def __repr__(self) -> str:
        return f"<line {self.line}, block {self.block}, {self.iteration}>"


def _tensor(view: Any) -> Any:
    """A copy of a buffer's elements; of memory of which threads hold different rows, with an axis of threads in front."""
    at = np.zeros(view.shape, np.int64) + view.base
    for axis, (size, stride) in enumerate(view.axes):
        at = at + (np.arange(size) * stride).reshape([-1 if a == axis else 1 for a in range(len(view.axes))])
    rows = np.arange(view.storage.rows).reshape((-1,) + (1,) * at.ndim)
    value = view.read(rows, at)
    return _as_tensor(value if view.storage.rows > 1 else value[0])


def _as_tensor(value: Any) -> Any:
    import torch

    return torch.from_numpy(np.ascontiguousarray(value))


def watcher(program: Program, what: str | int, callback: Callable[[Moment], Any]) -> Callable[[Lanes, Any], None]:
    """The function that a run calls at each statement, to call a user's function at some of them.

    Args:
        program: what runs.
        what: a line of the source, or the name of a buffer or variable that a statement mentions.
        callback: the user's function.
    """
    lines = {what} if isinstance(what, int) else program.lines_that_mention(what)

    def observe(x: Lanes, span: Any) -> None:
        location = location_of(span)
        if location is not None and location.line in lines:
            callback(Moment(program, x, location))

    return observe
