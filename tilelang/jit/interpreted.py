"""Kernels of target ``"interpret"``: the traced program itself is what runs, so there is nothing to keep on disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilelang.cache.entries.entry import CacheEntry
from tilelang.errors import InterpreterError
from tilelang.execution import Executor
from tilelang.execution.arguments import prepare
from tilelang.execution.signature import CallSignature
from tilelang.execution.wrapper import packed_call
from tilelang.ir.text import program_text
from tilelang.jit.kernel import JITKernel
from tilelang.target.assemble import assemble
from tilelang.target.request import CompileRequest


def interpreted(func: Any, request: CompileRequest, metadata: Mapping[str, Any] | None = None) -> JITKernel:
    """The kernel that interprets a program.

    Args:
        func: the ``PrimFunc``.
        request: what a target would be asked for.
        metadata: kept with the artifact.

    Raises:
        CompileError: the program uses something that the interpreter does not know.
    """
    from tilelang.interpreter.program import Program
    from tilelang.interpreter.session import current
    from tilelang.interpreter.watch import watcher

    program = Program(func)
    artifact = assemble(func, request, {"program.txt": program_text(func).encode()}, dict(metadata or {}))

    def run(*arguments: Any) -> None:
        session = current()
        watches = [watcher(program, what, callback) for what, callback in session.watches]
        found = program.run(*arguments, checks=session.checks, watches=watches, fresh=artifact.out_idx)
        session.findings += found
        if found and session.strict:
            raise InterpreterError(found)

    signature = CallSignature.of(artifact, "cpu")
    launch = packed_call(signature, run)

    def call(*args: Any, **kwargs: Any) -> Any:
        return launch(*prepare(signature, args, kwargs))

    executor = Executor(artifact, request.backend, call)
    return JITKernel(CacheEntry("", Path(), artifact, "compiled"), executor)
