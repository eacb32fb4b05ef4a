"""Calls inside of functions that ``torch.compile`` traces: the graph gets a torch operator, for kernels of every backend.

The operator is registered when a tracer first reaches the kernel; outside of tracing a call costs one more check.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.compiler import is_dynamo_compiling

from tilelang.execution.executor import Executor
from tilelang.execution.native import is_device_artifact
from tilelang.execution.tracing import run_while_tracing

__all__ = ["TraceableCall", "is_dynamo_compiling"]


class TraceableCall:
    """The call of a kernel that a tracer can follow.

    Attributes:
        prepare: makes :attr:`call`; the tracer runs it instead of reading it.
        call: the kernel as an operator.
    """

    def __init__(self, executor: Executor):
        self.call: Callable[..., Any] = executor.call

        @run_while_tracing
        def prepare() -> None:
            from tilelang.execution.torch import traced_call

            # On a device the torch backend's call chooses the device first, which no tracer follows.
            is_operator = executor.backend == "torch" and not is_device_artifact(executor.artifact)
            if self.call is executor.call and not is_operator:
                self.call = traced_call(executor.artifact, executor.call)

        self.prepare = prepare

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.prepare()
        return self.call(*args, **kwargs)
