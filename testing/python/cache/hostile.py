"""Values whose inspection raises or has side effects."""

from __future__ import annotations

import types


def nested(depth: int) -> list:
    """Lists in one another."""
    found: list = []
    for _ in range(depth):
        found = [found]
    return found


class Unprintable(Exception):
    """An error that has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class NoClass:
    """An object whose ``__class__`` raises."""

    @property
    def __class__(self):
        raise RuntimeError("no class")


class RaisingFingerprint:
    """An object whose own fingerprint fails."""

    def __tilelang_fingerprint__(self):
        raise Unprintable


class LazyModule(types.ModuleType):
    """A module whose import fails when it is first used."""

    def __getattribute__(self, name):
        raise ImportError(name)


class ClosedMeta(type):
    """The type of a class without readable attributes."""

    def __getattribute__(cls, name):
        raise KeyError(name)


class Closed(metaclass=ClosedMeta):
    """A class without readable attributes."""


class NeverEqual:
    """An object that cannot be compared."""

    __hash__ = None

    def __eq__(self, other):
        raise ValueError("not comparable")


VALUES = {
    "deep": lambda: nested(100_000),
    "deeper than the interpreter's limit": lambda: nested(2_000),
    "class": NoClass,
    "fingerprint": RaisingFingerprint,
    "lazy module": lambda: LazyModule("lazy"),
    "metaclass": lambda: Closed,
    "equality": NeverEqual,
    "long number": lambda: 10**5000,
    "surrogate": lambda: "\ud800",
}
"""Name -> what makes such a value; a test that holds one in its parameters would itself look at it."""
