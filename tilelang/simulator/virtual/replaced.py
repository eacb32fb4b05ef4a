"""Attributes of torch that are others for a while."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Sets an attribute until the end of the block; what was inherited or missing then is so again.

    Args:
        owner: the module or class.
        name: of the attribute, which need not be there.
        value: what it is for a while.
    """
    before = vars(owner).get(name, _MISSING)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


_MISSING = object()


def constant(value: Any) -> Callable[..., Any]:
    """A function that returns one value whatever it is given; another function at each call, as torch keeps tables by function.

    Args:
        value: what it returns.
    """
    return lambda *_, **__: value
