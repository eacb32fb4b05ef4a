"""Which pipelined loops can be fed by the tensor memory accelerator, and with what.

A loop qualifies where some of its statements are copies from tensors that nothing in the kernel writes into shared tiles that
only this loop reads: a producer can then run ahead of the consumers by as many iterations as there are stages.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.facts import Facts
from tilelang.ir.memory import is_global, is_variable
from tilelang.ir.visit import (
    any_statement,
    children,
    expressions,
    flattened,
    is_parallel,
    mentions,
    own_expressions,
    statement_exprs,
    variables,
    walk,
)
from tilelang.records import Record
from tilelang.target.cuda.analysis.availability import Fill, LoopBody, by_tile, is_available, read_after
from tilelang.target.cuda.intrinsics.table import intrinsic
from tilelang.target.cuda.operators import rule_of
from tilelang.target.cuda.specialize.ring_code import Counter, Feed, Load, bytes_of, fits_slots
from tilelang.target.cuda.tile.build import parallel_nest
from tilelang.target.cuda.tile.gather import gathered
from tilelang.target.cuda.tile.nest import evaluated, writes_in
from tilelang.target.cuda.tile.tree import SCHEDULE_NOTES, USER_WARP_GROUPS, Hints, is_default_swizzle
from tilelang.tileop import record_of

_LARGE_SHARE = 8
"""A loop belongs to software pipelining if gathers bring more than this part of what the accelerator could bring."""


class Statement(Record, eq=False):
    """A statement of a loop's body; what is known of it is found once."""

    stmt: Any

    @cached_property
    def op(self) -> Any:
        """The tile operator that it is; None where it is none."""
        return record_of(self.stmt)

    @cached_property
    def asynchronous(self) -> Any:
        """The form of its operator that is only started, and waited for later; None where there is none."""
        return rule_of(self.op).asynchronous(self.op)

    @cached_property
    def buffers(self) -> set[Any]:
        """Every buffer that it names."""
        return buffers_of(self.stmt)

    @cached_property
    def written(self) -> set[Any]:
        """The buffers that it may write."""
        return set(writes_in(self.stmt))

    def started(self) -> Any:
        """The statement that only starts what this one does."""
        return self.asynchronous.started.to_stmt(self.stmt.span)

    def awaited(self, pending: int) -> Any:
        """The wait for what it has started, except the newest ``pending``."""
        return self.asynchronous.awaited(pending).to_stmt(self.stmt.span)

    @property
    def operands(self) -> tuple[set[Any], set[Any]]:
        """The buffers that its operator reads only, and those that it writes."""
        read = {region.buffer for region, access in self.op.regions() if access == "r"}
        return read, {region.buffer for region, access in self.op.regions() if "w" in access}


class Ring(Record, eq=False):
    """A loop that a producer feeds.

    Attributes:
        loop: the ``For`` statement.
        body: its statements, in order.
        stages: tiles in flight.
        feeds: what arrives in each iteration.
        nested: whether the loop may run more than once.
    """

    loop: Any
    body: tuple[Statement, ...]
    stages: int
    feeds: tuple[Feed, ...]
    nested: bool

    @property
    def consumed(self) -> list[int]:
        """Positions in the body of what is not the producer's."""
        loads = {load.at for feed in self.feeds for load in feed.loads}
        return [at for at in range(len(self.body)) if at not in loads]

    def products(self, positions: Iterable[int]) -> list[int]:
        """Those of some positions in the body whose operators may be started and waited for later."""
        return [at for at in positions if self.body[at].asynchronous is not None]

    def counter(self, role: str) -> Counter:
        """Where a role is in the ring, at first at its beginning."""
        return Counter(self.stages, f"{role}_{self.loop.loop_var.name}")

    @cached_property
    def versions(self) -> dict[Any, Any]:
        """The shared tiles that arrive -> those with a version for each slot."""
        return {tile: versioned for feed in self.feeds for tile, versioned in feed.versions.items()}


def find_rings(body: Any, facts: Facts, usage: Usage | None = None) -> list[Ring]:
    """The pipelined loops of a kernel whose tiles a producer can load, in program order; none of one with explicit
    synchronisation."""
    usage = usage or Usage(body)
    return [] if usage.is_manual else list(_rings(body, usage, facts, False))


def buffers_of(stmt: Any) -> set[Any]:
    """Every buffer that ``stmt``, or a statement inside it, names."""
    return {part for part in expressions(stmt) if isinstance(part, ir.Var) and ir.is_buffer_var(part)}


