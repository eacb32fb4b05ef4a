"""Statements that hold others, assignments, and memory: how each is run.

Where the lanes agree, control flow is Python's. Where they differ, each side of a branch and each iteration of a loop runs for
the lanes that take it; ``break``, ``continue`` and ``return`` take lanes out until the loop, the iteration or the kernel is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tilelang.errors import CompileError
from tilelang.interpreter import fragments, reducers
from tilelang.interpreter.access import both, some, store
from tilelang.interpreter.compiler import Compiler, Step, source_of, statement
from tilelang.interpreter.expressions import compiled
from tilelang.interpreter.memory import View, allocate, extent
from tilelang.interpreter.numbers import element
from tilelang.interpreter.state import Lanes, Loop, union
from tilelang.interpreter.survey import WARP_GROUP, is_of_registers, is_private, may_leave, touched
from tilelang.interpreter.together import run_together
from tilelang.interpreter.waits import spins
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_barrier
from tilelang.ir.visit import flattened, walk_expr
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
        effect = _in_each_thread(effect)

    def run(x: Lanes) -> bool:
        if of_memory:
            x.begin(span)
        else:
            x.enter(span)
        effect(x)
        return False

    return Step(run)


def _in_each_thread(function: Callable[[Lanes], Any]) -> Callable[[Lanes], Any]:
    """A function of the state as each thread executes it, even where all of them reach it together."""

    def run(x: Lanes) -> Any:
        outer = x.mask
        x.mask = np.ones(x.lanes, bool) if outer is True else outer
        value = function(x)
        x.mask = outer
        return value

    return run


def _reads_memory(*exprs: Any) -> bool:
    """Whether expressions read memory shared between threads, or may do anything else that the order of threads decides."""
    parts = (node for expr in exprs for node in walk_expr(expr))
    return any(
        not is_private(node.source)
        if isinstance(node, ir.TensorLoad)
        else isinstance(node, ir.Call) and not is_of_registers(node)
        for node in parts
    )


@statement(ir.SeqStmt)
def _sequence(c: Compiler, stmt: Any) -> Step:
    steps, left = [], False
    for part in flattened(stmt):
        with c.threads_own(left):
            steps.append(c.step(part))
        left = left or may_leave(part, c.differs)
    runs = [step.run for step in steps]

    def run(x: Lanes) -> bool:
        for each in runs:
            if each(x):
                return True
        return False

    if all(step.wait is None for step in steps):
        return Step(run)
    return Step(run, lambda x: run_together(x, steps), alone=all(step.alone for step in steps))


# Control flow --------------------------------------------------------------------------------------------------------


@statement(ir.IfThenElse)
def _branch(c: Compiler, stmt: Any) -> Step:
    test = _condition(c, stmt.condition)
    with c.threads_own(c.is_own(stmt.condition)):
        then = c.step(stmt.then_case)
        otherwise = Step(lambda x: False) if stmt.else_case is None else c.step(stmt.else_case)
    span, disputed = stmt.span, not _of_threads(c, stmt.condition)
    if c.differs(stmt.condition):
        then.fragments = c.fragments_in(stmt.then_case)
        otherwise.fragments = () if stmt.else_case is None else c.fragments_in(stmt.else_case)

    begin = _beginning(span, stmt.condition)

    def run(x: Lanes) -> bool:
        begin(x)
        chosen = test(x)
        if not np.ndim(chosen):
            return then.run(x) if chosen else otherwise.run(x)
        return _split(x, chosen, then, otherwise, disputed)

    alone = c.differs(stmt.condition) or (then.alone and otherwise.alone)
    if then.wait is None and otherwise.wait is None:
        return Step(run, alone=alone)

    def sides(x: Lanes) -> list[tuple[Any, Step]] | None:
        begin(x)
        chosen = test(x)
        return _sides(x, chosen, then, otherwise) if np.ndim(chosen) else None

    def wait(x: Lanes) -> Iterator[None]:
        begin(x)
        chosen = test(x)
        if not np.ndim(chosen):
            return (yield from waiting(then if chosen else otherwise, x))
        return (yield from run_together(x, [step]))

    step = Step(run, wait, sides, alone)
    return step


def _condition(c: Compiler, condition: Any) -> Callable[[Lanes], Any]:
    """The value of a condition: one of each thread where it may differ, even if it does not."""
    test = compiled(c, condition)
    if not c.is_own(condition):
        return test
    test = _in_each_thread(test)
    return (lambda x: np.broadcast_to(test(x), (x.lanes,))) if c.differs(condition) else test


def _beginning(span: Any, *exprs: Any) -> Callable[[Lanes], None]:
    """How a statement begins that evaluates expressions before others inside of it run."""
    if _reads_memory(*exprs):
        return lambda x: x.begin(span)
    return lambda x: x.enter(span)


def _sides(x: Lanes, chosen: Any, then: Step, otherwise: Step) -> list[tuple[Any, Step]]:
    """The threads that take each side of a branch."""
    return [(both(x.mask, chosen), then), (both(x.mask, ~chosen), otherwise)]


def waiting(step: Step, x: Lanes) -> Iterator[None]:
    """A step as a generator."""
    if step.wait is None:
        return step.run(x)
    return (yield from step.wait(x))


def _of_threads(c: Compiler, condition: Any) -> bool:
    """Whether a condition is one on the thread's number alone, so that the threads of each side still advance together."""
    return not any(isinstance(node, ir.TensorLoad) for node in walk_expr(condition))


