"""Loops that choose elements of fragments in a way that no layout follows, brought to a form that one does.

Serial loops whose variable says which part of a fragment is meant are written out. Registers have no addresses: an element that
is chosen at run time puts the whole fragment into local memory, and a row chosen at run time (``acc[s * 16 + i, j]``) is in other
threads in each iteration, so it would go through shared memory. With the number in its place each copy of the body names its own
registers.

``T.vectorized`` loops that are the whole body of a ``T.Parallel`` become an axis of it, where their lanes are independent.
``for i, j in T.Parallel(64, 32): for v in T.vectorized(2): tile[i, j * 2 + v] = …`` is distributed as the tile then is, and
vectors lie along ``v`` as along any axis. As a loop of the body it would index the tile by what no layout of the loop knows.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, simplify
from tilelang.ir.memory import is_fragment
from tilelang.ir.visit import flattened, is_parallel, own_expressions, parallel_loops, variables, walk, walk_expr, with_children
from tilelang.layout.digits import Digit, Form, NotMixedRadix
from tilelang.target.cuda.tile.nest import form_of
from tilelang.target.cuda.tile.tree import PIPELINE_NOTES, SCHEDULE_NOTES
from tilelang.tileop import record_of
from tilelang.tileop.carried import has_effect
from tilelang.transform.substitute import copied

# Serial loops ---------------------------------------------------------------------------------------------------------

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


# Lanes ----------------------------------------------------------------------------------------------------------------

_PLAIN = {"tl.parallel"}
"""The annotations of a loop that says nothing of its own layout, which would be one for its own number of axes."""


def widen_parallel(body: Any) -> Any:
    """A kernel's statements whose ``T.Parallel`` loops have the lanes of their bodies as an axis."""
    return _widened(body, {stmt.buffer: stmt.data for stmt in walk(body) if isinstance(stmt, ir.DeclBuffer)})


def _widened(stmt: Any, aliases: Any) -> Any:
    if not is_parallel(stmt):
        return with_children(stmt, lambda child: _widened(child, aliases))
    loops = parallel_loops(stmt)
    lanes = loops[-1].body
    if set(stmt.annotations) != _PLAIN or not _are_lanes(lanes, [*loops, lanes], aliases):
        return stmt
    body = lanes.body
    for loop in (lanes, *reversed(loops[1:])):
        body = ir.For(loop.loop_var, loop.min, loop.extent, ir.ForKind.PARALLEL, body, span=loop.span)
    notes = {"tl.parallel": ir.IntImm("int32", len(loops) + 1)}
    return ir.For(stmt.loop_var, stmt.min, stmt.extent, ir.ForKind.PARALLEL, body, annotations=notes, span=stmt.span)


def _are_lanes(loop: Any, loops: list[Any], aliases: Any) -> bool:
    """Whether a loop is ``T.vectorized``, and each of its iterations stores elements of its own, which no other one reads."""
    if not isinstance(loop, ir.For) or int(loop.kind) != int(ir.ForKind.VECTORIZED) or as_int(loop.min) != 0:
        return False
    stores = flattened(loop.body)
    if not isinstance(as_int(loop.extent), int) or not all(isinstance(stmt, ir.BufferStore) for stmt in stores):
        return False
    places = {}
    for stmt in stores:
        if stmt.buffer in aliases or stmt.buffer in places or not _tells_lanes_apart(stmt.indices, loop, loops):
            return False
        places[stmt.buffer] = stmt
    parts = [part for stmt in stores for expr in (*stmt.indices, stmt.value) for part in walk_expr(expr)]
    loads = [part for part in parts if isinstance(part, ir.TensorLoad)]
    return not any(has_effect(part) for part in parts) and all(_is_own(load, places, aliases) for load in loads)


def _tells_lanes_apart(indices: Any, loop: Any, loops: list[Any]) -> bool:
    """Whether an index is another number in each lane."""
    extents = {each.loop_var: as_int(each.extent) for each in loops}
    if not all(isinstance(extent, int) for extent in extents.values()):
        return False
    digits = {var: Digit(var.name, extent, "") for var, extent in extents.items()}
    forms = {var: Form.of_digit(digit) for var, digit in digits.items()}
    try:
        terms = [term for index in indices for term in form_of(index, forms)]
    except NotMixedRadix:
        return False
    return any(term.digit == digits[loop.loop_var] and (term.low, term.extent) == (1, extents[loop.loop_var]) for term in terms)


def _is_own(load: Any, places: Any, aliases: Any) -> bool:
    """Whether a lane reads what no lane stores, or the element that it stores itself."""
    if load.source in aliases:
        return False
    store = places.get(load.source)
    return store is None or all(tvm_ffi.structural_equal(a, b) for a, b in zip(load.indices, store.indices))
