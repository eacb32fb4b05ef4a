"""The program between the later steps of the CPU pipeline: a kernel's functions and the helpers that they call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CpuProgram:
    """A kernel, from the step ``outline`` on.

    Attributes:
        func: the function.
        functions: names of the scalar functions (:data:`~tilelang.target.cpu.functions.FUNCTIONS`) that C code must define.
        helpers: names of the helper functions (:mod:`~tilelang.target.cpu.helpers`) that it calls.
        signature: once the entry has plain arguments, the function with the parameters that the user wrote.
        parts: the functions that it calls (:mod:`~tilelang.target.cpu.outline`).
    """

    func: Any
    functions: tuple[str, ...] = ()
    helpers: tuple[str, ...] = ()
    signature: Any = None
    parts: tuple[CpuProgram, ...] = ()

    @property
    def all_functions(self) -> tuple[str, ...]:
        """The scalar functions of the kernel and its parts."""
        return tuple(dict.fromkeys(name for program in (self, *self.parts) for name in program.functions))

    @property
    def all_helpers(self) -> tuple[str, ...]:
        """The helper functions of the kernel and its parts."""
        return tuple(dict.fromkeys(name for program in (self, *self.parts) for name in program.helpers))

    def script(self) -> str:
        """Printed IR."""
        return "\n".join(program.func.script() for program in (self, *self.parts))
