"""The table of tile operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

RULES: dict[type, Callable[[Any, Any], Callable[[Any], Any]]] = {}
"""Record of an operator -> what makes its effect on a state, of ``(compiler, record)``."""


def rule(record: type) -> Callable[[Callable], Callable]:
    """Decorator: the function makes the effect of an operator."""

    def register(make: Callable) -> Callable:
        if record in RULES:
            raise ValueError(f"{record.__name__} has a rule in {RULES[record].__module__} and in {make.__module__}")
        RULES[record] = make
        return make

    return register
