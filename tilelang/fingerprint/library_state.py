"""What a program can change in a library's functions and classes: defaults, attributes, methods.

Library code is identified by name and version; this is the state that these do not determine.
"""

from __future__ import annotations

import functools
import gc
import re
import sys
from enum import Enum
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType, MethodType
from typing import Any

from tilelang.fingerprint import attributes, genuine, libraries, watch
from tilelang.fingerprint.canonical import NotCanonical, canonical
from tilelang.fingerprint.missing import MISSING
from tilelang.fingerprint.walk import SCALARS, Describer

BOOKKEEPING = frozenset(
    # What Python keeps for itself; code that reads it is refused by name.
    "__dict__ __weakref__ __static_attributes__ __firstlineno__ __annotations_cache__ _abc_impl __abstractmethods__".split()
)
_THIS = __name__.partition(".")[0]
_CHANGING = (dict, list, set)  # caches of the library, for instance
_MRO = type.__dict__["__mro__"].__get__
_DICT = type.__dict__["__dict__"].__get__


def namespace_of(kind: type) -> dict[str, Any]:
    """The dictionary of a class itself, and not the view that Python gives of it."""
    # The view has no identity and no version to compare; the dictionary behind it has.
    (found,) = (table for table in gc.get_referents(_DICT(kind)) if type(table) is dict)
    return found


def function_state(describer: Describer, value: FunctionType) -> None:
    """Feeds the defaults and attributes of a library's function."""
    with describer.at(f"{value.__qualname__}()"):
        describer.value(value.__defaults__)
        describer.value(value.__kwdefaults__)
        describer.attributes(value.__dict__)


def class_state(describer: Describer, kind: type) -> None:
    """Feeds what is in a library's class and its bases, as far as Python code can put something there."""
    for base in _MRO(kind):
        if _is_open(base):
            own_namespace(describer, base)


def own_namespace(describer: Describer, kind: type) -> None:
    """Feeds what is in a library's class itself."""
    namespace = namespace_of(kind)
    describer.record_dict(namespace)
    table = {name: item for name, item in namespace.items() if not _is_extension(kind, item)}
    describer.text(_brief_table(table))
    for name, item in table.items():
        is_named = name in BOOKKEEPING or attributes.is_special(name)
        if is_named or not is_made_by_program(item) or not is_put_there(kind, name, item):
            continue
        if not _members(describer, kind, item):
            describer.value(item)


def _is_extension(kind: type, item: Any) -> bool:
    """Whether a class of TVM has a function from this package's files, which may add it only when a later module is loaded."""
    function = genuine.function_in(item)
    if function is None or not libraries.is_own_name(kind.__module__) or kind.__module__.startswith(f"{_THIS}."):
        return False
    home = genuine.home_of(function.__code__, (_THIS,))
    return home is not None and home.package == _THIS and genuine.is_genuine_code(function.__code__, home)


def _members(describer: Describer, kind: type, item: Any) -> bool:
    """Feeds a member, or a table of members, of a library's enumeration, whose class counts by name; False for anything else."""
    if type(item) is MethodType and item.__self__ is kind and genuine.is_installed_code(item.__func__.__code__):
        describer.text(brief(item.__func__))
        return True
    table: dict[Any, Any] = item if type(item) is dict else {0: item}
    if not issubclass(kind, Enum) or not all(isinstance(member, kind) for member in table.values()):
        return False
    if table is item:
        describer.record_dict(table)
    describer.text(canonical(table))
    return True


def callable_state(describer: Describer, value: Any) -> None:
    """Feeds what a function of ours, or a listed object of compiled code (one of numpy's for instance), is and has."""
    inner = getattr(value, "_implementation", value)
    if type(inner) is FunctionType:
        describer.record(watch.FUNCTION_CODE, inner, None, (inner.__code__, inner.__defaults__, inner.__kwdefaults__))
    describer.text(f"{getattr(value, '__name__', '')} {brief(inner)}")
    own = getattr(value, "__dict__", None)
    if type(own) is dict:
        describer.record_dict(own)
        describer.text(_brief_table(own))
        for item in list(own.values()):
            if is_made_by_program(item):
                describer.value(item)


