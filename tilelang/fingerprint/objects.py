"""Instances: by class and state."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MemberDescriptorType
from typing import Any

from tilelang.fingerprint import addresses, foreign, libraries, watch
from tilelang.fingerprint.addresses import PROTOCOL
from tilelang.fingerprint.canonical import canonical
from tilelang.fingerprint.classes import layout_is_known
from tilelang.fingerprint.functions import OF_FUNCTION
from tilelang.fingerprint.missing import MISSING
from tilelang.fingerprint.walk import OTHERWISE, Describer

_BASES: dict[type, Callable[[Any], Any]] = {
    # builtin that a class may extend -> its part of an object
    int: int.__int__,
    float: float.__float__,
    complex: complex.__pos__,
    str: str.__str__,
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
    tuple: lambda value: tuple.__getitem__(value, slice(None)),
    list: lambda value: list.__getitem__(value, slice(None)),
    dict: dict.copy,
}
_MUTABLE = (list, dict)


def describe_object(describer: Describer, value: Any) -> bool:
    """Feeds an instance of a class that Python code made, or of a listed class of another package.

    Raises:
        Unfaithful: its state has no faithful fingerprint.
    """
    kind = type(value)
    special = foreign.describer_of(kind)
    if special is not None:
        special(describer, value)
        return True
    describer.record(watch.TYPE, value, None, kind)
    if _by_protocol(describer, value, kind):
        return True
    # All parts of an object must be readable: the builtin that it extends, its dictionary, and the slots of each class.
    bases = [base for base in kind.__mro__[:-1] if base not in _BASES]
    if not all(map(layout_is_known, bases)):
        return False
    describer.text("instance")
    describer.value(kind, False)
    for base in _BASES:
        if issubclass(kind, base):
            _extended(describer, value, base)
    attributes = watch.own_dict(value)
    if attributes is not None:
        describer.record(watch.OWN_DICT, value, None, attributes)
        describer.attributes(attributes)
    for base in reversed(bases):
        _slots(describer, value, base)
    return True


OTHERWISE.append(describe_object)


def _by_protocol(describer: Describer, value: Any, kind: type) -> bool:
    for_speed = getattr(kind, PROTOCOL, None)
    if for_speed is None or not _is_ours(kind):
        return False
    describer.text("instance")
    describer.value(kind, False)
    # Code that is given the object is noted for that; its parts are given by name only (addresses.given).
    is_given = addresses.TEXT not in addresses.shown_by(value)
    attributes = watch.own_dict(value) or {}
    names = list(attributes)
    describer.record_probe(lambda: list(attributes) == names, True)
    slots = [name for base in kind.__mro__ for name, item in base.__dict__.items() if type(item) is MemberDescriptorType]
    for name in (*names, *slots):
        if name not in for_speed and name not in OF_FUNCTION:
            describer.text(name)
            content = _watched_attribute(describer, value, name)
            describer.value(None if content is MISSING else content, is_given)
    return True


def _watched_attribute(describer: Describer, value: Any, name: str) -> Any:
    """An attribute in an object's dictionary or slots, of which the describer records that it must stay the same object."""
    slot = next((base.__dict__[name] for base in type(value).__mro__ if name in base.__dict__), None)
    if type(slot) is MemberDescriptorType:
        content = _slot(slot, value)
        describer.record_probe(functools.partial(_slot_is, slot, value, content), True)
        return content
    attributes = watch.own_dict(value) or {}
    describer.record(watch.OWN_DICT, value, None, attributes)
    describer.record(watch.ITEM, attributes, name, attributes[name])
    return attributes[name]


def _is_ours(kind: type) -> bool:
    try:
        return (libraries.library_label(kind) or "").startswith("own ")
    except libraries.Untrusted:
        return False


def _extended(describer: Describer, value: Any, base: type) -> None:
    part = _BASES[base]
    content = part(value)
    if base in _MUTABLE:
        describer.record_probe(functools.partial(_same_items, value, part, content), True)
    if isinstance(content, (tuple, list, dict)):
        with describer.at(base.__name__):
            describer.contents(content)
    else:
        describer.text(canonical(content))


def _same_items(value: Any, part: Callable[[Any], Any], then: Any) -> bool:
    now = part(value)
    if isinstance(now, dict):
        return list(now) == list(then) and all(a is b for a, b in zip(now.values(), then.values()))
    return len(now) == len(then) and all(a is b for a, b in zip(now, then))


def _slots(describer: Describer, value: Any, kind: type) -> None:
    for name, item in kind.__dict__.items():
        if type(item) is MemberDescriptorType:
            with describer.at(f"attribute {name!r}"):
                content = _watched_attribute(describer, value, name)
                describer.text(f"{name} is empty" if content is MISSING else name)
                describer.value(None if content is MISSING else content)


def _slot(item: Any, value: Any) -> Any:
    try:
        return item.__get__(value)
    except AttributeError:
        return MISSING


def _slot_is(item: Any, value: Any, content: Any) -> bool:
    return _slot(item, value) is content
