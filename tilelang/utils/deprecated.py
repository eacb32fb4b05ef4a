"""A decorator for names that will be removed."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any


def deprecated(method_name: str, new_method_name: str, phaseout_version: str | None = None) -> Callable[..., Any]:
    """Decorator: calls warn that a name will be removed, and what to call instead.

    Args:
        method_name: the old name.
        new_method_name: the new one.
        phaseout_version: the release without the old name, where it is known.

    Returns:
        The decorator.
    """
    until = f" It will be removed in version {phaseout_version}." if phaseout_version else ""
    message = f"{method_name} is deprecated, use {new_method_name} instead.{until}"

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def warned(*args: Any, **kwargs: Any) -> Any:
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            return function(*args, **kwargs)

        return warned

    return decorate