class Usage:
    """Facts about a whole kernel.

    Attributes:
        written: buffer -> how often statements write it.
        named: variable or buffer -> how often statements name it (:meth:`mentions`).
        aliased: buffers that have another name, and those names.
        hints: what the program says about the kernel.
        hint_statements: the statements that do so.
        registers: the statements that set registers: whose, and how many.
        is_manual: whether the program orders shared memory, or splits the block, by itself.
        setup: the leading statements that only compute scalars, from what nothing in the kernel writes.
        launch_waits: statements that wait for the kernel before; a program that has one in a loop or branch is manual.
        gathers: whether a ``T.Parallel`` may be a copy.
        unknown: variables whose value a producer cannot compute. Its threads have other numbers than those of the consumers.
    """

    def __init__(self, body: Any, threads: Iterable[Any] = (), gathers: bool = True):
        self.body, self.gathers = body, gathers
        every = list(walk(body))
        self.written = writes_in(body)
        views = [stmt for stmt in every if isinstance(stmt, ir.DeclBuffer)]
        self.aliased = {part for view in views for part in (view.buffer, *variables(view.data))}
        self.hints, self.hint_statements, self._swizzles = Hints(), set[Any](), set[Any]()
        self.registers: dict[Any, tuple[str, int]] = {}
        for stmt in every:
            self._note(stmt)
        self.named = self.mentions(body)
        self.launch_waits = set(filter(_waits_for_kernel, flattened(body)))
        self.is_manual = any(map(_orders_itself, every)) or any(map(_waits_for_kernel, set(every) - self.launch_waits))
        self.setup = self._setup(flattened(body))
        # In this order: which variables keep their value decides which bindings the producer can compute.
        self.settled = self._settled(threads)
        self.unknown = set(threads)
        for stmt in every:
            if isinstance(stmt, ir.Bind) and not self.is_known(stmt.value):
                self.unknown.add(stmt.var)

    def _note(self, stmt: Any) -> None:
        op, layouts = record_of(stmt), len(self.hints.layouts)
        if op is None:
            return
        registers = rule_of(op).registers(op)
        if registers is not None:
            self.registers[stmt] = registers
        if rule_of(op).hint(op, None, self.hints):
            self.hint_statements.add(stmt)
            if any(is_default_swizzle(buffer, layout) for buffer, layout, _ in self.hints.layouts[layouts:]):
                self._swizzles.add(stmt)

    def mentions(self, stmt: Any) -> collections.Counter[Any]:
        """How often a statement names each variable and buffer; its allocation and a wish for its swizzle do not count."""
        counted = (node for node in walk(stmt) if not isinstance(node, ir.AllocBuffer) and node not in self._swizzles)
        return collections.Counter(var for node in counted for expr in statement_exprs(node) for var in variables(expr))

    def _setup(self, top: Sequence[Any]) -> list[Any]:
        found: list[Any] = []
        for stmt in top:
            if isinstance(stmt, ir.AllocBuffer) or stmt in self.hint_statements:
                continue
            if not self._is_scalar(stmt):
                break
            found.append(stmt)
        return found

    def _is_scalar(self, stmt: Any) -> bool:
        if isinstance(stmt, ir.BufferStore):
            inside = is_variable(stmt.buffer)
        else:
            inside = isinstance(stmt, (ir.Bind, ir.SeqStmt, ir.IfThenElse)) or (
                isinstance(stmt, ir.For) and stmt.kind == ir.ForKind.SERIAL
            )
        exprs = statement_exprs(stmt)
        known = (is_available(expr, lambda b: is_variable(b) or self._is_constant(b), set()) for expr in exprs)
        return inside and all(known) and all(map(self._is_scalar, children(stmt)))

    def _settled(self, threads: Iterable[Any]) -> set[Any]:
        """Variables that keep the value which the setup gives them, the same in all threads."""
        inside = (node for stmt in self.setup for node in walk(stmt))
        # As many stores in the setup as in the whole kernel: none comes later, so the producer may compute it once, too.
        count = collections.Counter(node.buffer for node in inside if isinstance(node, ir.BufferStore))
        dependent = _thread_dependent(threads, [each for stmt in self.setup for each in _decided(stmt)])
        return {buffer for buffer, times in count.items() if self.written[buffer] == times and buffer not in dependent}

    def is_known(self, expr: Any) -> bool:
        """Whether a producer can compute an expression: nothing comes from shared memory, registers or written tensors."""
        return is_available(expr, lambda b: b in self.settled or self._is_constant(b), self.unknown)

    def _is_constant(self, buffer: Any) -> bool:
        """Whether a buffer is a tensor that nothing in the kernel writes."""
        names = self.aliased if buffer in self.aliased else (buffer,)
        return is_global(buffer) and not any(map(self.written.get, names))


def _decided(stmt: Any, around: tuple[Any, ...] = ()) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """What scalar statements give a value to, and the expressions that decide the value, conditions around it included."""
    deciding = (*around, *statement_exprs(stmt))
    if isinstance(stmt, ir.BufferStore):
        yield stmt.buffer, deciding
    elif isinstance(stmt, ir.Bind):
        yield stmt.var, deciding
    elif isinstance(stmt, ir.For):
        yield stmt.loop_var, deciding
    for child in children(stmt):
        yield from _decided(child, deciding)


def _thread_dependent(threads: Iterable[Any], decided: Sequence[tuple[Any, tuple[Any, ...]]]) -> set[Any]:
    """The numbers of threads, and what is decided by them."""
    found, more = set[Any](), set(threads)
    # Again and again: in a loop a variable may get what stands further down.
    while not more <= found:
        found |= more
        more = {target for target, deciding in decided if any(mentions(expr, found) for expr in deciding)}
    return found


