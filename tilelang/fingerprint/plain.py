"""One short byte string for a plain value, for look-ups within a process; compiled where the package was built.

Unlike :mod:`tilelang.fingerprint.canonical` the bytes mean nothing outside the process: values of types whose instances are
never freed nor changed (``torch.dtype``) count by identity, and dictionaries by order.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable
from typing import Any

_DOUBLE = struct.Struct("=d").pack
_POINTER = struct.Struct("=q").pack
_HEAP_TYPE = 1 << 9


class NotPlain(TypeError):
    """A value that only a full fingerprint can tell from others."""


DEEPEST = 64
"""How deep containers may lie in one another; what is compiled would not notice the end of the stack."""
_by_identity: set[type] = set()
_by_content: set[type] = set()


def _python_plain_key(value: Any) -> bytes:
    out = bytearray()
    _encode(value, out, 0)
    return bytes(out)


def _encode(value: Any, out: bytearray, depth: int) -> None:
    # Each value begins with a letter for its type and, where its length varies, the length: no two values have one encoding, so
    # that 1, 1.0, True and "1" differ and ("ab", "c") is not ("a", "bc").
    kind = type(value)
    if value is None:
        out += b"N"
    elif kind is bool:
        out += b"T" if value else b"F"
    elif kind is int:
        text = b"%x" % value
        out += b"i%d:%b" % (len(text), text)
    elif kind is float and value == value:  # what is not a number is found in a list by its identity
        out += b"f" + _DOUBLE(value)
    elif kind is str:
        raw = value.encode("utf-8", "surrogatepass")
        out += b"s%d:" % len(raw)
        out += raw
    elif depth == DEEPEST:
        raise NotPlain("nested too deeply")
    elif kind is tuple or kind is list:
        out += b"%b%d:" % (b"t" if kind is tuple else b"l", len(value))
        for item in value:
            _encode(item, out, depth + 1)
    elif kind is dict:
        out += b"d%d:" % len(value)
        for key, item in value.items():
            _encode(key, out, depth + 1)
            _encode(item, out, depth + 1)
    elif kind in _by_content or _is_named_text(kind):
        raw = value.encode("utf-8", "surrogatepass")
        out += b"u" + _POINTER(id(kind)) + b"%d:" % len(raw)
        out += raw
    elif kind in _by_identity or _is_immortal(kind):
        out += b"o" + _POINTER(id(value))
    else:
        raise NotPlain(f"{kind.__module__}.{kind.__qualname__}")


def containers(values: Iterable[Any]) -> list[int]:
    """The lists and dictionaries in plain values, by ``id``; one that is met again is listed again."""
    found, met, pending = list[int](), set[int](), list(values)
    while pending:
        value = pending.pop()
        kind = type(value)
        if kind is list or kind is dict:
            found.append(id(value))
        if kind is tuple or (kind in (list, dict) and id(value) not in met):
            met.add(id(value))
            pending += value.values() if kind is dict else value
    return found


def _is_named_text(kind: type) -> bool:
    """Whether values are strings under a type of ours, with nothing but their characters."""
    return _is_class_of(kind, "tilelang.dtypes", "DType", _by_content)


def _is_immortal(kind: type) -> bool:
    return not kind.__flags__ & _HEAP_TYPE and _is_class_of(kind, "torch", "dtype", _by_identity)


def _is_class_of(kind: type, module: str, name: str, known: set[type]) -> bool:
    """Whether ``kind`` is that class itself, and not one that is called the same; it is then kept in ``known``."""
    loaded = sys.modules.get(module)
    if loaded is None or loaded.__dict__.get(name) is not kind:
        return False
    known.add(kind)
    return True


try:
    from tilelang.lib.revalidate import plain_key
except ImportError:
    plain_key = _python_plain_key
