"""Copies of a tensor's elements to a shared tile that a ``T.Parallel`` makes: gathers of rows, and copies under a condition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.expr import is_settled
from tilelang.ir.memory import is_global, is_memory, is_shared
from tilelang.ir.region import Region
from tilelang.ir.visit import flattened, is_choice, is_large, walk_expr
from tilelang.target.cuda.tile.nest import Nest
from tilelang.target.cuda.tile.vector_index import makes_unit_steps
from tilelang.tileop.base import TileOp, reads, writes
from tilelang.transform.substitute import substitute


@dataclass(frozen=True, eq=False)
class Gather(TileOp):
    """A whole tile is filled with elements of a tensor, and zeros; only the compiler makes one, of a nest that says which.

    The statement of the nest is a :func:`selected_load`.
    """

    src: Region = reads()
    dst: Region = writes()


def selected_load(value: Any) -> tuple[Any, Any] | None:
    """The load that a value is, and the condition without which it is zero; None of any other value."""
    if isinstance(value, ir.TensorLoad):
        return value, None
    parts = _selected(value)
    if parts is None or not isinstance(parts[1], ir.TensorLoad) or not _is_zero(parts[2]):
        return None
    # The address is computed in any case: a tile in it may have elements only where the condition holds.
    inner = (part for index in parts[1].indices for part in walk_expr(index) if isinstance(part, ir.TensorLoad))
    return (parts[1], parts[0]) if all(is_global(part.source) for part in inner) else None


def _selected(value: Any) -> tuple[Any, Any, Any] | None:
    if isinstance(value, ir.Select):
        return value.condition, value.true_value, value.false_value
    return tuple(value.args) if is_choice(value) else None


def _is_zero(value: Any) -> bool:
    if isinstance(value, ir.Cast):
        return _is_zero(value.value)
    return isinstance(value, (ir.IntImm, ir.FloatImm)) and value.value == 0 and not str(value.value).startswith("-")


def in_place(body: Any) -> Any:
    """A body that moves an element as one store of a :func:`selected_load`, perhaps under a condition; any other as it is.

    ``inside = i < n and j < m``, ``if inside: tile[i, j] = A[i, j]`` and ``else: tile[i, j] = 0`` are
    ``tile[i, j] = T.Select(i < n and j < m, A[i, j], 0)``.
    """
    *named, last = flattened(body)
    if not isinstance(last, (ir.IfThenElse, ir.BufferStore)) or not all(isinstance(stmt, ir.Bind) for stmt in named):
        return body
    values: dict[Any, Any] = {}
    for bind in named:
        values[bind.var] = substitute(bind.value, values)
        # What has an effect (an atomic update with its old value) happens once, whether or not its value is used.
        if is_large(values[bind.var]) or not is_settled(bind.value):
            return body
    # Nothing is stored between the names and their uses.
    changed = _joined(substitute(last, values))
    store = changed.then_case if isinstance(changed, ir.IfThenElse) and changed.else_case is None else changed
    return changed if isinstance(store, ir.BufferStore) and selected_load(store.value) is not None else body


def _joined(stmt: Any) -> Any:
    """One store in place of a branch whose sides store to one element."""
    if not isinstance(stmt, ir.IfThenElse):
        return stmt
    sides = (stmt.then_case, stmt.else_case)
    if not all(isinstance(side, ir.BufferStore) for side in sides) or not sides[0].buffer.same_as(sides[1].buffer):
        return stmt
    if not tvm_ffi.structural_equal(sides[0].indices, sides[1].indices):
        return stmt
    return ir.BufferStore(
        sides[0].buffer, ir.Select(stmt.condition, *(side.value for side in sides)), sides[0].indices, stmt.span
    )


def gathered(nest: Nest) -> Gather | None:
    """The operator that a nest is, if it fills a shared tile from a tensor, row by row; else None."""
    store = nest.body
    found = selected_load(store.value) if isinstance(store, ir.BufferStore) and nest.layout is None else None
    if found is None:
        return None
    load, target = found[0], store.buffer
    *read, written = nest.accesses
    if not is_global(load.source) or not is_shared(target) or str(load.source.dtype) != str(target.dtype):
        return None
    # What threads hold in registers is not there for the address of a vector.
    if not all(is_memory(access.buffer) for access in read) or not nest.fills(written) or not _is_along_rows(load, written):
        return None
    return Gather(Region.whole(load.source), Region.whole(target))


def _is_along_rows(load: Any, written: Any) -> bool:
    """Whether neighbours in a row of the tile are neighbours in a row of the tensor: threads move several at once."""
    return len(load.indices) > 0 and makes_unit_steps(load.indices[-1], written.site.indices[-1])