def _split(x: Lanes, chosen: Any, then: Step, otherwise: Step, disputed: bool) -> bool:
    outer = x.mask
    x.unordered += disputed
    sides = _sides(x, chosen, then, otherwise)
    left = [_side(x, mask, step) for mask, step in sides] if x.nest is not None else _apart(x, sides)
    x.unordered -= disputed
    return _rejoin(x, outer, *((mask, survivors) for (mask, _), survivors in zip(sides, left)))


def _side(x: Lanes, mask: Any, step: Step) -> Any:
    """Runs one side; gives the lanes that go on after it."""
    x.mask = mask
    if not some(mask):
        return mask
    return False if step.run(x) else x.mask


def _apart(x: Lanes, sides: list[tuple[Any, Step]]) -> list[Any]:
    """Runs the sides of a branch for different threads, which are in no order with each other."""
    strand, before, views, left, apart = x.strand, x.apart, x.views, [], []
    for mask, step in sides:
        x.strand, x.apart, x.views, x.mask = strand, before, views, mask
        x.strand, x.apart = x.separate(mask), []
        copies = fragments.enter(x, step.fragments) if some(mask) else []
        left.append(_side(x, mask, step))
        x.meet()
        fragments.leave(x, copies, mask)
        apart.append((mask, x.strand))
    x.strand, x.apart, x.views = strand, apart, views
    return left


def _rejoin(x: Lanes, outer: Any, *sides: tuple[Any, Any]) -> bool:
    """The lanes that go on after a branch."""
    if all(entered is left for entered, left in sides):
        x.mask = outer
        return False
    (_, first), (_, second) = sides
    x.mask = union(first, second)
    return not some(x.mask)


@statement(ir.For)
def _loop(c: Compiler, stmt: Any) -> Step:
    if "tl.parallel" in stmt.annotations and not c.in_nest:
        from tilelang.interpreter.nest import parallel

        return parallel(c, stmt)
    low, extent, slot = compiled(c, stmt.min), compiled(c, stmt.extent), c.slot(stmt.loop_var)
    kind = element(str(stmt.loop_var.ty)).value.type
    with c.threads_own(c.is_own(stmt.min, stmt.extent)):
        body = c.iteration(stmt.body)
    begin = _beginning(stmt.span, stmt.min, stmt.extent)

    def run(x: Lanes) -> bool:
        begin(x)
        first, count = low(x), extent(x)
        if np.ndim(first) or np.ndim(count):
            return _differing_loop(x, slot, first, count, body.run)
        outer, frame = x.mask, _enter(x)
        for value in range(int(first), int(first) + int(count)):
            x.values[slot] = kind(value)
            if _ended(x, frame, body.run(x)):
                break
        return _leave(x, outer, frame)

    if body.wait is None:
        return Step(run)

    def wait(x: Lanes) -> Iterator[None]:
        begin(x)
        first, count = low(x), extent(x)
        if np.ndim(first) or np.ndim(count):
            return (yield from _differing_loop_waiting(x, slot, first, count, body))
        outer, frame = x.mask, _enter(x)
        for value in range(int(first), int(first) + int(count)):
            x.values[slot] = kind(value)
            if _ended(x, frame, (yield from waiting(body, x))):
                break
        return _leave(x, outer, frame)

    return Step(run, wait, alone=body.alone)


