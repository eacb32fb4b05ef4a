"""Annotations and their parts: classes, of which only the name counts, aliases, type variables.

A library's class in an annotation is not called, unless code reads it from there; the attributes by which it could are limited.
"""

from __future__ import annotations

import sys
import types
import typing
from types import ModuleType
from typing import Any

from tilelang.fingerprint import libraries, library_state, watch
from tilelang.fingerprint.containers import pairs
from tilelang.fingerprint.registrations import registered_classes
from tilelang.fingerprint.walk import Describer, describes

_PART_READERS = frozenset(
    "__args__ __annotations__ __bound__ __constraints__ __origin__ __supertype__ __default__ __dataclass_fields__ __parameters__"
    " type get_args get_origin".split()
)
"""Attributes that give the parts of an annotation, and functions that do."""
READERS_OF_TYPES = (typing.get_args, typing.get_origin)


def reference(describer: Describer, value: Any) -> None:
    """Feeds an annotation: a class of a library may stand there for its name, since it is not called."""
    if isinstance(value, type) and _is_library_class(value):
        _library_class(describer, value)
    elif type(value) in _ALIASES:
        _parts(describer, value, reference)
    else:
        describer.value(value)


def _library_class(describer: Describer, kind: type) -> None:
    describer.text(f"the class {kind.__module__}.{kind.__qualname__}")
    if not libraries.is_large_package(kind.__module__):
        library_state.class_state(describer, kind)
    registered_classes(describer, kind)
    if not _may_be_called(kind):
        describer.limit(f"the class {kind.__qualname__} in an annotation", _PART_READERS)


def _may_be_called(kind: type) -> bool:
    """Whether a library's class would have a fingerprint also outside of annotations."""
    try:
        label = libraries.library_label(kind)
    except libraries.Untrusted:
        return False
    return label is not None or not libraries.is_own_name(kind.__module__)


def _is_library_class(kind: type) -> bool:
    """Whether a library has a class under the name that the class gives of itself.

    Of this package's classes only those count that have no fingerprint when they are called (``tilelang.JITKernel``).
    """
    home = type.__getattribute__(kind, "__module__")
    if libraries.is_own_name(home):
        loaded = None if libraries.is_trusted_own(home) else sys.modules.get(home)
    else:
        loaded = sys.modules.get(home) if libraries.is_large_name(home) else None
    return isinstance(loaded, ModuleType) and vars(loaded).get(kind.__name__) is kind


def _typing(*names: str) -> list[type]:
    """Classes of ``typing`` and ``types`` under these names, as far as this version of Python has them."""
    found = (getattr(home, name, None) for home in (typing, types) for name in names)
    return [kind for kind in found if kind is not None]


_ALIASES = (
    *_typing("GenericAlias", "UnionType", "Union", "_GenericAlias", "_UnionGenericAlias", "_LiteralGenericAlias"),
    *_typing("_CallableGenericAlias", "_AnnotatedAlias"),
)


@describes(*_ALIASES)
def _alias(describer: Describer, value: Any) -> None:
    _parts(describer, value, describer.__class__.value)


def _parts(describer: Describer, value: Any, feed_origin: Any) -> None:
    """Feeds the parts of an alias.

    Args:
        describer: what is fed.
        value: the alias.
        feed_origin: feeds its origin, to which an alias that is not in an annotation hands on calls and attributes; those of
            ``isinstance`` go to the arguments of a union.
    """
    describer.text(f"alias {type(value).__qualname__}")
    own = watch.own_dict(value)
    if own is not None:  # those of `typing` are objects of Python code
        describer.record_dict(own)
    feed_origin(describer, getattr(value, "__origin__", None))
    for argument in typing.get_args(value):
        reference(describer, argument)
    for extra in getattr(value, "__metadata__", ()):
        describer.value(extra)


def _attributes_of(variable: typing.TypeVar) -> dict[str, Any]:
    """The attributes of a type variable, which have no ``__dict__`` from Python 3.12 on."""
    if hasattr(variable, "__dict__"):
        return vars(variable)
    import ctypes  # type variables among values are rare

    generic_dict = ctypes.pythonapi.PyObject_GenericGetDict
    generic_dict.restype, generic_dict.argtypes = ctypes.py_object, (ctypes.py_object, ctypes.c_void_p)
    return generic_dict(variable, None)


@describes(typing.TypeVar)
def _type_variable(describer: Describer, value: typing.TypeVar) -> None:
    describer.text(f"variable {value.__name__} {value.__covariant__} {value.__contravariant__}")
    own = _attributes_of(value)
    describer.record_dict(own)
    pairs(describer, "attributes", {name: item for name, item in own.items() if not name.startswith("__")})
    has_default = getattr(value, "has_default", bool)()
    describer.text(f"{getattr(value, '__infer_variance__', False)} {has_default}")
    for part in (value.__bound__, *value.__constraints__):
        reference(describer, part)
    if has_default:
        reference(describer, getattr(value, "__default__", None))


@describes(typing.ForwardRef)
def _forward(describer: Describer, value: typing.ForwardRef) -> None:
    describer.record_probe(lambda: value.__forward_arg__, value.__forward_arg__)
    describer.text(f"forward {value.__forward_arg__}")


@describes(
    *_typing("_SpecialForm", "_LiteralSpecialForm", "_TypedCacheSpecialForm", "_SpecialGenericAlias"),
    *_typing("_CallableType", "_TupleType", "_AnyMeta"),
)
def _form(describer: Describer, value: Any) -> None:
    describer.text(f"form {value!r}")
    origin = getattr(value, "__origin__", None)
    if isinstance(origin, type):
        reference(describer, origin)
