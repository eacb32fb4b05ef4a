"""Classes: a library's are identified by name, the user's by their bases and everything in their namespace."""

from __future__ import annotations

import dataclasses
import enum
import typing
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import Any

from tilelang.fingerprint import addresses, genuine, libraries, watch
from tilelang.fingerprint.functions import labelled
from tilelang.fingerprint.library_globals import globals_of_class
from tilelang.fingerprint.library_state import BOOKKEEPING, class_state, namespace_of
from tilelang.fingerprint.references import reference
from tilelang.fingerprint.registrations import is_of_library, registered_as, registered_classes
from tilelang.fingerprint.walk import OTHERWISE, Describer, describes

_NAME = type.__dict__["__name__"].__get__  # a metaclass may have a `__name__` of its own
_MRO = type.__dict__["__mro__"].__get__
_DICT = type.__dict__["__dict__"].__get__
_OF_ENUMERATIONS = frozenset(("_member_type_", "_new_member_"))
"""Where an enumeration keeps the class of its values: ``object``, mostly, whose objects show their address."""


def describe_class(describer: Describer, value: Any) -> bool:
    """Feeds a class; False for anything else.

    Raises:
        Unfaithful: it is compiled code that is not listed, or something in it has no faithful fingerprint.
    """
    if not issubclass(type(value), type):
        return False
    if labelled(describer, value):
        _library_class(describer, value)
        return True
    name = _NAME(value)
    if libraries.is_large_name(_DICT(value).get("__module__")) and not _carries_nothing(value):
        raise describer.refuse(f"{_DICT(value)['__module__']}.{name} is not known to give the same result at every call")
    describer.text(f"class {name}")
    describer.record(watch.MRO, value, None, _MRO(value))
    describer.record(watch.TYPE, value, None, type(value))
    with describer.at(f"class {name}"):
        describer.record_probe(lambda: (_NAME(value), value.__qualname__), (name, value.__qualname__))
        describer.text(value.__qualname__)
        describer.value(type(value), False)
        for base in _MRO(value)[1:]:
            describer.value(base, False)
        registered_classes(describer, value)
        registered_as(describer, value)
        _namespace(describer, value)
    return True


OTHERWISE.append(describe_class)


def _carries_nothing(kind: type) -> bool:
    """Whether a class adds nothing to its bases, as ``abc.ABC`` does."""
    return all(name in BOOKKEEPING or name in ("__module__", "__doc__", "__slots__", "__qualname__") for name in _DICT(kind))


def _library_class(describer: Describer, kind: type) -> None:
    describer.record(watch.TYPE, kind, None, type(kind))
    class_state(describer, kind)
    if not libraries.is_own_name(kind.__module__):
        globals_of_class(describer, kind)
        registered_as(describer, kind)
    registered_classes(describer, kind)


def _namespace(describer: Describer, kind: type) -> None:
    namespace = namespace_of(kind)
    describer.record_dict(namespace)
    describer.text(f"abstract {sorted(namespace.get('__abstractmethods__', ()))}")
    for name, item in namespace.items():
        if name in BOOKKEEPING:
            continue
        describer.text(f"attribute {name}")
        with describer.at(f"attribute {name!r}"):
            if name == "__annotations__" and type(item) is dict:
                _annotations(describer, item)
            elif type(item) is MemberDescriptorType and item.__objclass__ is kind:
                describer.text("slot")
            elif not _inherited_from_library(describer, kind, item):
                by_name = name in _OF_ENUMERATIONS and issubclass(kind, enum.Enum)
                describer.value(item, addresses.is_described_alone(item) and not by_name)
                if by_name:
                    describer.shows_address_under(name, item)
                if type(_inner(item)) is FunctionType:
                    describer.methods.add(name)


def _annotations(describer: Describer, notes: dict[str, Any]) -> None:
    describer.record_dict(notes)
    for name, note in notes.items():
        describer.text(name)
        reference(describer, note)


def _inherited_from_library(describer: Describer, kind: type, item: Any) -> bool:
    """Feeds what a library put into the class from one of its own, as ``enum`` does; False for anything else."""
    if not callable(_inner(item)) or isinstance(item, type):
        return False
    for base in _MRO(kind)[1:]:
        for name, theirs in _DICT(base).items():
            # enum copies methods of Enum into each new enumeration: the same function, found by identity.
            if _inner(theirs) is _inner(item) and is_of_library(base):
                describer.text(f"that of {_NAME(base)}.{name}")
                return True
    return False


def _inner(item: Any) -> Any:
    return item.__func__ if type(item) in (staticmethod, classmethod) else item


def layout_is_known(kind: type) -> bool:
    """Whether objects of a class, apart from its bases' parts, consist of slots, a dictionary and weak references alone: none
    of the state is where only compiled code sees it."""
    if kind is typing.Generic:
        return True
    if not kind.__flags__ & genuine.HEAP_TYPE or kind in libraries.COMPILED_CLASSES:
        return False
    namespace = _DICT(kind)
    if "__dict__" in namespace and type(namespace["__dict__"]) is not GetSetDescriptorType:
        return False
    slots = sum(type(item) is MemberDescriptorType for item in namespace.values())
    others = sum(type(namespace.get(name)) is GetSetDescriptorType for name in ("__dict__", "__weakref__"))
    # A class statement adds a pointer for each slot, for the dictionary and for weak references. Whatever is larger has fields of
    # C, which cannot be read.
    added = (kind.__basicsize__ - (kind.__base__ or object).__basicsize__) // 8
    return slots <= added <= slots + others


@describes(dataclasses.Field)
def _field(describer: Describer, value: dataclasses.Field) -> None:
    describer.text("field")
    state = [getattr(value, name, None) for name in _FIELD_PARTS]
    now = lambda: all(getattr(value, name, None) is part for name, part in zip(_FIELD_PARTS, state))  # noqa: E731
    describer.record_probe(now, True)
    describer.text(repr(value._field_type))
    for name, part in zip(_FIELD_PARTS, state):
        describer.text(name)
        if name == "type":
            reference(describer, part)
        elif part is dataclasses.MISSING:
            describer.text("missing")
        elif name == "default_factory":
            describer.value(part, False)
            describer.methods |= OF_FACTORIES if addresses.shown_by(part) else frozenset()
        else:
            describer.value(part)


OF_FACTORIES = frozenset(("default_factory", "__dataclass_fields__"))
"""Attributes by which a program is given the factory of a default value, or a field with it."""
_FIELD_PARTS = ("name", "type", "default", "default_factory", "init", "repr", "hash", "compare", "metadata", "kw_only")


@describes(type(dataclasses.MISSING), type(vars(dataclasses)["_HAS_DEFAULT_FACTORY"]), type(dataclasses.KW_ONLY))
def _mark(describer: Describer, value: Any) -> None:
    describer.text(f"dataclasses {type(value).__qualname__}")