def _enter(x: Lanes) -> Loop:
    frame = Loop(x.mask, x.returned)
    x.loops.append(frame)
    return frame


def _ended(x: Lanes, frame: Loop, stopped: bool) -> bool:
    """After an iteration: whether no lane runs another."""
    if frame.continued is not False:
        rest = union(frame.continued, False if stopped else x.mask)
        frame.continued = False
        if frame.broken is False and x.returned is frame.returned:
            x.mask = frame.mask
            return False
        x.mask, stopped = rest, not some(rest)
    if not stopped and x.mask is not frame.mask:
        frame.part(x, x.mask)
    return stopped


def _leave(x: Lanes, outer: Any, frame: Loop) -> bool:
    """After a loop: whether no active lane is left."""
    x.loops.pop()
    x.unordered -= frame.parted
    if x.returned is frame.returned:
        x.mask = outer
        return False
    x.mask = both(outer, np.logical_not(x.returned)) if x.returned is not True else np.zeros(x.lanes, bool)
    return not some(x.mask)


def _lane_loop(x: Lanes, frame: Loop, slot: int, first: Any, count: Any) -> Iterator[bool]:
    """The iterations of a loop whose bounds differ between lanes; each yields once its lanes are set."""
    first, count = np.broadcast_to(first, (x.lanes,)), np.broadcast_to(count, (x.lanes,))
    for turn in range(int(count.max(initial=0)) if x.mask is True else int(count[x.mask].max(initial=0))):
        frame.part(x, both(x.mask, turn < count))
        if not some(x.mask):
            return
        x.values[slot] = (first + first.dtype.type(turn)).astype(first.dtype)
        yield True


def _differing_loop(x: Lanes, slot: int, first: Any, count: Any, body: Callable) -> bool:
    outer, frame = x.mask, _enter(x)
    for _ in _lane_loop(x, frame, slot, first, count):
        if _ended(x, frame, body(x)):
            break
    return _leave(x, outer, frame)


def _differing_loop_waiting(x: Lanes, slot: int, first: Any, count: Any, body: Step) -> Iterator[None]:
    outer, frame = x.mask, _enter(x)
    for _ in _lane_loop(x, frame, slot, first, count):
        if _ended(x, frame, (yield from waiting(body, x))):
            break
    return _leave(x, outer, frame)


@statement(ir.While)
def _while(c: Compiler, stmt: Any) -> Step:
    test, span = _condition(c, stmt.condition), stmt.span
    with c.threads_own(c.is_own(stmt.condition)):
        body = c.iteration(stmt.body)

    def goes_on(x: Lanes, frame: Loop) -> bool:
        """Whether some lanes run another iteration; these are then those that take part."""
        x.begin(span)
        chosen = test(x)
        if not np.ndim(chosen):
            return bool(chosen)
        frame.part(x, both(x.mask, chosen))
        return some(x.mask)

    def run(x: Lanes) -> bool:
        outer, frame = x.mask, _enter(x)
        while goes_on(x, frame) and not _ended(x, frame, body.run(x)):
            pass
        return _leave(x, outer, frame)

    def wait(x: Lanes) -> Iterator[None]:
        outer, frame = x.mask, _enter(x)
        while goes_on(x, frame) and not _ended(x, frame, (yield from waiting(body, x))):
            if x.block is not None:
                x.block.waiting = None
                yield None
        return _leave(x, outer, frame)

    return Step(run, wait if body.wait is not None or spins(stmt) else None, alone=body.alone)


