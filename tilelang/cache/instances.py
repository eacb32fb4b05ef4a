"""Fingerprints of classes, by their bases and attributes, and of instances, by their class and state.

Each function takes the :class:`~tilelang.cache.values.Describer` and the value.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import gc
import reprlib
from types import FunctionType
from typing import TYPE_CHECKING, Any

from tilelang.cache import foreign, purity, watch
from tilelang.cache.canonical import canonical

if TYPE_CHECKING:
    from tilelang.cache.values import Describer

PROTOCOL = "__tilelang_fingerprint__"
"""A method of objects that wrap user code: returns a tuple of the values that stand for the object."""

_BASES = (int, float, complex, str, bytes, tuple, list, dict)  # builtins that a user's class may extend
_STATELESS_BASES = frozenset(
    "abc.ABC typing.Generic typing.Protocol typing_extensions.Protocol enum.Enum enum.IntEnum enum.Flag enum.IntFlag "
    "enum.StrEnum enum.ReprEnum types.SimpleNamespace builtins.object".split()
)
_CLASS_BOOKKEEPING = frozenset(
    "__module__ __qualname__ __doc__ __dict__ __weakref__ __annotations__ __annotations_cache__ __annotate_func__ "
    "__firstlineno__ __static_attributes__ __dataclass_fields__ __dataclass_params__ __abstractmethods__ _abc_impl "
    "__parameters__ __orig_bases__ __match_args__ __slots__ _member_map_ _value2member_map_ _hashable_values_ "
    "_unhashable_values_ _unhashable_values_map_ __type_params__ __subclasshook__ __class_getitem__ "
    "__conditional_annotations__".split()
)
_DATACLASS_FILES = frozenset((dataclasses.__file__, reprlib.__file__))


def describe_class(describer: Describer, kind: type) -> None:
    """Feeds a class: one of a library by name, the user's by bases and attributes.

    Raises:
        Unfaithful: it is made by compiled code, or an attribute has no faithful fingerprint.
    """
    module = kind.__module__
    if not isinstance(module, str):
        raise describer.refuse(f"{kind!r} is a class of compiled code")
    name = kind.__qualname__
    if module == "builtins" or f"{module}.{name}" in _STATELESS_BASES:
        describer.text(f"library {module}.{name}")
        return
    if describer.by_name(kind, module, name):
        return
    describer.text(f"class {name}")
    describer.record(watch.MRO, kind, None, kind.__mro__)
    with describer.at(f"class {name}"):
        describer.value(type(kind))
        for base in kind.__mro__[1:]:
            describer.value(base)
        _namespace(describer, kind)


def _namespace(describer: Describer, kind: type) -> None:
    (namespace,) = (found for found in gc.get_referents(kind.__dict__) if type(found) is dict)
    describer.record(watch.DICT, namespace, tuple(namespace), tuple(namespace.values()))
    slots = {name for name, item in namespace.items() if type(item).__name__ == "member_descriptor"}
    fields = namespace.get("__dataclass_fields__", {})
    for spec in fields.values():
        describer.text(f"field {spec.name} {spec.init} {spec.compare} {spec.hash} {spec.repr} {spec.kw_only}")
        for default in (spec.default, spec.default_factory):
            describer.value(None if default is dataclasses.MISSING else (default,))
    for name, item in namespace.items():
        if fields and _is_generated(item):
            _generated(describer, item)
        elif name not in _CLASS_BOOKKEEPING and name not in slots:
            describer.text(f"attribute {name}")
            with describer.at(f"attribute {name!r}"):
                describer.value(item)


def _generated(describer: Describer, method: FunctionType) -> None:
    # What dataclass wrote follows from the fields; its defaults can be replaced afterwards.
    state = (method.__code__, method.__defaults__, method.__kwdefaults__)
    describer.record(watch.FUNCTION, method, None, state)
    describer.value(method.__defaults__)
    describer.value(method.__kwdefaults__)


def describe_object(describer: Describer, value: Any) -> None:
    """Feeds an instance: its class, and its state or what stands for it.

    Raises:
        Unfaithful: its state cannot be read, or has no faithful fingerprint.
    """
    kind = type(value)
    special = foreign.describer_of(kind)
    if special is not None:
        special(describer, value)
        return
    describer.record(watch.TYPE, value, None, kind)
    stand_in = getattr(kind, PROTOCOL, None)
    if stand_in is not None:
        describer.text(f"stand-in {kind.__module__}.{kind.__qualname__}")
        if hasattr(value, "__dict__"):
            describer.record(watch.DICT, value.__dict__, tuple(value.__dict__), tuple(value.__dict__.values()))
        describer.value(stand_in(value))
        return
    if isinstance(value, enum.Enum):
        describer.text(f"member {value.name}")
        describer.record(watch.DICT, value.__dict__, tuple(value.__dict__), tuple(value.__dict__.values()))
        describer.value(value._value_)
        describer.value(kind)
        return
    _instance(describer, value, kind)


def _instance(describer: Describer, value: Any, kind: type) -> None:
    for base in kind.__mro__[:-1]:
        if base not in _BASES and not _is_python_class(base):
            raise describer.refuse(f"an object of type {kind.__module__}.{kind.__qualname__}, whose state cannot be read")
    describer.text("instance")
    describer.value(kind)
    for base in _BASES:
        if isinstance(value, base):
            _extended(describer, value, base)
    if hasattr(value, "__dict__"):
        describer.contents(value.__dict__)
    for name in _slot_names(kind):
        content = getattr(value, name, None)
        describer.record(watch.CALL, functools.partial(_slot_is, value, name, content), None, True)
        with describer.at(f"attribute {name!r}"):
            describer.value(content)


def _extended(describer: Describer, value: Any, base: type) -> None:
    plain = base(value) if base is not str else str.__str__(value)
    if base in (list, dict):
        describer.record(watch.CALL, functools.partial(_same_items, value, base, plain), None, True)
    if base is tuple:
        describer.contents(tuple(value))
    elif base in (list, dict):
        with describer.at(base.__name__):
            describer.contents(plain)
    else:
        describer.text(canonical(base.__new__(base, plain)) if base is not str else canonical(plain))


def _same_items(value: Any, base: type, plain: Any) -> bool:
    now = base(value)
    if base is dict:
        return list(now) == list(plain) and all(a is b for a, b in zip(now.values(), plain.values(), strict=True))
    return len(now) == len(plain) and all(a is b for a, b in zip(now, plain, strict=True))


def _slot_is(value: Any, name: str, content: Any) -> bool:
    return getattr(value, name, None) is content


def _slot_names(kind: type) -> list[str]:
    names = []
    for base in reversed(kind.__mro__):
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__"):
                names.append(f"_{base.__name__.lstrip('_')}{name}" if name.startswith("__") and name[-2:] != "__" else name)
    return names


def _is_python_class(kind: type) -> bool:
    if f"{kind.__module__}.{kind.__qualname__}" in _STATELESS_BASES:
        return True
    if purity.is_own(kind.__module__):
        # Python classes of ours keep their state in attributes; TVM's objects keep it in C++.
        return purity.top(kind.__module__) == "tilelang"
    return not purity.is_library(kind.__module__) and bool(kind.__flags__ & 1 << 9)  # a heap type


def _is_generated(item: Any) -> bool:
    """Whether a method was written by ``dataclass``; what it does follows from the fields."""
    code = getattr(item, "__code__", None)
    return code is not None and (code.co_filename == "<string>" or code.co_filename in _DATACLASS_FILES)
