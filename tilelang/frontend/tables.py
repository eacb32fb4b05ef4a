"""Constant tables: ``table[i % 4]`` of a Python sequence, or of a torch or numpy array, with an index of the run time.

A small table becomes a tree of selections, so that it lives in registers; a larger one is an array that each thread fills when
the kernel starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tilelang.dtypes import canonical
from tilelang.errors import IndexRangeError, OperandError, ShapeError
from tilelang.frontend.access import index_expr
from tilelang.frontend.builder import require_kernel
from tilelang.frontend.lanes import widened
from tilelang.frontend.values import as_expr, is_symbolic
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.interval import interval_of
from tilelang.ir.memory import ARRAY
from tilelang.ir.visit import reads_memory

_LARGEST_SELECTION_TREE = 64
"""Largest number of entries of a table that becomes a tree of selections, which is then six comparisons deep."""


def is_table(value: Any) -> bool:
    """Whether ``value`` is of a kind that may be a constant table."""
    return isinstance(value, (list, tuple, _Rows)) or (hasattr(value, "tolist") and hasattr(value, "shape"))


def look_up(table: Any, key: Any) -> Any:
    """``table[key]`` with a run-time index among ``key``; rows, where it names fewer axes than the table has.

    Raises:
        CompileError: an entry is no number, rows differ in length, or an index is no integer.
    """
    if isinstance(table, _Rows):
        return table[key]
    dtype = _dtype(table)
    return _Rows(_shape(table), _numbers(_entries(table), dtype), dtype)[key]


class _Rows:
    """A constant table, or the sub-table that indices of its first axes select.

    Attributes:
        shape: sizes of the remaining axes.
        entries: all entries in row-major order.
        dtype: their type.
        start: number of the first remaining entry.
    """

    __slots__ = ("dtype", "entries", "shape", "start")

    def __init__(self, shape: tuple[int, ...], entries: list[Any], dtype: str, start: Any = 0):
        self.shape, self.entries, self.dtype, self.start = shape, entries, dtype, start

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        items = key if isinstance(key, tuple) else (key,)
        if len(items) > len(self.shape) or any(isinstance(item, slice) or item is ... for item in items):
            raise ShapeError("a constant table takes one index an axis")
        place = self.start
        for axis, item in enumerate(items):
            place = place + _row_index(item, self.shape[axis], axis) * prod(self.shape[axis + 1 :])
        rest = self.shape[len(items) :]
        return _Rows(rest, self.entries, self.dtype, place) if rest else _entry(self.entries, self.dtype, place)


def _row_index(item: Any, size: int, axis: int) -> Any:
    """An index of a table; one that is negative counts from the end, as in Python."""
    index = index_expr(item)
    known = as_int(index)
    if isinstance(known, int):
        if not -size <= known < size:
            raise IndexRangeError("the table", axis, known, size)
        return known % size
    builder, index = require_kernel("a constant table"), widened(index)
    low, high = interval_of(index, builder.ranges)
    if low is not None and low >= 0:
        return index
    if high is not None and high < 0:
        return index + size
    counted = ir.Select(index < 0, index + size, index)
    # Each comparison of a tree has it. What reads memory stays where the program may guard it.
    return counted if reads_memory(counted) else builder.bind("place", counted)


def _entry(entries: list[Any], dtype: str, place: Any) -> Any:
    """The entry whose number in row-major order is ``place``."""
    if isinstance(place, int):
        return as_expr(entries[place], dtype)
    if len(entries) > _LARGEST_SELECTION_TREE:
        return ir.BufferLoad(_array(entries, dtype), [place])
    return _selection_tree(entries, dtype, place, 0)


def _selection_tree(entries: Sequence[Any], dtype: str, place: Any, first: int) -> Any:
    """The entry as a binary tree of selections.

    Args:
        entries: of a part of the table.
        dtype: their type.
        place: number of the entry in the table.
        first: number of the part's first entry.
    """
    if all(_identity(entry) == _identity(entries[0]) for entry in entries):
        return as_expr(entries[0], dtype)
    # Halving keeps the tree as deep as the logarithm of the entries; equal neighbours need no comparison at all (above).
    half = (len(entries) + 1) // 2
    low = _selection_tree(entries[:half], dtype, place, first)
    return ir.Select(place < first + half, low, _selection_tree(entries[half:], dtype, place, first + half))


def _identity(entry: Any) -> Any:
    """What tells two entries apart, of which 0.0 equals -0.0, and NaN not even itself."""
    return repr(entry) if isinstance(entry, float) else entry


def _array(entries: list[Any], dtype: str) -> Any:
    """The array of a table, made once for a kernel."""
    builder = require_kernel("a constant table")
    key = (dtype, tuple(map(_identity, entries)))
    if key not in builder.tables:
        array = ir.decl_buffer(
            [len(entries)], dtype, builder.unique("table"), scope=ARRAY, data_alignment=canonical(dtype).bytes, layout=None
        )
        builder.allocate(array)
        for index, entry in enumerate(entries):
            builder.at_start(ir.BufferStore(array, as_expr(entry, dtype), [ir.IntImm("int32", index)], builder.span()))
        builder.tables[key] = array
    return builder.tables[key]


def _shape(table: Any) -> tuple[int, ...]:
    if hasattr(table, "shape"):
        return tuple(int(size) for size in table.shape)
    if not isinstance(table, (list, tuple)):
        return ()
    rows = {_shape(row) for row in table}
    if len(rows) != 1:
        raise ShapeError("a constant table whose rows differ in length" if rows else "a constant table without entries")
    return (len(table), *rows.pop())


def _entries(table: Any) -> list[Any]:
    if hasattr(table, "tolist"):
        return _entries(table.tolist())
    if isinstance(table, (list, tuple)):
        return [entry for row in table for entry in _entries(row)]
    value = getattr(table, "value", table)
    if is_symbolic(table) or not isinstance(value, (bool, int, float)):
        raise OperandError(
            "a Python sequence is indexed with a run-time value, and its items are no numbers",
            hint="loop over the sequence itself (for item in items) to unroll at compile time",
        )
    return [value]


def _numbers(entries: list[Any], dtype: str) -> list[Any]:
    """The entries, of which bools among numbers are numbers too."""
    return entries if dtype == "bool" else [int(entry) if isinstance(entry, bool) else entry for entry in entries]


def _dtype(table: Any) -> str:
    if hasattr(table, "tolist"):
        return str(canonical(table.dtype))
    entries = _entries(table)
    if any(isinstance(entry, float) for entry in entries):
        return "float32"
    if all(isinstance(entry, bool) for entry in entries):
        return "bool"
    return "int32" if all(-(2**31) <= entry < 2**31 for entry in entries) else "int64"
