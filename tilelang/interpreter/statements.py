"""Statements that contain no others: assignments, stores, allocations, calls. Control flow is in :mod:`.control`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilelang.errors import UnsupportedError
from tilelang.interpreter import reducers, updates
from tilelang.interpreter.access import store
from tilelang.interpreter.blocks import BlockAccess
from tilelang.interpreter.compiler import Compiler, Step, source_of, statement
from tilelang.interpreter.expressions import compiled
from tilelang.interpreter.memory import View, allocate, extent
from tilelang.interpreter.numbers import element
from tilelang.interpreter.state import WARP, Lanes
from tilelang.interpreter.survey import is_of_registers, is_private, touched
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_barrier, is_fragment, is_memory, lies_in_shared
from tilelang.ir.visit import reads_its_place, walk_expr
from tilelang.tileop.base import is_tile_op


def leaf(span: Any, effect: Callable[[Lanes], Any], of_memory: bool = True, own: bool = False) -> Step:
    """A leaf statement that never ends a lane.

    Args:
        span: its place in the program.
        effect: what it does.
        of_memory: whether it accesses memory shared between threads.
        own: whether each thread executes it, even where all of them reach it together.

    Returns:
        The step.
    """
    if own:
        effect = in_each_thread(effect)

    def run(x: Lanes) -> bool:
        if of_memory:
            x.begin(span)
        else:
            x.enter(span)
        effect(x)
        return False

    return Step(run)


def in_each_thread(function: Callable[[Lanes], Any]) -> Callable[[Lanes], Any]:
    """A function of the state as each thread executes it, even where all of them reach it together."""

    def run(x: Lanes) -> Any:
        outer = x.mask
        # A mask that is True means one execution for the whole block; an array with all threads, one for each of them.
        x.mask = np.ones(x.lanes, bool) if outer is True else outer
        value = function(x)
        x.mask = outer
        return value

    return run


def reads_memory(*exprs: Any) -> bool:
    """Whether expressions read memory shared between threads, or may do anything else that the order of threads decides."""
    parts = (node for expr in exprs for node in walk_expr(expr))
    return any(
        not is_private(node.source)
        if isinstance(node, ir.TensorLoad)
        else isinstance(node, ir.Call) and not is_of_registers(node)
        for node in parts
    )


@statement(ir.BufferStore)
def _store(c: Compiler, stmt: Any) -> Step:
    # In a T.Parallel `r[i] = r[i] + x` adds to the reducer, whatever iteration comes first; a store without the old value sets
    # it.
    if c.in_nest and stmt.buffer in c.reducers and stmt.buffer in touched(ir.Evaluate(stmt.value)):
        return reducers.update(c, stmt)
    effect = _effect(c, stmt)
    own = c.is_own(stmt.buffer, *stmt.indices, stmt.value)
    whose = _shared_by(c, stmt) if own else None
    together = whose is not None
    act = _by_one(effect, whose) if together else effect
    of_memory = not is_private(stmt.buffer) or reads_memory(stmt.value, *stmt.indices)
    step = leaf(stmt.span, act, of_memory, own and not together)
    # What a thread does to its own memory concerns no other: it may go on through such statements while others wait elsewhere.
    step.alone = is_private(stmt.buffer)
    return step


def _effect(c: Compiler, stmt: Any) -> Callable[[Lanes], None]:
    slot, value = c.view(stmt.buffer), compiled(c, stmt.value)
    indices = [compiled(c, index) for index in stmt.indices]

    tracked = stmt.buffer not in c.in_turn

    def effect(x: Lanes) -> None:
        stored = value(x)
        store(x, x.views[slot], [index(x) for index in indices], stored, tracked)

    axes = c.in_nest
    if not axes or not tracked or stmt.buffer not in c.updated or not reads_its_place(stmt):
        return effect
    updated = updates.update(c, stmt)
    # Of a loop that each thread runs in whole, the threads' updates are in no order.
    return lambda x: (updated if len(x.nest or ()) == len(axes) else effect)(x)


def _shared_by(c: Compiler, stmt: Any) -> Callable[[int, int], bool] | None:
    """Which threads, from a first to a last one, make a store together, if any do: nothing in it differs between threads, and it
    is to a fragment, or puts elements of fragments into memory, which is that of the threads that hold the tile, or changes an
    element of memory."""
    exprs = (*stmt.indices, stmt.value)
    if not (is_memory(stmt.buffer) or is_fragment(stmt.buffer)) or any(map(c.differs, exprs)):
        return None
    loads = (part.source for expr in exprs for part in walk_expr(expr) if isinstance(part, ir.TensorLoad))
    if any(map(is_fragment, (stmt.buffer, *loads))):
        return lambda first, last: _in_one_warp(first, last) or first % WARP == (last + 1) % WARP == 0
    return _in_one_warp if reads_its_place(stmt) else None


def _in_one_warp(first: int, last: int) -> bool:
    return first // WARP == last // WARP


def _by_one(effect: Callable[[Lanes], Any], together: Callable[[int, int], bool]) -> Callable[[Lanes], Any]:
    """What neighbouring threads do once that make it together; others, and those that data has chosen, each for itself."""

    def run(x: Lanes) -> None:
        outer = x.mask
        lanes = np.arange(x.lanes) if outer is True else np.flatnonzero(outer)
        first, last = int(lanes[0]), int(lanes[-1])
        if outer is not True and not x.unordered and together(first, last) and lanes.size == last - first + 1:
            x.mask = np.arange(x.lanes) == first
        effect(x)
        x.mask = outer

    return run


@statement(ir.Bind)
def _bind(c: Compiler, stmt: Any) -> Step:
    value, slot = compiled(c, stmt.value), c.slot(stmt.var)

    def effect(x: Lanes) -> None:
        x.values[slot] = value(x)

    step = leaf(stmt.span, effect, reads_memory(stmt.value), c.is_own(stmt.value))
    step.alone = True
    return step


@statement(ir.AllocBuffer)
def _allocate(c: Compiler, stmt: Any) -> Step:
    buffer = stmt.buffer
    scope, kind, slot = buffer.scope(), element(str(buffer.dtype)), c.view(buffer)
    shape = [as_int(size) for size in buffer.shape]
    cells, name, size = c.cells[buffer], str(buffer.name), extent(shape, kind)
    own, is_in_shared = buffer in c.differing, lies_in_shared(buffer)
    if is_barrier(buffer):
        from tilelang.interpreter.barriers import allocation

        return allocation(c, stmt)

    # Allocations come first in a kernel (docs/semantics.md, "Memory"), so this runs once for each block.
    def run(x: Lanes) -> bool:
        rows = x.lanes if own or x.nest is not None else 1
        storage = allocate(name, scope, size, kind, cells, rows)
        if is_in_shared and x.block.is_written_by_others:
            storage.blocks = BlockAccess(storage.cell_count, x.block.order)
        x.views[slot] = View(storage, kind, shape, None, name)
        return False

    return Step(run)


@statement(ir.DeclBuffer)
def _declare(c: Compiler, stmt: Any) -> Step:
    buffer, source = stmt.buffer, source_of(stmt.data)
    slot, kind, name = c.view(buffer), element(str(buffer.dtype)), str(buffer.name)
    shape = [compiled(c, size) for size in buffer.shape]
    strides = [compiled(c, stride) for stride in buffer.strides]
    if source is None:
        from tilelang.interpreter.addresses import tensor_at

        return tensor_at(c, stmt, kind, shape, strides)
    origin = c.view(source)

    def run(x: Lanes) -> bool:
        sizes = [int(size(x)) for size in shape]
        steps = [int(stride(x)) for stride in strides] or None
        base = x.views[origin]
        # A view's first element is counted in elements of its own type, which may be narrower or wider than the source's.
        x.views[slot] = View(base.storage, kind, sizes, steps, name, base.base * base.kind.bits // kind.bits)
        return False

    return Step(run)


@statement(ir.Evaluate)
def _evaluate(c: Compiler, stmt: Any) -> Step:
    from tilelang.interpreter import operators, waits

    call = stmt.value
    if is_tile_op(call):
        return operators.step(c, call, stmt.span)
    blocking = waits.step(c, call, stmt.span)
    if blocking is not None:
        return blocking
    if isinstance(call, (ir.IntImm, ir.Var)):
        return Step(lambda x: False)
    value = compiled(c, call)
    return leaf(stmt.span, value, own=c.is_own(*call.args))


@statement(ir.AssertStmt)
def _assert(c: Compiler, stmt: Any) -> Step:
    raise UnsupportedError("an assertion of TVM's has no meaning in a tile program", hint="use T.device_assert")
