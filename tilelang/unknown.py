"""Attributes that are not there: the error offers the name that was meant."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any


class NearMembers(enum.EnumMeta):
    """The type of an enumeration of which an unknown member is an error with the nearest one."""

    def __getattr__(cls, name: str) -> Any:
        if name in cls.__members__:
            return cls.__members__[name]
        if name.startswith("__"):  # asked for by Python's own protocols
            raise AttributeError(name)
        raise unknown_attribute(f"{cls.__name__} has no {name}", name, cls.__members__)


def unknown_attribute(message: str, name: str, known: Iterable[str], cutoff: float = 0.6) -> AttributeError:
    """The error of an unknown attribute.

    Args:
        message: what has no such attribute.
        name: the attribute.
        known: the names that there are.
        cutoff: how near to the name a known one has to be, from 0 to 1.

    Returns:
        The error, to be raised.
    """
    import difflib  # only a mistake needs it

    near = difflib.get_close_matches(name, known, n=1, cutoff=cutoff)
    # Python would set both attributes and add a hint of its own, which looks at dir() alone.
    return AttributeError(message + (f"; did you mean {near[0]!r}?" if near else ""), name=name, obj=None)
