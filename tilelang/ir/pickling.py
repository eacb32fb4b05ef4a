"""TVM's nodes as plain values that can be pickled, and back.

TVM's own serialisation (``ir.save_json``) crashes the process on every variable. Here a node is a table with a row for each
object that is reachable from it, parts before the objects that have them; an object that is used twice has one row. Fields are
read and set by TVM-FFI's reflection, so new kinds of nodes need no code here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import tvm_ffi
from tvm_ffi import core

from tilelang.ir import nodes as ir

Row = tuple[str, tuple[Any, ...]]
"""Kind of an object, which is its type's key, ``"array"`` or ``"map"``, and its fields, elements, or keys and values in turn."""

_ARRAY, _MAP = "array", "map"

_BY_NAME: dict[str, Callable[[str], Any]] = {"ir.Op": ir.Op.get, "ir.SourceName": ir.ir.SourceName}
"""Key of a type whose objects are found by their name -> the function that finds one."""


class _Place(int):
    """The number of an object's row."""


class _Dtype(str):
    """The text of a ``tvm_ffi.dtype``."""


def rows_of(node: Any) -> list[Row]:
    """The table of a node; its own row is the last.

    Raises:
        TypeError: a part of it is not data, for example a packed function.
    """
    rows: list[Row] = []
    places: dict[int, _Place] = {}
    work: list[tuple[Any, tuple[str, tuple[Any, ...]] | None]] = [(node, None)]  # no recursion: operands form long chains
    while work:
        value, row = work.pop()
        handle = value.__chandle__()
        if handle in places:
            continue
        if row is not None:
            kind, parts = row
            rows.append((kind, tuple(_stored(part, places) for part in parts)))
            places[handle] = _Place(len(rows) - 1)
            continue
        row = _row_of(value)
        work.append((value, row))
        # The parts are on top of the stack now, so their rows come before the row of this object.
        work.extend((part, None) for part in row[1] if isinstance(part, core.Object))
    return rows


def _row_of(value: Any) -> tuple[str, tuple[Any, ...]]:
    """The row of an object, with the parts themselves."""
    if isinstance(value, tvm_ffi.Array):
        return _ARRAY, tuple(value)
    if isinstance(value, tvm_ffi.Map):
        return _MAP, tuple(part for pair in value.items() for part in pair)
    info = getattr(type(value), "__tvm_ffi_type_info__", None)
    if info is None:
        raise TypeError(f"a {type(value).__name__} in a program cannot be pickled")
    if info.type_key in _BY_NAME:
        return info.type_key, (str(value.name),)
    return info.type_key, tuple(field.getter(value) for field in _fields(info.type_key))


def _stored(part: Any, places: dict[int, _Place]) -> Any:
    if isinstance(part, core.Object):
        return places[part.__chandle__()]
    if isinstance(part, tvm_ffi.dtype):
        return _Dtype(part)
    if part is None or isinstance(part, (bool, float)):
        return part
    if isinstance(part, (str, int)):
        return str(part) if isinstance(part, str) else int(part)
    raise TypeError(f"a {type(part).__name__} in a program cannot be pickled")


def node_of(rows: Iterable[Row]) -> Any:
    """The node of a table."""
    made: list[Any] = []
    for kind, parts in rows:
        made.append(_made(kind, [_restored(part, made) for part in parts]))
    return made[-1]


def _restored(part: Any, made: list[Any]) -> Any:
    if isinstance(part, _Place):
        return made[part]
    return tvm_ffi.dtype(part) if isinstance(part, _Dtype) else part


def _made(kind: str, parts: list[Any]) -> Any:
    if kind == _ARRAY:
        return tvm_ffi.Array(parts)
    if kind == _MAP:
        return tvm_ffi.Map(dict(zip(parts[::2], parts[1::2])))
    if kind in _BY_NAME:
        return _BY_NAME[kind](*parts)
    values = (each for field, part in zip(_fields(kind), parts) for each in (field.name, part))
    return _make_object()(_info_of(kind).type_index, *values)


@functools.cache
def _make_object() -> Callable[..., Any]:
    return tvm_ffi.get_global_func("ffi.MakeObjectFromPackedArgs")


def _info_of(kind: str) -> Any:
    return core._lookup_or_register_type_info_from_type_key(kind)  # pyright: ignore[reportPrivateUsage]


@functools.cache
def _fields(kind: str) -> tuple[Any, ...]:
    """The fields of a type of objects, those that it inherits first."""
    info, found = _info_of(kind), []
    while info is not None:
        found = [*info.fields, *found]
        info = info.parent_type_info
    return tuple(found)
