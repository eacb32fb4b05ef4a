"""The proof that inferred layouts fit the statements: each thread holds what it accesses, and no copy of an element goes stale.

The solver reasons about which part of a thread's number each index moves. This check starts from the definition instead. A loop
layout writes the number of the running thread as a sum of digits, and the nest's variables as sums of the same digits. A fragment
demands of the thread that holds an element that ``(thread // stride) % extent`` is the element's digit, for each of its thread
modes. Both sides are exact (:mod:`tilelang.layout.digits`), so that comparing them is a proof. What fails here is a defect of
layout inference, never of the program, and would otherwise be wrong values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tilelang.errors import LayoutProofError
from tilelang.ir.access import ADDRESS, READ
from tilelang.ir.memory import is_fragment
from tilelang.ir.span import location_of
from tilelang.layout.digits import Digit, Form, NotMixedRadix, Term
from tilelang.layout.fragment import REGISTER, THREAD, FragmentLayout, Mode, join_modes
from tilelang.target.cuda.inference.layouts import Layouts
from tilelang.target.cuda.inference.loop_layout import LoopLayout
from tilelang.target.cuda.ir.access import Access
from tilelang.target.cuda.operators import rule_of
from tilelang.target.cuda.tile.tree import Branch, Operator, Parallel, Scalar, TileTree, walk

_REPLICA = "replica"


def verify(tree: TileTree, layouts: Layouts) -> None:
    """Proves for every statement of a kernel that it finds the elements of fragments where ``layouts`` has them.

    Raises:
        LayoutProofError: there is no such proof for a statement.
    """
    for buffer, layout in layouts.fragments.items():
        _check(is_bijective(layout), buffer, "its layout numbers threads or registers twice", None)
        root = tree.root_of(buffer)
        shared = root in layouts.fragments and layouts.fragments[root] != layout
        _check(not shared or _in_order(layout) == _in_order(layouts.fragments[root]), buffer, "a view of it lies elsewhere", None)
    for node in walk(tree.root):
        if isinstance(node, Parallel):
            _verify_nest(node, layouts)
        elif isinstance(node, (Scalar, Branch)):
            for access in _fragment_accesses(node.accesses, layouts):
                if access.kind == ADDRESS:
                    continue  # generating code refuses one that only some threads have
                whole = is_whole(layouts.fragments[access.buffer], len(layouts.threads_of[node]))
                _check(whole, access.buffer, "some threads do not hold an element that all of them use", node)
        elif isinstance(node, Operator):
            _verify_operator(node, layouts)


def _check(proved: bool, buffer: Any, reason: str, node: Any) -> None:
    if not proved:
        raise LayoutProofError(buffer.name, reason, None if node is None else location_of(node.span))


def _fragment_accesses(accesses: Iterable[Access], layouts: Layouts) -> Iterator[Access]:
    """Accesses of fragments; of a reducer each thread has values of its own."""
    return (a for a in accesses if is_fragment(a.buffer) and a.buffer not in layouts.reducers)


def _verify_nest(node: Parallel, layouts: Layouts) -> None:
    loop = layouts.loops[node]
    for access in _fragment_accesses(node.nest.accesses, layouts):
        layout = layouts.fragments[access.buffer]
        _check(holds(access, layout, loop), access.buffer, "a thread does not hold an element that it uses", node)
        if access.kind != READ:
            _check(reaches_copies(layout, loop), access.buffer, "a write does not reach every copy of its element", node)


def _verify_operator(node: Operator, layouts: Layouts) -> None:
    threads = len(layouts.threads_of[node])
    rule = rule_of(node.op)
    for proved, buffer, reason in rule.proofs(node.op, layouts.fragments, threads):
        _check(proved, buffer, reason, node)
    for buffer, demanded in rule.demands(node.op, layouts.plans.get(node)):
        layout = layouts.fragments[buffer]
        _check(layout == demanded or layout.is_equal(demanded), buffer, "an operator needs it in other places", node)


# Layouts by themselves -------------------------------------------------------------------------------------------------


def is_bijective(layout: FragmentLayout) -> bool:
    """Whether threads are numbered without gaps, and elements of one thread lie in different registers."""
    modes = [mode for axis in layout.modes for mode in axis]
    threads = sorted((m.stride, m.extent) for m in (*modes, *layout.replicas) if m.coord == THREAD and m.extent > 1)
    registers = sorted((m.stride, m.extent) for m in modes if m.coord == REGISTER and m.extent > 1)
    size = 1
    for stride, extent in threads:
        if stride != size:
            return False
        size *= extent
    # Registers may have gaps (padding), but each mode must step beyond everything that the smaller ones reach.
    reach = 1
    for stride, extent in registers:
        if stride < reach:
            return False
        reach += stride * (extent - 1)
    return True


def _in_order(layout: FragmentLayout) -> list[tuple[int, int, str]]:
    """The modes over the elements in row-major order; neighbours that continue each other are one."""
    modes = join_modes(mode for axis in reversed(layout.modes) for mode in axis)
    return [(mode.extent, mode.stride, mode.coord) for mode in (*modes, *layout.replicas)]


def is_whole(layout: FragmentLayout | None, threads: int) -> bool:
    """Whether each of the first ``threads`` threads holds the whole tile, under a layout that is known."""
    return layout is not None and threads <= layout.threads and layout.is_whole


# A nest's access -------------------------------------------------------------------------------------------------------


def running_thread(loop: LoopLayout) -> Form:
    """The number of the thread that runs an iteration, over the digits of the loop and of its replicas."""
    digits = [digit for axis in loop.digits for digit, _ in axis if digit.coord == THREAD]
    digits += [Digit(f"copy{number}", mode.extent, _REPLICA, mode.stride) for number, mode in enumerate(loop.replicas)]
    total = Form()
    for digit in digits:
        total = total + Form.of_digit(digit, digit.stride)
    return total


def holds(access: Access, layout: FragmentLayout, loop: LoopLayout) -> bool:
    """Whether the thread of every iteration of a nest holds the element that the iteration accesses."""
    if is_whole(layout, loop.threads):
        return True
    thread = running_thread(loop)
    try:
        # Threads past those of the layout hold nothing; the quotient must not move at all.
        if thread.divmod(layout.threads)[0].terms:
            return False
        return all(
            same_values(thread.between(mode.stride, mode.extent), digit)
            for index, modes in zip(access.site.indices, layout.modes)
            for mode, digit in _thread_digits(index, modes, loop)
        )
    except NotMixedRadix:
        return False


def _thread_digits(index: Any, modes: tuple[Mode, ...], loop: LoopLayout) -> Iterator[tuple[Mode, Form]]:
    """The thread modes of an axis, each with the digit that an index has there."""
    last = max((place for place, mode in enumerate(modes) if mode.coord == THREAD), default=-1)
    if last < 0:
        return
    form, weight = loop.position_of(index, modes), 1
    for place, mode in enumerate(modes[: last + 1]):
        if mode.coord == THREAD:
            # The outermost digit is not reduced: positions in the padding of an axis are never accessed.
            outermost = place == len(modes) - 1
            yield mode, form.divmod(weight)[0] if outermost else form.between(weight, mode.extent)
        weight *= mode.extent


def same_values(a: Form, b: Form) -> bool:
    """Whether two sums of digits are always equal."""
    return isinstance(b.offset, int) and a.offset == b.offset and _normal(a) == _normal(b)


def _normal(form: Form) -> list[Term]:
    """The terms by digit and part, neighbouring parts that continue each other joined."""
    found: list[Term] = []
    for term in sorted(form.terms, key=lambda term: (term.digit.name, term.low)):
        last = found[-1] if found else None
        if last and last.digit == term.digit and last.low * last.extent == term.low and last.weight * last.extent == term.weight:
            found[-1] = Term(last.digit, last.weight, last.low, last.extent * term.extent)
        else:
            found.append(term)
    return found


def reaches_copies(layout: FragmentLayout, loop: LoopLayout) -> bool:
    """Whether the threads that hold copies of an element all run the same iterations.

    They do where the loop has copies of its iterations in them. What an axis or a fixed index distributes over them is done by
    one of them only.
    """
    thread = running_thread(loop)
    try:
        parts = [(mode.extent, thread.between(mode.stride, mode.extent)) for mode in layout.replicas]
    except NotMixedRadix:
        return False
    return all(
        # The largest value is extent - 1 exactly if the digit takes all values 0 to extent - 1: every copy is reached.
        sum(term.largest for term in part) == extent - 1 and all(term.digit.coord == _REPLICA for term in part)
        for extent, part in parts
    )
