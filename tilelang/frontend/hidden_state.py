"""What tells that an object of Python has changed that shows no items: an iterator, a generator of random numbers, an array."""

from __future__ import annotations

import ctypes
import gc
import itertools
import pickle
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from operator import length_hint
from types import GeneratorType
from typing import Any

_TWISTER_BYTES = 625 * 4
"""Of the state of numpy's Mersenne twister: 624 words and a position among them."""


def _drawn(state: Any) -> Any:
    """What tells two states of a ``random.Random`` apart: the position, a word that changes when that begins anew, and a normal
    number that is left."""
    _, words, normal = state
    return words[-2:], normal


def _state_of_numpy(numbers: Any) -> bytes:
    """What tells that a ``numpy.random.RandomState`` has drawn. The second of two normal numbers comes without a draw."""
    source = numbers._bit_generator
    if type(source).__name__ == "MT19937":  # get_state takes 60 µs, and each run-time loop and condition asks
        return ctypes.string_at(source.ctypes.state_address, _TWISTER_BYTES)
    return pickle.dumps(numbers.get_state(legacy=False))


_HIDDEN: Mapping[str, Callable[[Any], Any]] = {
    "numpy.ndarray": lambda array: array.tobytes(),
    "array.array": lambda array: array.tobytes(),
    "builtins.bytearray": bytes,
    "torch.Tensor": lambda array: array._version,
    "random.Random": lambda numbers: _drawn(numbers.getstate()),
    "numpy.random.mtrand.RandomState": _state_of_numpy,
    "numpy.random._generator.Generator": lambda numbers: pickle.dumps(numbers.bit_generator.state),
    "torch._C.Generator": lambda numbers: numbers.get_state().numpy().tobytes(),
}
"""Name of a type -> a value that changes when an object of the type does."""

_GLOBAL: Mapping[str, Callable[[Any], Any]] = {
    "random": lambda module: module._inst,
    "numpy": lambda module: module.random.mtrand._rand,
    "torch": lambda module: module.default_generator,
}
"""Modules whose functions share a generator of random numbers -> that generator."""

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


def shared_generators() -> dict[str, Any]:
    """The generators of random numbers that functions of modules share, by the module's name."""
    return {name: of_module(sys.modules[name]) for name, of_module in _GLOBAL.items() if name in sys.modules}


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
