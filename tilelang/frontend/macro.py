"""Macros: functions that may use the whole language and are traced into each program that calls them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class Macro:
    """A function whose body is traced where it is called; its arguments are passed as they are."""

    def __init__(self, function: Callable[..., Any]):
        self.function = function
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from tilelang.frontend.builder import current
        from tilelang.frontend.hooks import HOOKS
        from tilelang.frontend.rewrite import rewrite

        builder = current(f"macro {self.function.__name__}")
        with builder.inlining():
            return rewrite(self.function, HOOKS)(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


def macro(function: Callable[..., Any] | None = None, **_: Any) -> Any:
    """Decorator: makes a :class:`Macro` of a function."""
    return macro if function is None else Macro(function)
