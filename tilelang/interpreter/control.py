"""Control flow: sequences, branches, loops, jumps, branches of warp groups.

Where all lanes take the same path, a branch or loop of Python runs once. Where they differ, each side of a branch and each
iteration of a loop runs under a mask of the lanes that take it; ``break``, ``continue`` and ``return`` remove lanes from the mask
until the loop, the iteration or the kernel ends.

A mask that does not change stays the same object, so ``is`` recognises the usual case, in which no lane has left, without
comparing arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tilelang.interpreter import fragments
from tilelang.interpreter.access import both, some
from tilelang.interpreter.compiler import Compiler, Step, statement
from tilelang.interpreter.differing import may_leave
from tilelang.interpreter.expressions import compiled
from tilelang.interpreter.numbers import element
from tilelang.interpreter.state import Lanes, Loop, union
from tilelang.interpreter.statements import in_each_thread, reads_memory
from tilelang.interpreter.survey import WARP_GROUP, takes_part
from tilelang.interpreter.together import run_together
from tilelang.interpreter.waits import may_end_by_itself, spins
from tilelang.ir import nodes as ir
from tilelang.ir.memory import is_fragment, lies_in_registers
from tilelang.ir.visit import flattened, is_parallel, walk_expr


@statement(ir.SeqStmt)
def _sequence(c: Compiler, stmt: Any) -> Step:
    steps, left, taking_part = [], False, False
    for part in flattened(stmt):
        # After `if c: return`, the rest runs as below `if not c`: by each thread for itself (docs/semantics.md).
        with c.threads_own(left), c.after(taking_part):
            steps.append(c.step(part))
        left = left or may_leave(part, c.differs)
        if not _is_own_value(part):
            taking_part = _is_for_threads(c, part) and (taking_part or takes_part(part))
    runs = [step.run for step in steps]

    def run(x: Lanes) -> bool:
        for each in runs:
            if each(x):
                return True
        return False

    if all(step.wait is None for step in steps):
        return Step(run)
    return Step(run, lambda x: run_together(x, steps), alone=all(step.alone for step in steps))


def _is_for_threads(c: Compiler, stmt: Any) -> bool:
    """Whether a statement is a branch for different threads."""
    if isinstance(stmt, ir.AttrStmt):
        return stmt.attr_key == WARP_GROUP
    return isinstance(stmt, ir.IfThenElse) and c.differs(stmt.condition)


def _is_own_value(stmt: Any) -> bool:
    """Whether a statement declares something, or gives a variable or array of each thread a value."""
    if isinstance(stmt, ir.BufferStore):
        return lies_in_registers(stmt.buffer) and not is_fragment(stmt.buffer)
    return isinstance(stmt, (ir.Bind, ir.AllocBuffer, ir.DeclBuffer))


@statement(ir.IfThenElse)
def _branch(c: Compiler, stmt: Any) -> Step:
    test = _condition(c, stmt.condition)
    with c.threads_own(c.is_own(stmt.condition)):
        then = c.step(stmt.then_case)
        otherwise = Step(lambda x: False) if stmt.else_case is None else c.step(stmt.else_case)
    by_data = not _is_of_threads(stmt.condition)
    if c.differs(stmt.condition):  # each side then works on its own copies of these
        then.fragments = c.fragments_in(stmt.then_case)
        otherwise.fragments = () if stmt.else_case is None else c.fragments_in(stmt.else_case)
    begin = _branch_beginning(c, stmt.span, stmt.condition)

    def run(x: Lanes) -> bool:
        begin(x)
        chosen = test(x)
        if not np.ndim(chosen):  # one value for all lanes
            return then.run(x) if chosen else otherwise.run(x)
        return _split(x, chosen, then, otherwise, by_data)

    alone = c.differs(stmt.condition) or (then.alone and otherwise.alone)

    def sides(x: Lanes) -> list[tuple[Any, Step]] | None:
        begin(x)
        chosen = test(x)
        return _sides(x, chosen, then, otherwise) if np.ndim(chosen) else None

    if then.wait is None and otherwise.wait is None:
        return Step(run, sides=sides, alone=alone)

    def wait(x: Lanes) -> Iterator[None]:
        begin(x)
        chosen = test(x)
        if not np.ndim(chosen):
            return (yield from waiting(then if chosen else otherwise, x))
        # A side may wait for what the other one does: they take turns.
        return (yield from run_together(x, [step]))

    step = Step(run, wait, sides, alone)
    return step


def _condition(c: Compiler, condition: Any) -> Callable[[Lanes], Any]:
    """The value of a condition: one of each thread where it may differ, even if it does not."""
    test = compiled(c, condition)
    if not c.is_own(condition):
        return test
    test = in_each_thread(test)
    return (lambda x: np.broadcast_to(test(x), (x.lanes,))) if c.differs(condition) else test


def _beginning(span: Any, *exprs: Any) -> Callable[[Lanes], None]:
    """How a branch or loop begins, whose condition or bounds are evaluated before its body."""
    if reads_memory(*exprs):
        return lambda x: x.begin(span)
    return lambda x: x.enter(span)


def _branch_beginning(c: Compiler, span: Any, *conditions: Any) -> Callable[[Lanes], None]:
    """How a branch begins: in order with one before it, unless threads wait for others in that one, or signal to them."""
    return _beginning(span, *conditions) if c.behind else lambda x: x.begin(span)


def _sides(x: Lanes, chosen: Any, then: Step, otherwise: Step) -> list[tuple[Any, Step]]:
    """The threads that take each side of a branch."""
    return [(both(x.mask, chosen), then), (both(x.mask, ~chosen), otherwise)]


def waiting(step: Step, x: Lanes) -> Iterator[None]:
    """A step as a generator."""
    if step.wait is None:
        return step.run(x)
    return (yield from step.wait(x))


def _is_of_threads(condition: Any) -> bool:
    """Whether a condition depends on the thread's number alone, so that the threads of each side still advance together."""
    return not any(isinstance(node, ir.TensorLoad) for node in walk_expr(condition))


