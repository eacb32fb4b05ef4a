"""Values that show where they lie in memory: in the text that Python makes of them, or by their place in a set.

Two such values of equal content count as the same, which is wrong for a program that makes texts of them, or iterates over sets
of them.
"""

from __future__ import annotations

import functools
from types import (
    BuiltinFunctionType,
    FunctionType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

from tilelang.fingerprint import genuine, watch
from tilelang.fingerprint.missing import MISSING
from tilelang.fingerprint.reads import MADE, RAISED

PROTOCOL = "__tilelang_fingerprint__"
"""In a class of ours: the names of the attributes that an object keeps for speed, and that stand for nothing."""

TEXT, SET = "a text is made", "a set is made"
"""What the code does that shows an address."""

TEXT_METHODS = frozenset("__repr__ __str__ __format__ format format_map vformat".split())
"""Methods that make a text of any value; those which a class defines count only where they are called."""
REMAINDER = "%"
"""Operator of numbers, and of texts with fields."""
OF_TEXT = frozenset((MADE, RAISED, REMAINDER))

_MRO = type.__dict__["__mro__"].__get__
_OF_CALLS = (MethodType, MethodWrapperType)
_WITHOUT_TEXT = (property, staticmethod, classmethod, functools.cached_property, FunctionType, MemberDescriptorType)
"""What a class has under a name, and what gives something else, or a bound method, where the name is read."""

_UNBOUND = (FunctionType, staticmethod, WrapperDescriptorType, MethodDescriptorType)
"""What a class has under a name, and gives without the class."""


def makes_text(names: set[str], texts: set[str], catches: bool) -> bool:
    """Whether a program makes texts of values that do not end in an exception which nothing catches.

    Args:
        names: what its code reads.
        texts: the strings that it has.
        catches: whether it handles exceptions.
    """
    if MADE in names or names & TEXT_METHODS or catches and RAISED in names:
        return True
    return REMAINDER in names and any("%" in text for text in texts)


def shown_by(value: Any) -> frozenset[str]:
    """Of :data:`TEXT` and :data:`SET`, what shows the address of a value, or of an object that is made by calling it."""
    kind = type(value)
    if kind is FunctionType or kind in _OF_CALLS or kind is BuiltinFunctionType and not _is_of_module(value):
        return frozenset((TEXT, SET))
    made = value if issubclass(kind, type) else kind
    if made is not kind and genuine.is_immutable(value) and value is not object:
        return frozenset()  # of whose objects those that show an address are used up where they are made: `zip`, for instance
    return _by_class(made)


_BOUND = frozenset(
    name
    for kind in (list, dict, set, tuple, str, int, bytes)
    for name, item in vars(kind).items()
    if type(item) is MethodDescriptorType
)


def are_bound(values: set[str], methods: set[str]) -> bool:
    """Whether one of the attributes that code reads without calling them may be a method.

    Args:
        values: the attributes.
        methods: names of functions in the classes of the program.
    """
    return not values.isdisjoint(methods) or not values.isdisjoint(_BOUND)


def name_of(value: Any) -> str:
    """What messages call such a value."""
    kind = type(value)
    named = value if issubclass(kind, type) else kind
    return value.__qualname__ if kind is FunctionType else type.__getattribute__(named, "__qualname__")


def _by_class(kind: type) -> frozenset[str]:
    found: tuple[str, ...] = (TEXT,) if _inherits(kind, "__repr__") else ()
    return frozenset((*found, SET) if _inherits(kind, "__hash__") else found)


def _inherits(kind: type, name: str) -> bool:
    """Whether objects of a class have this method from ``object``."""
    home = next(base for base in _MRO(kind) if name in base.__dict__)
    return home is object


def _is_of_module(value: BuiltinFunctionType) -> bool:
    return value.__self__ is None or isinstance(value.__self__, ModuleType)


def is_described_alone(item: Any) -> bool:
    """Whether what a class has under a name is an object that a program is given when it reads the name."""
    return type(item) not in _WITHOUT_TEXT


def given(value: Any, name: str, is_called: bool) -> Any:
    """What code is given by the attribute ``name`` of ``value``: None where that is a part of it, which is described with it; the
    value itself where it may be anything that was made from it.

    Args:
        value: is read from.
        name: of the attribute.
        is_called: whether the attribute is called at once.
    """
    is_class = isinstance(value, type)
    kind = type(value)
    if kind is not type if is_class else kind.__getattribute__ is not object.__getattribute__:
        return value
    bases = _MRO(value if is_class else kind)
    found = next((base.__dict__[name] for base in bases if name in base.__dict__), MISSING)
    if found is MISSING:
        attributes = {} if is_class else watch.own_dict(value) or {}
        by_protocol = any(PROTOCOL in base.__dict__ for base in bases)
        part = attributes.get(name) if by_protocol and not is_called else None
        return part if name in attributes else value
    if is_class and type(found) in _UNBOUND:
        return None if is_called else found
    return None if type(found) is MemberDescriptorType or not hasattr(type(found), "__get__") else value
