"""Mistaken keyword arguments and attributes: the error offers the name that was meant."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar, cast

_F = TypeVar("_F", bound=Callable[..., Any])
_UNEXPECTED = re.compile(r"(\w+)\(\) got an unexpected keyword argument '(\w+)'")


def near_keywords(function: _F) -> _F:
    """Decorator: an unknown keyword of ``function`` is a ``TypeError`` that offers the nearest one."""

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            inside = error.__traceback__ is not None and error.__traceback__.tb_next is not None
            hint = None if inside else keyword_hint(error, lambda name: function)
            if hint is None:
                raise
            raise TypeError(f"{error}; {hint}") from None

    return cast(_F, checked)


def keyword_hint(error: BaseException, find: Callable[[str], Any]) -> str | None:
    """What to say beside the error of a call with an unknown keyword; None if it says so itself, or is another error.

    Args:
        error: what Python raised.
        find: the function of a name, or None.
    """
    found = _UNEXPECTED.search(str(error)) if isinstance(error, TypeError) else None
    if "Did you mean" in str(error):  # Python 3.13 says so itself
        return None
    function = find(found[1]) if found else None
    if found is None or function is None:
        return None
    import difflib

    names = [parameter.name for parameter in inspect.signature(function).parameters.values() if parameter.kind in _NAMED]
    near = [name for name in names if found[2] in name.split("_")] or difflib.get_close_matches(found[2], names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}" if names else None


def name_hint(error: BaseException) -> str | None:
    """What to say beside the error of an attribute that does not exist; None if it says so itself, or is another error."""
    if not isinstance(error, AttributeError) or error.obj is None or "did you mean" in str(error):
        return None
    import difflib

    near = difflib.get_close_matches(error.name or "", dir(error.obj), n=1)
    return f"did you mean {near[0]!r}?" if near else None


_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
