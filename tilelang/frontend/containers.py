"""Python containers and objects in a kernel: a run-time loop or condition that changes one does so once, while it is traced."""

from __future__ import annotations

import dis
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from functools import lru_cache
from operator import is_
from types import CodeType, FunctionType, MemberDescriptorType, ModuleType, SimpleNamespace
from typing import Any

from tilelang.errors import ChangedContainerError, ComputedKeyError
from tilelang.errors.tracing import RANDOM_NUMBERS
from tilelang.frontend.access import is_buffer, names_memory
from tilelang.frontend.builder import Builder, current
from tilelang.frontend.frames import Stored
from tilelang.frontend.hidden_state import has_hidden_state, hidden_state, position
from tilelang.frontend.macro import Macro
from tilelang.frontend.names import UNBOUND, Names, Outside
from tilelang.frontend.texts import Text
from tilelang.frontend.values import LocalVar, ReadVar, Unusable, as_operand, is_symbolic
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int

CONTAINERS = (list, dict, set, deque)

_LIBRARIES = frozenset({"tilelang", "tvm", "tvm_ffi", "torch", "numpy", *sys.stdlib_module_names} - {"__main__"})
_MOST_OBJECTS = 1024
"""How many objects are looked into, those that the program names first."""


class State:
    """What the containers and objects that some names reach hold before a run-time loop or condition.

    Memory is left out: a list of tiles may grow anywhere, as a tile is allocated once wherever that is written.
    """

    def __init__(self, names: Mapping[str, Any]):
        self._held: list[tuple[str, Any, Any]] = []
        self._iterators: list[tuple[str, Any, Any]] = []
        self._advanced = len(current().advanced)
        self._stored = len(current().stored)
        self._asked = len(current().asked)
        for name, value, items in walked(names):
            if items is None:
                self._iterators.append((name, value, position(value)))
            else:
                self._held.append((name, value, items))

    def refuse_changed(self, where: str) -> None:
        """Refuses a run-time ``where`` ("loop", "condition") whose traced pass has changed what was held before it.

        Raises:
            ChangedContainerError: a number or expression in a container was added, removed or replaced, or one in an attribute
                replaced; a text was removed or replaced, or added by a statement of the program; an iterator was advanced.
        """
        advanced = current().advanced[self._advanced :]
        stored = current().stored[self._stored :]
        own = {id(each.holder) for each in stored}
        for name, iterator, before in self._iterators:
            if not is_same(before, position(iterator)) or any(iterator is other for other in advanced):
                raise ChangedContainerError(name, "iterator", where)
        for module in advanced:
            if isinstance(module, ModuleType):
                raise ChangedContainerError(module.__name__, RANDOM_NUMBERS, where)
        self._refuse_stored(stored, where)
        for name, value, before in self._held:
            after = _items(value)
            if len(after) == len(before) and all(map(is_, _values(before), _values(after))):
                continue
            if isinstance(value, (*CONTAINERS, tuple)) or isinstance(before, list):
                have_changed = not is_same(list(_scalars(_values(before))), list(_scalars(_values(after))))
                # A text that has come is, backwards, one that has gone. Plain helpers may keep some, such as names in a log.
                has_gained = id(value) in own and _is_any_replaced(after, before)
                have_moved = id(value) in own and any(
                    self._is_exchanged(item, _at(after, key), where) for key, item in _pairs(before)
                )
                have_come = id(value) in own and any(
                    _at(before, key) is UNBOUND and not _is_memory(item) for key, item in _pairs(after)
                )
                if have_changed or has_gained or have_moved or have_come or _is_any_replaced(before, after):
                    raise ChangedContainerError(name, type(value).__name__, where)
                continue
            is_function = isinstance(value, FunctionType)
            for attribute, item in before.items():
                is_own = id(value) in own or is_function
                has_moved = is_own and self._is_exchanged(item, after.get(attribute, UNBOUND), where)
                if has_moved or _is_changed(item, after.get(attribute)):
                    changed = (attribute, "variable") if is_function else (f"{name}.{attribute}", "attribute")
                    raise ChangedContainerError(*changed, where)

    def _is_exchanged(self, before: Any, after: Any, where: str) -> bool:
        """Whether an object, a function or memory has given its place to one from before, or is gone.

        A loop may put new objects and tiles there in each iteration, and tiles may be taken from a list, as from a stock.

        Args:
            before: an item or attribute.
            after: what is there now, or ``UNBOUND``.
            where: "loop" or "condition".
        """
        if before is after or isinstance(before, (*CONTAINERS, tuple, Unusable)):
            return False
        if isinstance(before, LocalVar) and not isinstance(after, LocalVar):
            return False
        if is_known_by_value(before):
            return where == "condition" and not is_known_by_value(after)
        if after is UNBOUND or is_known_by_value(after):
            return not names_memory(before)
        is_old = any(after is item for _, _, items in self._held for item in _values(items))
        return is_old or where == "condition" and not names_memory(after)

    def _refuse_stored(self, stored: list[Stored], where: str) -> None:
        """Refuses changes of modules, and attributes that a loop has made after it had found that there is none.

        Args:
            stored: the program's changes since.
            where: "loop" or "condition".
        """
        asked = {(id(holder), name) for holder, name in current().asked[self._asked :]}
        for each in stored:
            title = each.holder.__name__ if isinstance(each.holder, ModuleType) else self.title_of(each.holder)
            is_of_module = isinstance(each.holder, ModuleType) and _is_changed(each.before, getattr(each.holder, each.name))
            is_found_later = where == "loop" and each.is_new and (id(each.holder), each.name) in asked
            if title and (is_of_module or is_found_later):
                raise ChangedContainerError(f"{title}.{each.name}", "attribute", where)

    def title_of(self, holder: Any) -> str | None:
        """How the program reaches an object of before; None where it did not."""
        return next((title for title, value, _ in self._held if value is holder), None)


