"""Functions with a cache of results (``functools.cache``): the results must have been computed by the function as it is now."""

from __future__ import annotations

import functools
import gc
import weakref
from typing import Any, NamedTuple

from tilelang.fingerprint import watch
from tilelang.fingerprint.walk import Describer, Unfaithful, describes

_KIND = type(functools.cache(len))
_LINK = "_lru_list_elem"  # the type of the links of a bounded cache, which has no other name


class _Known(NamedTuple):
    """The results of a cached function, when they were last known to be right.

    Attributes:
        digest: of the function that computed them.
        held: the objects in the cache: keys and results.
        content: their digest.
    """

    digest: str
    held: list[Any]
    content: str


class Cached(NamedTuple):
    """A cached function that was described.

    Attributes:
        function: it.
        digest: of what computes its results.
        held: how many keys and results it held.
        hits: how often it had given one that it held.
    """

    function: Any
    digest: str
    held: int
    hits: int


_known: weakref.WeakKeyDictionary[Any, _Known] = weakref.WeakKeyDictionary()


@describes(_KIND)
def _cached_function(describer: Describer, value: Any) -> None:
    if id(value) in describer.in_progress:
        describer.text("again")
        return
    inner = value.__wrapped__
    # A walk of its own, whose digest depends on nothing that was described before: the same function has the same digest wherever
    # it is met.
    alone = Describer(describer.trusting)
    alone.in_progress = describer.in_progress | {id(value)}
    with describer.at(f"the cached {getattr(inner, '__qualname__', 'function')}()"):
        alone.value(inner, False)
        _results(describer, value, alone)
        describer.text(f"cached {value.cache_info().maxsize}")
        describer.limit("a function with a cache", frozenset(("cache_info",)))
        describer.record(watch.OWN_DICT, value, None, value.__dict__)
        describer.attributes(value.__dict__)
        describer.value(inner, False)
    describer.cached.append(Cached(value, alone.digest(), len(_held(value)), value.cache_info().hits))


def _results(describer: Describer, value: Any, alone: Describer) -> None:
    """Notices results that another function has computed, or that were changed since: a call gives them to the program.

    The digest does not depend on what is held, so that a process with an empty cache has the same.
    """
    held = _held(value)
    describer.record_probe(lambda: _same(_held(value), held), True)
    if not held:
        return
    known = _known.get(value)
    # The cache is the program's memory of earlier calls. If a global changed since, it still gives the old result, which no
    # fingerprint of the code shows; so it must be known that the code as it is now filled it.
    if known is None or known.digest != alone.digest() or not _same(held, known.held):
        raise describer.refuse("it holds results that may be from before a change")
    content = _content(known.held)
    if content.digest() != known.content:
        raise describer.refuse("a result that it holds was changed")
    describer.records += content.records
    describer.holds_results(content, [alone, _content(_keys(value))])


def _held(value: Any) -> list[Any]:
    """The keys and results in a cache, in any order."""
    # The results are no attribute of the function: only the garbage collector can list what a cache refers to.
    mark, own = object(), (value.__wrapped__, value.__dict__, _KIND, type(value.cache_info()))
    found: list[Any] = []
    for part in gc.get_referents(value):
        if any(part is each for each in own) or type(part) is type(mark) or getattr(part, "__name__", "") == _LINK:
            continue
        found += [item for pair in part.items() for item in pair] if type(part) is dict else [part]
    return [part for part in found if type(part).__name__ != _LINK]


def _keys(value: Any) -> list[Any]:
    """The keys in a cache, which hold the arguments of its calls."""
    tables = [part for part in gc.get_referents(value) if type(part) is dict and part is not value.__dict__]
    return [key for table in tables for key in table]


def _same(now: list[Any], then: list[Any]) -> bool:
    return len(now) == len(then) and sorted(map(id, now)) == sorted(map(id, then))


def _content(held: list[Any]) -> Describer:
    content = Describer()
    for part in held:
        content.value(part)
    return content


def gave_earlier_results(cached: list[Cached]) -> bool:
    """Whether one of these functions has given a result since, and may have computed it before.

    That one may be of other arguments: True is looked up like 1 and 1.0, and a process with an empty cache would compute it.
    """
    return any(each.held and each.function.cache_info().hits > each.hits for each in cached)


def results_are_current(cached: list[Cached]) -> None:
    """Notes that whatever these cached functions hold was computed by the functions with these digests."""
    for function, digest, *_ in cached:
        held = _held(function)
        try:
            _known[function] = _Known(digest, held, _content(held).digest())
        except Unfaithful:
            _known.pop(function, None)
