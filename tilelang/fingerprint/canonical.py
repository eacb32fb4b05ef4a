"""One text for one plain value, with the type in it: 1, 1.0, True and "1" differ, and so do 0.0 and -0.0.

The text is the same in every process and on every machine; dictionaries and sets are ordered by the text of their keys.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from enum import Enum
from typing import Any


class NotCanonical(TypeError):
    """A value that has no canonical text; the message names its type."""


def canonical(value: Any) -> str:
    """The canonical text of a plain value: None, bool, int, float, complex, str, bytes, Enum with such a value, and
    tuples, lists, sets and dictionaries of them.

    Raises:
        NotCanonical: ``value`` holds anything else.
    """
    encode = _ENCODERS.get(type(value))
    if encode is not None:
        return encode(value)
    if isinstance(value, Enum):
        return f"enum:{type(value).__module__}.{type(value).__qualname__}.{value.name}={canonical(value.value)}"
    raise NotCanonical(f"a value of type {type(value).__module__}.{type(value).__qualname__} has no canonical form")


def digest(*texts: str) -> str:
    """SHA-256, in hexadecimal, of the texts; their boundaries count."""
    state = hashlib.sha256()
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        state.update(b"%d:" % len(raw))
        state.update(raw)
    return state.hexdigest()


def _text(value: str) -> str:
    return f"s{len(value)}:{value}"


def _float(value: float) -> str:
    # The bits, so that NaN equals itself, -0.0 is not 0.0 and nothing is rounded.
    return "f:" + struct.pack(">d", value).hex()


def _sequence(tag: str, texts: Iterable[str]) -> str:
    return f"{tag}(" + ",".join(_text(text) for text in texts) + ")"


def _mapping(value: dict) -> str:
    items = sorted((canonical(key), canonical(item)) for key, item in value.items())
    return _sequence("d", (text for pair in items for text in pair))


_ENCODERS = {
    type(None): lambda _: "none",
    bool: lambda value: f"b:{int(value)}",
    int: lambda value: f"i:{value:x}",
    float: _float,
    complex: lambda value: f"c:{_float(value.real)}{_float(value.imag)}",
    str: _text,
    bytes: lambda value: "y:" + value.hex(),
    bytearray: lambda value: "ya:" + value.hex(),
    tuple: lambda value: _sequence("t", map(canonical, value)),
    list: lambda value: _sequence("l", map(canonical, value)),
    set: lambda value: _sequence("u", sorted(map(canonical, value))),
    frozenset: lambda value: _sequence("fu", sorted(map(canonical, value))),
    dict: _mapping,
}