def walked(names: Mapping[str, Any], largest: int = sys.maxsize) -> Iterator[tuple[str, Any, Any]]:
    """What names reach that a program may change, nearest first: title, object, and items or attributes; None of an iterator.

    Args:
        names: the names with what they hold.
        largest: items of a container that is looked into.
    """
    seen: set[int] = set()
    pending = deque(names.items())
    while pending and len(seen) < _MOST_OBJECTS:
        name, value = pending.popleft()
        value = value.function if type(value) is Macro else value
        if id(value) in seen:
            continue
        if hasattr(type(value), "__next__"):
            yield name, value, None
        if not _is_followed(value) or (isinstance(value, (*CONTAINERS, tuple)) and len(value) > largest):
            continue
        seen.add(id(value))
        items = _items(value)
        yield name, value, items
        is_object = not isinstance(value, (*CONTAINERS, tuple))
        inner = _reached_by(value) if isinstance(value, FunctionType) else items
        if any(map(_is_followed_type, set(map(type, _values(inner))))):
            pending += [(f"{name}.{key}" if is_object else name, item) for key, item in _pairs(inner)]


def with_known_keys(container: Any) -> Any:
    """A set or dictionary, which tells its items or keys apart while the program is traced.

    Raises:
        ComputedKeyError: the kernel computes one of them.
    """
    if any(map(_is_computed, container)):
        raise ComputedKeyError
    return container


def _is_computed(key: Any) -> bool:
    """Whether a key is, or holds, a value that the kernel computes; memory is a key as what it is."""
    if isinstance(key, (tuple, frozenset)):
        return any(map(_is_computed, key))
    return is_symbolic(key) and not is_buffer(key) and not isinstance(as_int(as_operand(key)), int)


def item_of(holder: Any, key: Any) -> Any:
    """What a list or dictionary holds at a key; None where it holds nothing."""
    if isinstance(holder, dict):
        return holder.get(key)
    is_index = isinstance(holder, list) and isinstance(key, int) and -len(holder) <= key < len(holder)
    return holder[key] if is_index else None


def attribute_of(holder: Any, name: str) -> Any:
    """What an attribute holds; None where there is none, or where it is computed."""
    is_computed = isinstance(getattr(type(holder), name, None), property)
    return None if is_computed else getattr(holder, name, None)


def refuse_outside_change(builder: Builder, scope: Names, name: str, after: Any) -> None:
    """Refuses an assignment in a macro to a ``nonlocal`` or ``global`` name, where a run-time loop or condition calls the macro.

    Args:
        builder: of the program.
        scope: the names of the macro.
        name: the target.
        after: what is assigned.

    Raises:
        ChangedContainerError: it replaces a number or expression by another.
    """
    before = scope.outside.get(name)
    around = [frame.kind for frame in builder.frames[: builder.macro_depths[-1]] if frame.kind in ("loop", "branch")]
    if around and _is_scalar(before) and not is_same(before, after):
        raise ChangedContainerError(name, "variable", "loop" if around[-1] == "loop" else "condition")


@lru_cache(maxsize=1024)
def _may_change(kind: type) -> bool:
    """Whether objects of a type hold values that a program may change: containers, and objects of the program's own classes."""
    if issubclass(kind, (*CONTAINERS, tuple, SimpleNamespace)) or has_hidden_state(kind):
        return True
    is_known = _is_users(kind) or kind.__module__ == "collections" or is_dataclass(kind) and kind.__module__ == "types"
    return is_known and ("__dict__" in dir(kind) or bool(_slots(kind))) and not issubclass(kind, ModuleType)


def _slots(kind: type) -> list[str]:
    """The attributes that a class keeps outside of ``__dict__``."""
    return [name for each in kind.__mro__ for name, member in vars(each).items() if isinstance(member, MemberDescriptorType)]


def _is_followed_type(kind: type) -> bool:
    """Whether an object of a type may be, or reach, one that a program changes."""
    return _may_change(kind) or issubclass(kind, (FunctionType, Macro)) or hasattr(kind, "__next__")


