"""Containers of Python, by their items in order."""

from __future__ import annotations

import functools
import gc
import operator
import re
import sys
from collections import OrderedDict, defaultdict, deque
from types import MappingProxyType, SimpleNamespace
from typing import Any

from tilelang.fingerprint import addresses, watch
from tilelang.fingerprint.canonical import NotCanonical, canonical
from tilelang.fingerprint.walk import Describer, describes


@describes(tuple, list)
def sequence(describer: Describer, value: tuple | list) -> None:
    """Feeds a tuple or list."""
    if type(value) is list:
        describer.record(watch.LIST, value, None, tuple(value))
    items(describer, type(value).__name__, value)


def items(describer: Describer, name: str, value: Any) -> None:
    """Feeds the items of an iterable.

    Args:
        describer: what is fed.
        name: of the container, in messages.
        value: the iterable.
    """
    describer.text(f"{name} {len(value)}")
    for position, item in enumerate(value):
        with describer.at(f"item {position}"):
            describer.value(item)


@describes(dict)
def mapping(describer: Describer, value: dict) -> None:
    """Feeds a dictionary in its order."""
    describer.record_dict(value)
    pairs(describer, "dict", value)


def pairs(describer: Describer, name: str, value: Any) -> None:
    """Feeds the keys and values of a mapping.

    Args:
        describer: what is fed.
        name: of the container, in messages.
        value: the mapping.
    """
    describer.text(f"{name} {len(value)}")
    for key, item in value.items():
        with describer.at(f"item {key!r}" if type(key) in (str, int) else "an item"):
            describer.value(key)
            describer.value(item)


@describes(MappingProxyType)
def _proxy(describer: Describer, value: MappingProxyType) -> None:
    describer.text("proxy")
    # A proxy gives no access to its dictionary, which is to be watched; the garbage collector does.
    (table,) = gc.get_referents(value)
    describer.value(table)


@describes(OrderedDict, defaultdict)
def _special_dict(describer: Describer, value: Any) -> None:
    found = list(value.items())
    describer.record_probe(lambda: _same_pairs(list(value.items()), found), True)
    # dict.keys() of an OrderedDict gives the order of insertion, which move_to_end() does not change.
    inserted = list(dict.items(value))
    describer.record_probe(lambda: _same_pairs(list(dict.items(value)), inserted), True)
    places = {id(key): number for number, (key, _) in enumerate(found)}
    describer.text(f"inserted {[places.get(id(key)) for key, _ in inserted]}")
    pairs(describer, type(value).__name__, value)
    if type(value) is defaultdict:
        factory = value.default_factory
        describer.record_probe(lambda: value.default_factory is factory, True)
        describer.value(factory)
    else:
        describer.record(watch.OWN_DICT, value, None, value.__dict__)
        describer.attributes(value.__dict__)


def _same_pairs(now: list, then: list) -> bool:
    return len(now) == len(then) and all(a is c and b is d for (a, b), (c, d) in zip(now, then))


@describes(deque)
def _deque(describer: Describer, value: deque) -> None:
    found = list(value)
    describer.record_probe(lambda: len(value) == len(found) and all(a is b for a, b in zip(value, found)), True)
    items(describer, f"deque {value.maxlen}", value)


_CHANGES_OF_SETS = frozenset("add pop update symmetric_difference_update |= ^= __ior__ __ixor__".split())


@describes(set, frozenset)
def unordered(describer: Describer, value: Any) -> None:
    """Feeds a set in the order in which it gives its items, which may differ between processes."""
    members(describer, value)
    if type(value) is set:  # where an item goes depends on those that were there once, which nothing shows
        describer.limit("a set", _CHANGES_OF_SETS)
    # Code may iterate over the set, and generate statements in its order.
    describer.text(f"order {list(map(canonical, value))}")


def members(describer: Describer, value: Any) -> None:
    """Feeds a set that is only asked whether something is in it."""
    try:
        text = canonical(value)
    except NotCanonical as error:
        raise describer.refuse(f"a set with an item that has no order ({error})") from None
    describer.record_probe(functools.partial(_ordered_text, value), _ordered_text(value))
    describer.text(text)
    for item in sorted(value, key=canonical):  # members of enumerations have methods and attributes
        describer.value(item)


def _ordered_text(value: Any) -> list[str]:
    return list(map(canonical, value))


def hash_order(describer: Describer) -> None:
    """Feeds the hash seed, which decides the iteration order of sets that the code creates."""
    describer.names.add(addresses.SET)
    if sys.flags.hash_randomization or sys.version_info < (3, 12):  # before, also that of None, by its address
        describer.only_here("it makes sets, whose order differs between processes (PYTHONHASHSEED fixes it)")
    describer.text(f"hash {hash('tilelang')}")


@describes(bytearray)
def _bytearray(describer: Describer, value: bytearray) -> None:
    describer.record_probe(functools.partial(bytes, value), bytes(value))
    describer.text(canonical(value))


@describes(range)
def _range(describer: Describer, value: range) -> None:
    describer.text(f"range {value.start} {value.stop} {value.step}")


@describes(slice)
def _slice(describer: Describer, value: slice) -> None:
    describer.text("slice")
    describer.contents((value.start, value.stop, value.step))


@describes(type(sys.version_info), type(sys.flags))
def _facts(describer: Describer, value: Any) -> None:
    describer.text(type(value).__qualname__)
    describer.contents(tuple(value))


@describes(operator.itemgetter)
def _item_getter(describer: Describer, value: operator.itemgetter) -> None:
    describer.text("itemgetter")
    describer.contents(value.__reduce__()[1])


@describes(type(...), type(NotImplemented))
def _constant(describer: Describer, value: Any) -> None:
    describer.text(repr(value))


@describes(re.Pattern)
def _pattern(describer: Describer, value: re.Pattern) -> None:
    describer.text(f"pattern {value.flags}")
    describer.value(value.pattern)


@describes(SimpleNamespace)
def _namespace(describer: Describer, value: SimpleNamespace) -> None:
    describer.text("SimpleNamespace")
    describer.record(watch.OWN_DICT, value, None, value.__dict__)
    describer.attributes(value.__dict__)
