"""Kernels of target ``"interpret"``: the traced program itself is what runs, so there is nothing to keep on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilelang.artifact import evaluate_dim
from tilelang.cache.entries.entry import CacheEntry
from tilelang.errors import InterpreterError
from tilelang.execution import Executor
from tilelang.execution.arguments import known_sizes, prepare
from tilelang.execution.signature import CallSignature, torch_dtypes
from tilelang.execution.simulated import wherever
from tilelang.ir.text import program_text
from tilelang.jit.kernel import JITKernel
from tilelang.recursion import PASSES, recursion
from tilelang.storage import storage_shape
from tilelang.target.assemble import assemble
from tilelang.target.request import CompileRequest
from tilelang.transform.bounds import check_tensors
from tilelang.transform.config import PassConfigKey


@recursion(PASSES)
def interpreted(func: Any, request: CompileRequest, metadata: Mapping[str, Any] | None = None) -> JITKernel:
    """The kernel that interprets a program.

    Args:
        func: the ``PrimFunc``.
        request: what a target would be asked for.
        metadata: kept with the artifact.

    Returns:
        A kernel without files; a call runs the program and notes what it finds in the current session.

    Raises:
        CompileError: the program uses something that the interpreter does not know.
        IndexRangeError: it leaves a tensor whatever the arguments are.
    """
    from tilelang.interpreter.program import Program
    from tilelang.interpreter.session import current
    from tilelang.interpreter.watch import watcher

    check_tensors(func)
    program = Program(func, bool(request.config(PassConfigKey.TL_DISABLE_THREAD_STORAGE_SYNC, False)))
    artifact = assemble(func, request, {"program.txt": program_text(func).encode()}, dict(metadata or {}))

    def run(*arguments: Any) -> None:
        session = current()
        watches = [watcher(program, what, callback) for what, callback in session.watches]
        found = program.run(*arguments, checks=session.checks, watches=watches, fresh=artifact.out_idx)
        session.findings += found
        if found and session.strict:
            raise InterpreterError(found)

    signature = CallSignature.of(artifact, "cpu")

    def call(*args: Any, **kwargs: Any) -> Any:
        arguments = _with_outputs(signature, prepare(signature, args, kwargs))
        run(*arguments)
        returned = [arguments[index] for index in signature.returned]
        return returned if len(returned) > 1 else returned[0] if returned else None

    executor = Executor(artifact, request.backend, wherever(call, signature))
    kernel = JITKernel(CacheEntry("", Path(), artifact, "compiled"), executor=executor)
    # It has no files: what travels to another process is the program.
    kernel.made_by = (interpreted, (func, request, dict(metadata or {})))
    return kernel


def _with_outputs(signature: CallSignature, inputs: Sequence[Any]) -> list[Any]:
    """An argument for each parameter: the inputs, and fresh tensors for those that the call allocates."""
    import torch

    sizes = known_sizes(signature, inputs)
    given = dict(zip(signature.inputs, inputs))
    for index in signature.allocated:
        param = signature.params[index]
        given[index] = torch.empty([evaluate_dim(dim, sizes) for dim in storage_shape(param)], dtype=torch_dtypes(param)[0])
    return [given[index] for index in range(len(signature.params))]
