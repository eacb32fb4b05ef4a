"""The parameters of functions that are made from tables: they have names, and may be given by position or by keyword."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tilelang.errors import OperandError

_SAME = {"axis": "dim"}
"""Keywords of other libraries, and what this one calls them."""


def parameters(names: str, **defaults: Any) -> inspect.Signature:
    """The signature of ``names``, separated by blanks (``*rest`` takes any number), and of ``defaults`` behind them."""
    either, any_number = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_POSITIONAL
    required = [inspect.Parameter(name.lstrip("*"), any_number if name[0] == "*" else either) for name in names.split()]
    return inspect.Signature([*required, *(inspect.Parameter(name, either, default=value) for name, value in defaults.items())])


def taking(
    signature: inspect.Signature, name: str, meaning: str, renamed: Mapping[str, str] = MappingProxyType({})
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Turns a function that takes all values by position into the public function of a signature.

    Args:
        signature: parameters that may be given by position or by keyword.
        name: of the public function.
        meaning: its documentation.
        renamed: older keyword -> the parameter that it means.

    Returns:
        A decorator; calling what it gives with other arguments is a CompileError.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if kwargs or len(args) != len(signature.parameters):
                args = _bound(signature, name, args, {renamed.get(key, key): value for key, value in kwargs.items()})
            return function(*args)

        call.__name__ = call.__qualname__ = name
        call.__doc__ = meaning
        call.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
        return call

    return decorate


def _bound(signature: inspect.Signature, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The values of all parameters in order."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        unknown = next((key for key in kwargs if key not in signature.parameters), "")
        near = difflib.get_close_matches(_SAME.get(unknown, unknown), signature.parameters, n=1)
        raise OperandError(f"T.{name}{signature}: {error}", hint=f"did you mean {near[0]!r}?" if near else None) from None
    bound.apply_defaults()
    return bound.args