def _split(x: Lanes, chosen: Any, then: Step, otherwise: Step, by_data: bool) -> bool:
    """Runs a branch whose lanes take both sides; whether no lane goes on after it.

    Args:
        x: the state.
        chosen: the lanes of the first side.
        then, otherwise: the sides.
        by_data: whether the condition depends on data, so that the statements of a side do not order its threads' accesses.
    """
    outer = x.mask
    x.unordered += by_data
    sides = _sides(x, chosen, then, otherwise)
    # The lanes of a T.Parallel are iterations, which are unordered already; threads get a clock for each side.
    left = [_side(x, mask, step) for mask, step in sides] if x.nest is not None else _run_sides(x, sides)
    x.unordered -= by_data
    return _rejoin(x, outer, *((mask, survivors) for (mask, _), survivors in zip(sides, left)))


def _side(x: Lanes, mask: Any, step: Step) -> Any:
    """Runs one side of a branch; gives the lanes that go on after it."""
    x.mask = mask
    if not some(mask):
        return mask
    return False if step.run(x) else x.mask


def _run_sides(x: Lanes, sides: list[tuple[Any, Step]]) -> list[Any]:
    """Runs the sides of a branch for different threads, which are in no order with each other."""
    strand, before, views, whole, left, diverged = x.strand, x.diverged, x.views, x.mask, [], []
    parts = sum(some(mask) for mask, _ in sides) > 1
    for mask, step in sides:
        # Each side starts from the clock before the branch. Going on with the first side's clock would order the second after it.
        x.strand, x.diverged, x.views, x.mask = strand, before, views, whole
        x.strand, x.diverged, x.mask = x.separate(mask), [], mask
        copies = fragments.enter(x, step.fragments) if parts and some(mask) else []
        left.append(_side(x, mask, step))
        x.meet()
        fragments.leave(x, copies, mask)
        diverged.append((mask, x.strand))
    # The clocks are joined by the next statement of all threads (Lanes.begin), and not here: what only some of them run until
    # then stays unordered with the other side.
    x.strand, x.diverged, x.views = strand, diverged, views
    return left