@statement(ir.Break)
def _break(c: Compiler, stmt: Any) -> Step:
    def run(x: Lanes) -> bool:
        x.loops[-1].broken = union(x.loops[-1].broken, x.mask)
        return True

    return Step(run)


@statement(ir.Continue)
def _continue(c: Compiler, stmt: Any) -> Step:
    if c.in_nest and not c.loops:
        return Step(lambda x: True)

    def run(x: Lanes) -> bool:
        x.loops[-1].continued = union(x.loops[-1].continued, x.mask)
        return True

    return Step(run)


# Values and memory ---------------------------------------------------------------------------------------------------


@statement(ir.BufferStore)
def _store(c: Compiler, stmt: Any) -> Step:
    if c.in_nest and stmt.buffer in c.reducers and stmt.buffer in touched(ir.Evaluate(stmt.value)):
        return reducers.update(c, stmt)
    slot, value = c.view(stmt.buffer), compiled(c, stmt.value)
    indices = [compiled(c, index) for index in stmt.indices]

    def effect(x: Lanes) -> None:
        stored = value(x)
        store(x, x.views[slot], [index(x) for index in indices], stored)

    own = c.is_own(stmt.buffer, *stmt.indices, stmt.value)
    step = leaf(stmt.span, effect, not is_private(stmt.buffer) or _reads_memory(stmt.value, *stmt.indices), own)
    step.alone = is_private(stmt.buffer)
    return step


@statement(ir.Bind)
def _bind(c: Compiler, stmt: Any) -> Step:
    value, slot = compiled(c, stmt.value), c.slot(stmt.var)

    def effect(x: Lanes) -> None:
        x.values[slot] = value(x)

    step = leaf(stmt.span, effect, _reads_memory(stmt.value), c.is_own(stmt.value))
    step.alone = True
    return step


@statement(ir.AllocBuffer)
def _allocate(c: Compiler, stmt: Any) -> Step:
    buffer = stmt.buffer
    scope, kind, slot = buffer.scope(), element(str(buffer.dtype)), c.view(buffer)
    shape = [as_int(size) for size in buffer.shape]
    cells, name, size = c.cells[buffer], str(buffer.name), extent(shape, kind)
    own = buffer in c.differing
    if is_barrier(buffer):
        from tilelang.interpreter.barriers import allocation

        return allocation(c, stmt)

    def run(x: Lanes) -> bool:
        rows = x.lanes if own or x.nest is not None else 1
        x.views[slot] = View(allocate(name, scope, size, kind, cells, rows), kind, shape, None, name)
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
    raise CompileError("an assertion of TVM's has no meaning in a tile program", hint="use T.device_assert")


@statement(ir.AttrStmt)
def _attribute(c: Compiler, stmt: Any) -> Step:
    from tilelang.interpreter import kernel

    if stmt.attr_key == "thread_extent":
        return kernel.launch(c, stmt)
    if stmt.attr_key == WARP_GROUP:
        return _warp_groups(c, stmt)
    return c.step(stmt.body)


def _warp_groups(c: Compiler, stmt: Any) -> Step:
    """``T.ws``: a branch for the threads of some warp groups."""
    groups = int(stmt.value.value)
    with c.threads_own(True):
        body = c.step(stmt.body)
    nothing = Step(lambda x: False)
    body.fragments = c.fragments_in(stmt.body)

    def chosen(x: Lanes) -> Any:
        return (groups >> (x.lane_ids // 128)) & 1 == 1

    def run(x: Lanes) -> bool:
        return _split(x, chosen(x), body, nothing, False)

    if body.wait is None:
        return Step(run, alone=True)
    step = Step(run, sides=lambda x: _sides(x, chosen(x), body, nothing), alone=True)
    step.wait = lambda x: run_together(x, [step])
    return step
