"""Assignment: the value that a Python name is bound to when a traced program assigns to it.

A name holds a value, as in Python: an expression that reads memory is computed where it is assigned, by a ``Bind`` statement.
Otherwise ``x = A[0]; A[0] = 1; B[0] = x`` would store 1. Short index arithmetic over immutable values is repeated instead, which
keeps it visible to the analyses of indices.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from types import SimpleNamespace
from typing import Any

from tilelang.errors import OperandError, RunTimeValueError, ShapeError
from tilelang.frontend import lanes
from tilelang.frontend.access import assign_subscript, is_buffer
from tilelang.frontend.builder import Builder
from tilelang.frontend.tiles import Computed, as_vector
from tilelang.frontend.values import DynamicSize, ExprLike, LocalVar, VectorVar, as_operand
from tilelang.ir import nodes as ir
from tilelang.ir.region import Region
from tilelang.ir.visit import reads_memory, walk_expr

_INLINE_LIMIT = 24
"""Largest number of nodes of an index expression that is repeated where it is used instead of being bound to a variable."""

_VECTORS = ((2,), (4,), (8,), (16,))
"""Shapes of arithmetic on slices that a name holds as a vector, each lane in a variable."""


def bind(builder: Builder, name: str, before: Any, value: Any) -> Any:
    """The value that ``name = value`` binds.

    Args:
        builder: of the program.
        name: of the target, which a new variable gets too.
        before: the previous value of the name; if that is a ``T.alloc_var``, the value is stored to it.
        value: the right-hand side.

    Raises:
        OperandError: arithmetic on slices, which needs a destination.
    """
    if isinstance(value, LocalVar):
        # `x = T.alloc_var(...)` names the variable itself; after that, `y = x` copies the value that it has then.
        if value.fresh:
            value.fresh = False
            return value
        value = value.expr()
    # A size of the call keeps its name, unless a variable takes its value.
    if isinstance(value, ExprLike) and not (isinstance(value, DynamicSize) and isinstance(before, LocalVar)):
        return value
    if isinstance(value, Computed):
        if value.lengths not in _VECTORS:
            raise OperandError(f"{name} is arithmetic on slices, which has no memory", hint="assign it to a slice of a tile")
        value = as_vector(value)
    value = as_operand(value)
    if isinstance(before, VectorVar) and isinstance(value, Region):
        value = lanes.vector_of_region(value)
    if isinstance(before, LocalVar) and _is_scalar(value):
        assign_subscript(before.buffer, before.indices, value)
        return before
    return snapshot_items(builder, name, value) if holds_items(value) else snapshot(builder, name, value)


def _is_scalar(value: Any) -> bool:
    """Whether ``value`` is a number, also one of NumPy or torch, or a scalar or vector of the kernel."""
    is_of_library = hasattr(value, "item") and getattr(value, "shape", None) == ()
    return isinstance(value, (int, float)) or is_of_library or isinstance(value, ir.PrimExpr) and not is_buffer(value)


def match_targets(names: tuple[str, ...], items: list[Any]) -> list[Any]:
    """The values of several targets: one item for each name, and a list of the remaining items for a starred one.

    Raises:
        ShapeError: too few or too many items.
    """
    star = next((position for position, name in enumerate(names) if name.startswith("*")), None)
    if star is None:
        if len(items) != len(names):
            given = "1 value is" if len(items) == 1 else f"{len(items)} values are"
            raise ShapeError(f"{given} unpacked into {len(names)} names: {', '.join(names)}")
        return items
    after = len(names) - star - 1
    if len(items) < len(names) - 1:
        raise ShapeError(f"{len(items)} values are unpacked into {len(names) - 1} names or more: {', '.join(names)}")
    end = len(items) - after
    return [*items[:star], items[star:end], *items[end:]]


def snapshot(builder: Builder, name: str, value: Any) -> Any:
    """``value``, bound to a variable where it reads memory that a later assignment may change.

    Args:
        builder: of the program.
        name: of that variable.
        value: any Python value; one that reads no memory is returned unchanged.

    Raises:
        CompileError: an address whose index is read from memory.
    """
    if isinstance(value, LocalVar):
        if value.fresh:
            return value
        value = value.expr()
    value = value if isinstance(value, ExprLike) else as_operand(value)
    fixed = (ir.Var, ir.IntImm, ir.FloatImm, ir.StringImm, ir.TensorRegion)
    if not isinstance(value, ir.PrimExpr) or isinstance(value, fixed) or _is_address(name, value) or _is_small_index(value):
        return value
    if lanes.lanes_of(value) > 1 and not reads_memory(value):
        return value
    return builder.bind(name, value)


_PLAIN = frozenset({int, float, bool, str, type(None)})


def snapshot_items(builder: Builder, name: str, value: Any, above: frozenset[int] = frozenset()) -> Any:
    """:func:`snapshot` of a value, or of the items of a container or record; all but tuples are changed in place.

    Args:
        builder, name, value: as for :func:`snapshot`.
        above: the containers around it, by identity: one may contain itself.
    """
    kind = type(value)
    # A table of a million numbers costs no look at each.
    if id(value) in above or kind in (list, tuple) and _PLAIN.issuperset(map(type, value)):
        return value
    inner = above | {id(value)}
    if kind in (list, deque) or isinstance(value, tuple):
        items = [snapshot_items(builder, name, item, inner) if _may_read(item) else item for item in value]
        # Where nothing was bound the container stays the same object, which other names may share and the program may compare by
        # `is`.
        if all(new is old for new, old in zip(items, value)):
            return value
        if isinstance(value, tuple):
            return getattr(kind, "_make", tuple)(items)
        for position, item in enumerate(items):
            value[position] = item
    elif kind is dict:
        value.update({key: snapshot_items(builder, name, item, inner) for key, item in value.items() if _may_read(item)})
    elif _is_record(value):
        for key, item in _fields(value).items():
            if _may_read(item):
                # Also of a frozen record, whose own way to assign is an error.
                object.__setattr__(value, key, snapshot_items(builder, name, item, inner))
    elif _may_read(value):
        return snapshot(builder, name, value)
    return value


def holds_items(value: Any) -> bool:
    """Whether ``value`` is a container or record, whose items a name holds as it does values."""
    return type(value) in (list, tuple, dict, deque) or _is_named_tuple(type(value)) or _is_record(value)


def _is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_make")


def _is_record(value: Any) -> bool:
    """Whether ``value`` is an object that a program makes to hold values under names."""
    kind = type(value)
    return kind is SimpleNamespace or dataclasses.is_dataclass(kind) and kind.__module__.partition(".")[0] != "tilelang"


def _fields(record: Any) -> dict[str, Any]:
    if isinstance(record, SimpleNamespace):
        return dict(vars(record))
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record) if hasattr(record, field.name)}


def _may_read(value: Any) -> bool:
    """Whether ``value`` depends on memory, or is a container."""
    if holds_items(value):
        return True
    if isinstance(value, LocalVar):
        return not value.fresh
    value = value if isinstance(value, ExprLike) else as_operand(value)
    return isinstance(value, ir.PrimExpr) and reads_memory(value)


def _is_address(name: str, expr: Any) -> bool:
    """Whether an expression is an address, which names memory and does not change with what the memory holds."""
    if "handle" not in str(expr.ty):
        return False
    indices = [index for part in walk_expr(expr) if isinstance(part, ir.TensorLoad) for index in part.indices]
    if any(reads_memory(index) for index in indices):
        raise RunTimeValueError(f"{name} is an address whose index is read from memory", hint="assign the index to a name first")
    return True


def _is_small_index(expr: Any) -> bool:
    """Whether an expression is integer arithmetic over immutable values and short enough to repeat."""
    if not str(expr.ty).startswith("int"):
        return False
    # A shared part counts as often as it occurs: that is how often it would be computed.
    stack, count = [expr], 0
    while stack:
        node = stack.pop()
        count += 1
        if count > _INLINE_LIMIT:
            return False
        if isinstance(node, (ir.Var, ir.IntImm)):
            continue
        if isinstance(node, (ir.Add, ir.Sub, ir.Mul, ir.FloorDiv, ir.FloorMod, ir.Min, ir.Max)):
            stack += (node.a, node.b)
        elif isinstance(node, ir.Cast):
            stack.append(node.value)
        else:
            return False
    return True
