"""Warnings that are given once for each kind of trouble in a process."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

from tilelang.cache.printable import printable
from tilelang.callers import users_level
from tilelang.errors import CacheWarning

_said: set[tuple[str, str]] = set()
Result = TypeVar("Result")


def once(kind: str, message: str) -> None:
    """Warns with ``message`` unless this process has already warned of the same ``kind`` and message."""
    if (kind, message) not in _said:
        _said.add((kind, message))
        warnings.warn(printable(message), CacheWarning, stacklevel=users_level())


def guarded(work: Callable[[], Result], otherwise: Result, what: str) -> Result:
    """The result of some work of the cache, whose failure must not fail the call that it was to speed up.

    Args:
        work: what is done.
        otherwise: the result where it raises.
        what: beginning of the warning that is then given, once for each kind of trouble.
    """
    try:
        return work()
    except Exception as error:  # no failure of the cache may fail the call that it was to speed up
        once(what, f"{what}: {describe(error)}")
        return otherwise


def describe(error: BaseException) -> str:
    """An error as one short line, even if its ``__str__`` raises."""
    try:
        text = str(error).strip().partition("\n")[0]
    except Exception:
        text = ""
    kind = type(error).__name__
    return f"{kind}: {text[:200]}" if text else kind


def reset() -> None:
    """Forgets all warnings given so far (for tests)."""
    _said.clear()
