"""The interpreter: executes a tile program on CPU tensors as docs/semantics.md defines it, and reports undefined behaviour.

It executes the tile IR that the front end makes and shares no code with the targets; their results must equal its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilelang.interpreter.findings import Finding

_HOME = {"Program": "program", "Finding": "findings", "Moment": "watch", "Session": "session", "interpret": "session"}


def run(program: Any, *arguments: Any, checks: bool = True) -> list[Finding]:
    """Executes a program once.

    Args:
        program: what ``@T.prim_func`` gives, or a :class:`~tilelang.interpreter.program.Program` made of it.
        arguments: one a parameter, in order: CPU tensors, which are written in place, numbers, addresses. Tensors that the
            program allocates by ``T.empty`` and ``T.alloc_global`` come last.
        checks: look for findings.

    Returns:
        What gives the program no meaning; an empty list where nothing was found.

    Raises:
        CompileError: the program uses something that the interpreter does not know.
        ArgumentError: the arguments do not fit.
        KernelFailedError: a ``T.device_assert`` failed.
    """
    from tilelang.interpreter.program import Program

    compiled = program if isinstance(program, Program) else Program(program)
    return compiled.run(*arguments, checks=checks)


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _HOME:
        raise AttributeError(f"tilelang.interpreter has no {name!r}")
    return getattr(importlib.import_module(f"tilelang.interpreter.{_HOME[name]}"), name)


__all__ = ["Finding", "Moment", "Program", "Session", "interpret", "run"]
