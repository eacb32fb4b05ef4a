"""Calls of jit functions inside of functions that ``torch.compile`` traces.

The tracer runs the choice of the kernel instead of reading it, on the tensors that it traces with; the kernel's call then is an
operator of the graph (:mod:`tilelang.execution.traced`).
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

from tilelang.errors import ArgumentError
from tilelang.execution.tracing import run_while_tracing


def is_traced() -> bool:
    """Whether ``torch.compile`` traces the caller; torch is not loaded for it."""
    if "torch" not in sys.modules:
        return False
    from torch.compiler import is_dynamo_compiling

    return is_dynamo_compiling()


def check_in_force() -> Callable[[], bool]:
    """The cheapest function that tells what :func:`is_traced` does, from now on."""
    loaded = sys.modules.get("torch.compiler")
    return is_traced if loaded is None else loaded.is_dynamo_compiling


class _Choices:
    """What calls have chosen, an attribute each: the tracer guards an attribute, where it would guard a whole dict."""


class TracedCall:
    """The call of a jit function that a tracer can follow.

    Attributes:
        choose: makes what a call of these arguments calls; gives its name in ``choices``. The tracer runs it.
        scalars: gives the names of the arguments that are numbers of the call, of an eager function. The tracer runs it.
    """

    def __init__(self, function: Any):
        self.function = function
        self.choices = choices = _Choices()

        @run_while_tracing
        def choose(*args: Any, **kwargs: Any) -> str:
            eager = function._eager
            chosen = function.compile(*args, **kwargs) if eager is None else eager.chosen(args, kwargs)
            name = f"choice{len(vars(choices))}"
            setattr(choices, name, chosen)
            return name

        @run_while_tracing
        def scalars() -> tuple[str, ...]:
            return tuple(function._eager.scalars)

        self.choose, self.scalars = choose, scalars

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self.function.is_eager:
            fixed = {name: _number(value) for name, value in kwargs.items()}
            return getattr(self.choices, self.choose(*map(_number, args), **fixed))
        eager = self.function._eager
        given = {**dict(zip(eager.names, args)), **kwargs}
        scalars = self.scalars()  # they select no kernel, and may be symbolic where compile-time arguments may not
        fixed = {name: 0 if name in scalars else _number(value) for name, value in given.items()}
        chosen = getattr(self.choices, self.choose(**fixed))
        for name, axis, size in chosen.sizes:
            if given[name].shape[axis] != size:  # the tracer notes what it compares: other sizes are traced anew
                raise ArgumentError(f"{name}: axis {axis} was {size} when the kernel was chosen")
        return chosen.kernel(*[given[name] for name in chosen.names])


def _number(value: Any) -> Any:
    """A compile-time argument: a symbolic number of the tracer as the value that it has in this call."""
    if isinstance(value, float):
        return float.fromhex(value.hex())
    return operator.index(value) if isinstance(value, int) and not isinstance(value, bool) else value