def _rejoin(x: Lanes, outer: Any, *sides: tuple[Any, Any]) -> bool:
    """Sets the mask after a branch; whether no lane goes on.

    Args:
        x: the state.
        outer: the mask before the branch.
        sides: for each side, the lanes that entered it and those that go on after it.
    """
    # The masks are still the same objects, so no lane has left on either side: all lanes that came go on.
    if all(entered is left for entered, left in sides):
        x.mask = outer
        return False
    (_, first), (_, second) = sides
    x.mask = union(first, second)
    return not some(x.mask)


@statement(ir.For)
def _loop(c: Compiler, stmt: Any) -> Step:
    # A T.Parallel inside of another one is a loop of each iteration: only the outer one's iterations are lanes.
    if is_parallel(stmt) and not c.in_nest:
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

    # Most loops never wait for other threads: they run without a generator, which costs several times a plain call.
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
    """Begins a loop."""
    frame = Loop(x.mask, x.returned)
    x.loops.append(frame)
    return frame


def _ended(x: Lanes, frame: Loop, stopped: bool) -> bool:
    """After an iteration: whether no lane runs another."""
    if frame.continued is not False:
        # Lanes that jumped by ``continue`` are back for the next iteration.
        rest = union(frame.continued, False if stopped else x.mask)
        frame.continued = False
        # Where lanes left by `continue` only, the next iteration has exactly the lanes of this one: the same object, for
        # comparisons by `is`.
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
    # The loop counted once, when its lanes first parted (Loop.part): since then threads may be at different iterations.
    x.unordered -= frame.parted
    # After the loop the lanes that left it by ``break`` go on, too; only those that returned do not.
    if x.returned is frame.returned:
        x.mask = outer
        return False
    x.mask = both(outer, np.logical_not(x.returned)) if x.returned is not True else np.zeros(x.lanes, bool)
    return not some(x.mask)


def _lane_loop(x: Lanes, frame: Loop, slot: int, first: Any, count: Any) -> Iterator[bool]:
    """The iterations of a loop whose bounds differ between lanes; each yields once its lanes are set.

    Lanes run their first iterations together, then their second ones, and so on, each with its own value of the variable.
    """
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

    ends = may_end_by_itself(stmt)

    def wait(x: Lanes) -> Iterator[None]:
        outer, frame = x.mask, _enter(x)
        while goes_on(x, frame) and not _ended(x, frame, (yield from waiting(body, x))):
            if x.block is not None:
                # The loop may poll what another block or group of threads writes, so these have a turn.
                x.block.waiting = "a loop whose condition never changes", span
                x.block.may_go_on |= ends
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
    if c.in_nest and not c.loops:  # the loop that it continues is the T.Parallel: the lane, an iteration, is over
        return Step(lambda x: True)

    def run(x: Lanes) -> bool:
        x.loops[-1].continued = union(x.loops[-1].continued, x.mask)
        return True

    return Step(run)


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
    begin = _branch_beginning(c, stmt.span)
    with c.threads_own(True):
        body = c.step(stmt.body)
    nothing = Step(lambda x: False)
    body.fragments = c.fragments_in(stmt.body)

    def begun(x: Lanes) -> Any:
        """Which threads take it, as the branch begins."""
        begin(x)
        return (groups >> (x.lane_ids // 128)) & 1 == 1  # the attribute's value is a bit mask of warp groups

    def run(x: Lanes) -> bool:
        return _split(x, begun(x), body, nothing, False)

    step = Step(run, sides=lambda x: _sides(x, begun(x), body, nothing), alone=True)
    if body.wait is not None:
        step.wait = lambda x: run_together(x, [step])
    return step
