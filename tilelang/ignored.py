"""Parameters that are accepted, so that programs written for other releases run, and have no effect."""

from __future__ import annotations

import warnings
from typing import Any

from tilelang.callers import users_level
from tilelang.errors import IgnoredParameterWarning
from tilelang.records import Record

_warned: set[tuple[str, str]] = set()


def ignored(function: str, **parameters: Any) -> None:
    """Warns, once in a process, of each parameter of ``function`` that is set; None, False and the empty string are not set.

    It is called in the functions rather than wrapped around them, since source keys read a function's own code.
    """
    for name, value in parameters.items():
        given = value.value if isinstance(value, _NotDefault) else value
        is_set = given is not value or not (value is None or value is False or (isinstance(value, str) and not value))
        if is_set and (function, name) not in _warned:
            _warned.add((function, name))
            warnings.warn(f"{function}: {name}={given!r} has no effect", IgnoredParameterWarning, stacklevel=users_level())


class _NotDefault(Record):
    """A value that differs from its parameter's default, also where it is False."""

    value: Any


def unless(default: Any, value: Any) -> Any:
    """``value`` as one that is set, or None if it is ``default``."""
    return None if type(value) is type(default) and value == default else _NotDefault(value)


def reset() -> None:
    """Forgets what was warned of (for tests)."""
    _warned.clear()