def _orders_itself(stmt: Any) -> bool:
    """Whether a program orders shared memory, or splits the block, by itself by a statement."""
    if isinstance(stmt, ir.AllocBuffer):
        return "barrier" in stmt.buffer.scope()
    if isinstance(stmt, ir.AttrStmt) and stmt.attr_key == USER_WARP_GROUPS:
        return True
    return any(call.manual for call in filter(None, map(intrinsic, own_expressions(stmt))))


def _waits_for_kernel(stmt: Any) -> bool:
    known = intrinsic(stmt.value) if isinstance(stmt, ir.Evaluate) else None
    return known is not None and known.of_launch


def _rings(stmt: Any, usage: Usage, facts: Facts, nested: bool) -> Iterator[Ring]:
    ring = _ring(stmt, usage, facts, nested) if isinstance(stmt, ir.For) and "num_stages" in stmt.annotations else None
    if ring is not None:
        yield ring
        return
    if isinstance(stmt, ir.IfThenElse) and not usage.is_known(stmt.condition):
        return
    repeats = isinstance(stmt, (ir.For, ir.While))
    for child in children(stmt):
        yield from _rings(child, usage, facts, nested or repeats)


def _ring(loop: Any, usage: Usage, facts: Facts, nested: bool) -> Ring | None:
    stages = int(as_int(loop.annotations["num_stages"]))
    # A schedule of the user's is left to software pipelining, and so are loops with early exits: a producer could not tell how
    # many loads the consumers wait for.
    explicit = any(note in loop.annotations for note in SCHEDULE_NOTES)
    if stages < 2 or explicit or any_statement(loop.body, lambda node: isinstance(node, (ir.Break, ir.Continue))):
        return None
    body = tuple(map(Statement, flattened(loop.body)))
    around = LoopBody(body, usage.mentions(loop), usage.named, usage.written, usage.aliased, usage.is_known)
    inside = any_statement(loop.body, lambda node: isinstance(node, ir.For) and "num_stages" in node.annotations)
    loads = [] if inside else [load for at, stmt in enumerate(body) if (load := _load(at, stmt, facts)) is not None]
    loads = [load for group in by_tile(loads) if _can_feed(group, around, usage) for load in group]
    if not loads:
        return None
    # The accelerator cannot make a gather, and consumers would wait for it in each iteration: software pipelining has all copies
    # of the loop in flight. A few row numbers or scales beside large tiles are worth that wait.
    by_threads = sum(_bytes_gathered_ahead(at, stmt, around) for at, stmt in enumerate(body)) if usage.gathers else 0
    if by_threads * _LARGE_SHARE > sum(load.bytes for load in loads):
        return None
    return Ring(loop, body, stages, tuple(_grouped(loads, body, stages)), nested)


def _bytes_gathered_ahead(at: int, stmt: Statement, body: LoopBody) -> int:
    """What a statement brings, if it is a gather that may be made iterations ahead; else 0."""
    if not is_parallel(stmt.stmt):
        return 0
    nest = parallel_nest(stmt.stmt)
    gather = gathered(nest)
    if gather is None or not body.may_fill_ahead([Fill(at, gather.src, gather.dst, tuple(evaluated(nest.body)))]):
        return 0
    return bytes_of(gather.dst)


def _load(at: int, stmt: Statement, facts: Facts) -> Load | None:
    transfer = rule_of(stmt.op).transfer(stmt.op)
    start = rule_of(stmt.op).load(stmt.op, facts)
    return None if transfer is None or start is None else Load(at, transfer.source, transfer.target, (), start)


def _can_feed(loads: Sequence[Load], body: LoopBody, usage: Usage) -> bool:
    """Whether loads make all of a tile, and something uses it."""
    tile, sources = loads[0].target.buffer, {load.source.buffer for load in loads}
    if not body.may_fill_ahead(loads) or not fits_slots(tile):
        return False
    # An alias of the source could be written under another name, and a safe value is not zero, which is all that the accelerator
    # fills with.
    if sources & (usage.aliased | usage.hints.safe_values.keys()):
        return False
    # Consumers give a slot back after its last use, and not after the program's wait for what still reads it.
    if any(tile in read_after(stmt.stmt) for stmt in body.statements):
        return False
    return any(tile in stmt.buffers for stmt in body.statements[loads[-1].at + 1 :])


def _grouped(loads: Sequence[Load], body: Sequence[Statement], stages: int) -> list[Feed]:
    groups: dict[tuple[int, int], list[Load]] = {}
    consumed = set(range(len(body))) - {load.at for load in loads}
    for load in loads:
        # Tiles with the same first and last use wait on one barrier: one arrival and one wait for both operands of a product.
        places = [place for place in sorted(consumed) if load.target.buffer in body[place].buffers]
        groups.setdefault((places[0], places[-1]), []).append(load)
    return [Feed(tuple(group), first, last, stages) for (first, last), group in groups.items()]
