"""Classes: those of a library by name, the user's by bases and everything in their namespace."""

from __future__ import annotations

import _abc  # pyright: ignore[reportMissingImports] - compiled, without a stub
import abc
import dataclasses
import types
import typing
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any

from tilelang.fingerprint import genuine, libraries, watch
from tilelang.fingerprint.containers import pairs
from tilelang.fingerprint.functions import labelled
from tilelang.fingerprint.library_globals import globals_of_class
from tilelang.fingerprint.library_state import BOOKKEEPING, class_state, namespace_of
from tilelang.fingerprint.modules import reference
from tilelang.fingerprint.walk import OTHERWISE, Describer, describes

_NAME = type.__dict__["__name__"].__get__  # a metaclass may have a `__name__` of its own
_MRO = type.__dict__["__mro__"].__get__
_DICT = type.__dict__["__dict__"].__get__


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
        describer.value(type(value))
        for base in _MRO(value)[1:]:
            describer.value(base)
        _subclasses(describer, value)
        _namespace(describer, value)
    return True


OTHERWISE.append(describe_class)


def _carries_nothing(kind: type) -> bool:
    """Whether a class only gives a name to its bases, as ``abc.ABC`` does."""
    return all(name in BOOKKEEPING or name in ("__module__", "__doc__", "__slots__", "__qualname__") for name in _DICT(kind))


def _library_class(describer: Describer, kind: type) -> None:
    describer.record(watch.TYPE, kind, None, type(kind))
    class_state(describer, kind)
    if not libraries.is_own_name(kind.__module__):
        globals_of_class(describer, kind)
    _subclasses(describer, kind)


def _subclasses(describer: Describer, kind: type) -> None:
    """Notices classes that were registered with an abstract one, of which no namespace tells."""
    if not issubclass(type(kind), abc.ABCMeta):
        return
    describer.record_probe(abc.get_cache_token, abc.get_cache_token())
    found = {registered() for base in _below(kind) for registered in _abc._get_dump(base)[0]} - {None}
    for registered in found:
        if not genuine.is_immutable(registered) and not _is_of_library(registered):
            raise describer.refuse(f"the class {registered.__qualname__} was registered with {kind.__qualname__}")
    describer.text(f"registered {sorted(f'{each.__module__}.{each.__qualname__}' for each in found)}")


def _below(kind: type) -> list[type]:
    found = [kind]
    for base in found:
        found += [each for each in type.__subclasses__(base) if issubclass(type(each), abc.ABCMeta) and each not in found]
    return found


def _is_of_library(kind: type) -> bool:
    try:
        return libraries.library_label(kind) is not None
    except libraries.Untrusted:
        return True


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
                describer.value(item)


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
            if _inner(theirs) is _inner(item) and _is_of_library(base):
                describer.text(f"that of {_NAME(base)}.{name}")
                return True
    return False


def _inner(item: Any) -> Any:
    return item.__func__ if type(item) in (staticmethod, classmethod) else item


def layout_is_known(kind: type) -> bool:
    """Whether objects of a class, apart from its bases' parts, consist of slots, a dictionary and weak references alone: none
    of the state is where only compiled code sees it."""
    if not kind.__flags__ & genuine.HEAP_TYPE or kind in libraries.COMPILED_CLASSES:
        return False
    namespace = _DICT(kind)
    if "__dict__" in namespace and type(namespace["__dict__"]) is not GetSetDescriptorType:
        return False
    slots = sum(type(item) is MemberDescriptorType for item in namespace.values())
    others = sum(type(namespace.get(name)) is GetSetDescriptorType for name in ("__dict__", "__weakref__"))
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
        else:
            describer.value(part)


_FIELD_PARTS = ("name", "type", "default", "default_factory", "init", "repr", "hash", "compare", "metadata", "kw_only")


@describes(type(dataclasses.MISSING), type(vars(dataclasses)["_HAS_DEFAULT_FACTORY"]), type(dataclasses.KW_ONLY))
def _mark(describer: Describer, value: Any) -> None:
    describer.text(f"dataclasses {type(value).__qualname__}")


@describes(typing.TypeVar)
def _type_variable(describer: Describer, value: typing.TypeVar) -> None:
    describer.text(f"variable {value.__name__} {value.__covariant__} {value.__contravariant__}")
    describer.record_dict(vars(value))
    pairs(describer, "attributes", {name: item for name, item in vars(value).items() if not name.startswith("__")})
    reference(describer, value.__bound__)
    for constraint in value.__constraints__:
        reference(describer, constraint)


def _typing(*names: str) -> list[type]:
    """Classes of ``typing`` and ``types`` under these names, as far as this version of Python has them."""
    found = (getattr(home, name, None) for home in (typing, types) for name in names)
    return [kind for kind in found if kind is not None]


@describes(
    *_typing("GenericAlias", "UnionType", "Union", "_GenericAlias", "_UnionGenericAlias", "_LiteralGenericAlias"),
    *_typing("_CallableGenericAlias", "_AnnotatedAlias"),
)
def _alias(describer: Describer, value: Any) -> None:
    describer.text(f"alias {type(value).__qualname__}")
    for argument in (typing.get_origin(value), *typing.get_args(value)):
        reference(describer, argument)
    for extra in getattr(value, "__metadata__", ()):
        describer.value(extra)


@describes(typing.ForwardRef)
def _forward(describer: Describer, value: typing.ForwardRef) -> None:
    describer.text(f"forward {value.__forward_arg__}")


@describes(
    *_typing("_SpecialForm", "_LiteralSpecialForm", "_TypedCacheSpecialForm", "_SpecialGenericAlias"),
    *_typing("_CallableType", "_TupleType", "_AnyMeta"),
)
def _form(describer: Describer, value: Any) -> None:
    describer.text(f"form {value!r}")
