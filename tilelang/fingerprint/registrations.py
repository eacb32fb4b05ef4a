"""Registrations that no class or function shows: with abstract base classes, and in tables of functions such as ``copy``'s."""

from __future__ import annotations

import _abc  # pyright: ignore[reportMissingImports] - compiled, without a stub
import abc
from types import FunctionType
from typing import Any

from tilelang.fingerprint import genuine, libraries
from tilelang.fingerprint.walk import Describer

_FLAGS = type.__dict__["__flags__"].__get__  # a metaclass may have `__flags__` of its own
_PATTERNS = 1 << 5 | 1 << 6
"""``Py_TPFLAGS_SEQUENCE`` and ``Py_TPFLAGS_MAPPING``."""


def registered_classes(describer: Describer, kind: type) -> None:
    """Notices classes that were registered with an abstract base class (``ABC.register``), which no namespace shows.

    Raises:
        Unfaithful: one of them is the user's.
    """
    if not issubclass(type(kind), abc.ABCMeta):
        return
    _record_registrations(describer)
    found = {registered() for base in _below(kind) for registered in _abc._get_dump(base)[0]} - {None}
    for registered in found:
        if not genuine.is_immutable(registered) and not is_of_library(registered):
            raise describer.refuse(f"the class {registered.__qualname__} was registered with {kind.__qualname__}")
    describer.text(f"registered {sorted(f'{each.__module__}.{each.__qualname__}' for each in found)}")


def registered_as(describer: Describer, kind: type) -> None:
    """Notices which patterns of ``match`` the objects of a class fit: those of a sequence or of a mapping, if it was registered
    as one. Python notes that in the class itself, and nowhere in its namespace."""
    _record_registrations(describer)
    describer.text(f"patterns {_FLAGS(kind) & _PATTERNS}")


def _record_registrations(describer: Describer) -> None:
    # The token changes with every registration in the process, whichever class it is with.
    if describer.is_first("registrations"):
        describer.record_probe(abc.get_cache_token, abc.get_cache_token())


def _below(kind: type) -> list[type]:
    found = [kind]
    for base in found:
        found += [each for each in type.__subclasses__(base) if issubclass(type(each), abc.ABCMeta) and each not in found]
    return found


def is_of_library(kind: type) -> bool:
    """Whether a class is a library's, listed or not."""
    try:
        return libraries.library_label(kind) is not None
    except libraries.Untrusted:
        return True


def registered_functions(describer: Describer, table: dict[Any, Any]) -> None:
    """Feeds the entries of a library's table of functions that a program has put there: those for its own classes, and those
    with its own functions."""
    describer.record_dict(table)
    for key, value in list(table.items()):
        if _is_own(key) or _is_own(value):
            describer.value(key)
            describer.value(value)


def is_table_of_functions(value: Any) -> bool:
    """Whether a variable holds a dictionary from keys to functions, which its library looks up when it is called."""
    return type(value) is dict and bool(value) and all(map(callable, list(value.values())))


def _is_own(value: Any) -> bool:
    if type(value) is FunctionType:
        return not genuine.is_installed_code(value.__code__)
    return isinstance(value, type) and not genuine.is_immutable(value) and not genuine.is_installed_class(value)
