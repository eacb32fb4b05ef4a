"""Attributes that are not there: the error offers the name that was meant."""

from __future__ import annotations

from collections.abc import Iterable


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