def _is_followed(value: Any) -> bool:
    """Whether ``value`` holds, or reaches, values that a program may change."""
    return _may_change(type(value)) or isinstance(value, (type, FunctionType)) and _is_users(value)


def _is_users(kind: Any) -> bool:
    return str(kind.__module__).partition(".")[0] not in _LIBRARIES


def _items(value: Any) -> Any:
    """The items of a container or the attributes of an object, as they are now."""
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, FunctionType):
        return {name: item for name, item in _reached_by(value).items() if name in (*vars(value), *_assigned_by(value.__code__))}
    if has_hidden_state(type(value)):
        return hidden_state(value)
    if isinstance(value, set):
        return {item: item for item in value}
    if isinstance(value, (*CONTAINERS, tuple)):
        return list(value)
    slots = {name: getattr(value, name) for name in _slots(type(value)) if hasattr(value, name) and not isinstance(value, type)}
    return {**_defaults(type(value)), **slots, **getattr(value, "__dict__", {})}


def _defaults(kind: type) -> dict[str, Any]:
    """The values that objects of a class share until they get their own."""
    members = {name: member for each in reversed(kind.__mro__) if _is_users(each) for name, member in vars(each).items()}
    return {name: member for name, member in members.items() if is_known_by_value(member) and not name.startswith("__")}


def _reached_by(function: Any) -> dict[str, Any]:
    """The variables of enclosing functions, the defaults and the attributes of a function."""
    code, outside = function.__code__, Outside(function)
    defaults = function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    taken = {name: outside.get(name) for name in (*code.co_freevars, *_assigned_by(code))}
    return {**taken, **dict(zip(names, defaults)), **(function.__kwdefaults__ or {}), **vars(function)}


@lru_cache(maxsize=1024)
def _assigned_by(code: CodeType) -> frozenset[str]:
    """The variables of enclosing functions and of the module that a function assigns."""
    stores = [each for each in dis.get_instructions(code) if each.opname.startswith(("STORE_", "DELETE_"))]
    of_module = {each.argval for each in stores if each.opname.endswith("_GLOBAL")}
    return frozenset(of_module.union(each.argval for each in stores if each.argval in code.co_freevars))


def _values(items: Any) -> Iterable[Any]:
    return items.values() if isinstance(items, dict) else items


def _scalars(items: Iterable[Any], above: frozenset[int] = frozenset()) -> Iterator[Any]:
    """The numbers and expressions among some items, and in the containers among them; one that contains itself is left out."""
    for item in items:
        if isinstance(item, (*CONTAINERS, tuple)):
            if id(item) not in above:
                yield from _scalars(_values(item), above | {id(item)})
        elif _is_scalar(item):
            yield item


def _is_scalar(item: Any) -> bool:
    return isinstance(item, (int, float, ir.PrimExpr, ReadVar, Text)) and not is_buffer(item)


def _is_changed(before: Any, after: Any) -> bool:
    """Whether an attribute held a value and holds another now; a variable that takes the place of one is memory."""
    if before is after or isinstance(before, Unusable):
        return False
    if isinstance(before, LocalVar) and not isinstance(before, ReadVar):
        return not isinstance(after, LocalVar) or isinstance(after, ReadVar)
    return _is_replaced(before, after) or not is_same(list(_scalars([before])), list(_scalars([after])))


def _is_any_replaced(before: Any, after: Any) -> bool:
    return any(_is_replaced(item, _at(after, key)) for key, item in _pairs(before))


def _is_replaced(before: Any, after: Any) -> bool:
    """Whether a text, an enumeration's member or None has become another one, or a number, or has gone."""
    has_value = after is UNBOUND or is_known_by_value(after)
    return _is_plain(before) and has_value and not (before is after or before == after)


def _is_memory(item: Any) -> bool:
    """Whether ``item`` is a tile or a variable: each is allocated once, wherever the program has its allocation."""
    return names_memory(item) or isinstance(item, LocalVar)


def is_known_by_value(item: Any) -> bool:
    """Whether ``item`` is a number, an expression, a text, an enumeration's member or None: no memory, and no object."""
    return _is_plain(item) or _is_scalar(item)


def _is_plain(item: Any) -> bool:
    return item is None or isinstance(item, (str, bytes, Enum)) and not isinstance(item, Text)


def _pairs(items: Any) -> Iterable[tuple[Any, Any]]:
    return items.items() if isinstance(items, dict) else enumerate(items)


def _at(items: Any, key: Any) -> Any:
    """What some items hold at a key; not a value of a program where they hold nothing."""
    if isinstance(items, dict):
        return items.get(key, UNBOUND)
    return items[key] if key < len(items) else UNBOUND


def is_same(one: Any, other: Any) -> bool:
    """Whether two things are one value, though Python may have made a new object; expressions and objects have no equality."""
    if one is other or type(one) is not type(other):
        return one is other
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(is_same, one, other))
    return isinstance(one, (int, float, str, bytes)) and not isinstance(one, Text) and one == other