def attribute_of_ours(describer: Describer, value: Any, name: str) -> None:
    """Feeds an attribute that a program put into one of our functions or classes, or into the class of an object of ours; nothing
    where it did not, so that a module that is not loaded yet is the same.

    Args:
        describer: what is fed.
        value: ours, as it is; it counts by name.
        name: of the attribute that is read.
    """
    if type(value) is FunctionType:
        _note(describer, value.__dict__, name, True)
        return
    for base in _MRO(value if isinstance(value, type) else type(value)):
        namespace = namespace_of(base) if _is_open(base) else {}
        _note(describer, namespace, name, name in namespace and is_put_there(base, name, namespace[name]))
        if name in namespace:
            return


def _note(describer: Describer, table: dict[str, Any], name: str, counts: bool) -> None:
    """Watches an attribute, and feeds it where it is there and counts."""
    describer.record(watch.ITEM, table, name, table.get(name, MISSING))
    if counts and name in table:
        describer.text(f"{name} {brief(table[name])}")
        if is_made_by_program(table[name]):
            describer.value(table[name])


def is_put_there(kind: type, name: str, item: Any) -> bool:
    """Whether an attribute of a class of ours is not from the class's own text, nor what Python makes of it.

    Args:
        kind: the class.
        name: of the attribute.
        item: what the class has there.

    Returns:
        True also where a plain value stands in the place of a method of the text.
    """
    file = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
    function = genuine.function_in(item)
    if function is not None:
        return not (genuine.is_genuine_code(function.__code__, genuine.Home("", file)) or _is_generated(kind, name, function))
    is_slot = isinstance(item, (MemberDescriptorType, GetSetDescriptorType))
    if is_slot or attributes.is_special(name):
        return False
    # Names in the text of the class: an attribute that the text never mentions was put there from outside.
    written = genuine.class_text(file, kind.__name__)
    return name not in written.names or name in written.functions and type(item) in SCALARS


def _is_generated(kind: type, name: str, function: FunctionType) -> bool:
    """Whether a method is one that Python makes for data classes, named tuples and enumerations."""
    return attributes.is_special(name) and (
        function.__code__.co_filename.startswith("<") or genuine.is_installed_code(function.__code__)
    )


def is_as_written(function: FunctionType) -> bool:
    """Whether a function's code is of a library's or our own files, and each of its plain defaults a constant there."""
    if not genuine.is_installed_code(function.__code__) and not libraries.is_own_function(function):
        return False
    values = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    constants = genuine.constants(function.__code__.co_filename)
    return all(canonical(value) in constants for value in values if type(value) in SCALARS)


def is_made_by_program(item: Any) -> bool:
    """Whether the short text of an item leaves something out, and the item is not of a library's class."""
    kind = type(item)
    if kind in _CHANGING or kind in (functools.partial, MethodType):
        return True
    if isinstance(item, (type, FunctionType, staticmethod, classmethod, property)) or not _has_python_state(kind):
        return False
    return not genuine.is_installed_class(kind)


def _has_python_state(kind: type) -> bool:
    """Whether a class is made by a ``class`` statement: objects of compiled heap types have no dictionary and no slots."""
    return any(name in _DICT(base) for base in _MRO(kind)[:-1] if _is_open(base) for name in ("__dict__", "__slots__"))


def _is_open(kind: type) -> bool:
    return not genuine.is_immutable(kind)


def identity(value: Any) -> str:
    """A text that identifies one of our functions or classes."""
    return f"{getattr(value, '__module__', '')} {brief(value)} {getattr(value, '__qualname__', '')}"


def _brief_table(table: dict[str, Any]) -> str:
    return " ".join(f"{name}={brief(item)}" for name, item in sorted(table.items()) if name not in BOOKKEEPING)


def brief(item: Any) -> str:
    """A short text of an item that differs if a program has replaced the item."""
    if isinstance(item, (staticmethod, classmethod)):
        item = item.__func__
    if isinstance(item, property):
        return " ".join(brief(part) for part in (item.fget, item.fset, item.fdel))
    if type(item) is FunctionType:
        code = item.__code__
        return f"{code.co_name}:{code.co_firstlineno} {brief_defaults(item)}"
    if isinstance(item, re.Pattern):
        return f"{item.pattern!r} {item.flags}"
    return _plain(item)


def brief_defaults(function: FunctionType) -> str:
    """The defaults of a library's function, as far as they are plain values."""
    return f"{_plain(function.__defaults__)} {_plain(function.__kwdefaults__)}"


def _plain(item: Any) -> str:
    if type(item) not in _CHANGING:
        try:
            return canonical(item)
        except NotCanonical:
            pass
    return type(item).__qualname__
