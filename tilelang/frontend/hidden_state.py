"""What tells that an object of Python has changed that shows no items: an iterator, a generator of random numbers, an array."""

from __future__ import annotations

import gc
import itertools
import pickle
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from operator import length_hint
from types import GeneratorType, ModuleType
from typing import Any


def _drawn(state: Any) -> Any:
    """What tells two states of a ``random.Random`` apart: the position, a word that changes when that begins anew, and a normal
    number that is left."""
    _, words, normal = state
    return words[-2:], normal


_HIDDEN: Mapping[str, Callable[[Any], Any]] = {
    "numpy.ndarray": lambda array: array.tobytes(),
    "array.array": lambda array: array.tobytes(),
    "builtins.bytearray": bytes,
    "torch.Tensor": lambda array: array._version,
    "random.Random": lambda numbers: _drawn(numbers.getstate()),
    "numpy.random.mtrand.RandomState": lambda numbers: pickle.dumps(numbers.get_state(legacy=False)),
    "numpy.random._generator.Generator": lambda numbers: pickle.dumps(numbers.bit_generator.state),
    "torch._C.Generator": lambda numbers: numbers.get_state().numpy().tobytes(),
}
"""Name of a type -> a value that changes when an object of the type does."""

_MODULES = frozenset({"random", "numpy.random", "torch"})
"""Modules with functions that draw from one generator, which other threads may use, too: only calls show who has drawn."""

DRAWING = frozenset(
    "random rand randn randint randrange randbytes getrandbits choice choices sample shuffle uniform gauss normal normalvariate"
    " permutation randperm bernoulli multinomial triangular betavariate expovariate standard_normal".split()
)
"""The names of such functions."""

_LARGEST_ARRAY = 1 << 16
"""Bytes of arrays that are looked at."""

_DEEPEST = 8
"""How many iterators, each within the one before, are looked at."""


def name_of(kind: type) -> str:
    """A type's module and name."""
    return f"{kind.__module__}.{kind.__name__}"


def has_hidden_state(kind: type) -> bool:
    """Whether objects of a type change without showing items."""
    return name_of(kind) in _HIDDEN


def hidden_state(value: Any) -> list[Any]:
    """What tells that such an object has changed; nothing of a large array."""
    is_small = (getattr(value, "nbytes", 0) or sys.getsizeof(value)) <= _LARGEST_ARRAY
    return [_HIDDEN[name_of(type(value))](value)] if is_small else []


def draws(holder: Any, name: str) -> bool:
    """Whether ``holder.name(...)`` draws from the generator that functions of a module share."""
    return isinstance(holder, ModuleType) and holder.__name__ in _MODULES and name in DRAWING


def position(iterator: Any, depth: int = 0) -> Any:
    """What tells that an iterator has advanced, as far as Python shows it.

    Args:
        iterator: any object with ``__next__``.
        depth: how many iterators it is within.
    """
    parts: list[Any] = [length_hint(iterator, -1)]
    with suppress(AttributeError, OSError, ValueError):  # a file, unless it is closed or has no places
        parts.append(iterator.tell())
    if isinstance(iterator, (itertools.count, itertools.repeat)):
        parts.append(repr(iterator))
    return (*parts, *(_part(each, depth + 1) for each in _parts(iterator)))


def _parts(iterator: Any) -> list[Any]:
    """What an iterator of Python goes on with."""
    if isinstance(iterator, GeneratorType):
        frame = iterator.gi_frame
        return [] if frame is None else [frame.f_lasti, *frame.f_locals.values()]
    return gc.get_referents(iterator) if type(iterator).__module__ in ("builtins", "itertools") else []


def _part(value: Any, depth: int) -> Any:
    if depth < _DEEPEST and hasattr(type(value), "__next__"):
        return position(value, depth)
    return tuple(_part(item, depth + 1) for item in value) if type(value) is tuple and depth < _DEEPEST else value
