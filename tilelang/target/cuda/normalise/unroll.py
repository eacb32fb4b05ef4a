"""Serial loops whose variable says which part of a fragment is meant are written out.

Registers have no addresses: an element chosen at run time puts the whole fragment into local memory, and a row chosen at run time
(``acc[s * 16 + i, j]``) is in other threads in each iteration, so it would go through shared memory. With the number in its place
each copy of the body names its own registers.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, simplify
from tilelang.ir.memory import is_fragment
from tilelang.ir.visit import is_parallel, own_expressions, variables, walk, with_children
from tilelang.target.cuda.tile.tree import PIPELINE_NOTES, SCHEDULE_NOTES
from tilelang.tileop import record_of
from tilelang.transform.substitute import copied

MOST_ITERATIONS, MOST_STATEMENTS = 16, 64
"""Iterations of a loop, and statements that it may become: code that is much longer costs more than it saves."""


def unroll_choices(stmt: Any) -> Any:
    """A statement without short loops that choose parts of fragments."""
    if isinstance(stmt, ir.While) or is_parallel(stmt):
        return stmt
    stmt = with_children(stmt, unroll_choices)
    return _copies(stmt) if isinstance(stmt, ir.For) and _chooses(stmt) else stmt


def _chooses(loop: Any) -> bool:
    """Whether a loop is short, whole, and its variable part of an index of a fragment."""
    extent = as_int(loop.extent)
    if int(loop.kind) not in _SERIAL or not isinstance(extent, int) or not isinstance(as_int(loop.min), int):
        return False
    if loop.step is not None or not 0 < extent <= MOST_ITERATIONS or any(note in loop.annotations for note in PIPELINE_NOTES):
        return False
    inside = list(walk(loop.body))
    if any(isinstance(stmt, ir.For) and any(note in stmt.annotations for note in SCHEDULE_NOTES) for stmt in inside):
        return False  # copies of a scheduled loop would fill one tile, which then can have no slots
    leaves = sum(isinstance(stmt, (ir.BufferStore, ir.Evaluate, ir.Bind)) for stmt in inside)
    if any(isinstance(stmt, (ir.Break, ir.Continue)) for stmt in inside) or extent * leaves > MOST_STATEMENTS:
        return False
    return any(loop.loop_var in set(variables(index)) for stmt in inside for index in _choices(stmt))


def _choices(stmt: Any) -> list[Any]:
    """Indices of fragments, and numbers of registers."""
    found = list(stmt.indices) if isinstance(stmt, ir.BufferStore) and is_fragment(stmt.buffer) else []
    op = record_of(stmt)
    if op is not None:
        found += [number for number in op.register_numbers() if isinstance(number, ir.PrimExpr)]
    for part in own_expressions(stmt):
        if isinstance(part, ir.TensorLoad) and is_fragment(part.source):
            found += part.indices
        elif isinstance(part, ir.TensorRegion) and is_fragment(part.source):
            found += [axis.min for axis in part.region]
    return found


def _copies(loop: Any) -> Any:
    """The body for each value of the variable."""
    var, first = loop.loop_var, as_int(loop.min)
    numbers = (ir.IntImm(str(var.ty), number) for number in range(first, first + as_int(loop.extent)))
    copies = [tvm_ffi.structural_map(copied(loop.body, {var: number}), _FOLDED) for number in numbers]
    return ir.SeqStmt(copies, loop.span) if len(copies) > 1 else copies[0]


def _folded(expr: Any) -> Any:
    """A sum or product of integers with a constant in it, in its simplest form: what a nest is shifted by must show."""
    both = isinstance(expr.a, ir.IntImm) and isinstance(expr.b, ir.IntImm)
    return simplify(expr) if both else expr


_FOLDED = [(kind, _folded) for kind in (ir.Add, ir.Sub, ir.Mul)]

_SERIAL = (int(ir.ForKind.SERIAL), int(ir.ForKind.UNROLLED))
