"""From a kernel's tree and its layouts to device code: one rule for each kind of node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

from tilelang.errors import CompileError, DivergenceError
from tilelang.ir import nodes as ir
from tilelang.ir.access import ADDRESS, READ, UPDATE, WRITE
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_memory, lies_in_registers
from tilelang.ir.region import Region
from tilelang.ir.span import location_of
from tilelang.ir.visit import statement_exprs
from tilelang.layout.fragment import THREAD
from tilelang.target.cuda.analysis.waiting import acquires, orders_threads, waits_for_others
from tilelang.target.cuda.codegen.emitter import Emitter
from tilelang.target.cuda.codegen.nest import emit_nest
from tilelang.target.cuda.codegen.roles import are_concurrent, joined_roles
from tilelang.target.cuda.codegen.statements import statement
from tilelang.target.cuda.codegen.structure import (
    NamedBarriers,
    emit_branch,
    emit_group,
    emit_loop,
    emit_repeat,
    emit_single_thread,
)
from tilelang.target.cuda.intrinsics.table import Intrinsic, intrinsic, is_atomic
from tilelang.target.cuda.intrinsics.tensor_maps import moved_tensor
from tilelang.target.cuda.intrinsics.values import constant_argument, named_barrier
from tilelang.target.cuda.ir.access import Access, Agent, ThreadMap
from tilelang.target.cuda.ir.code import Barrier, Block, Code, Jump, Leaf, Slot, Wait, leaf, made_by, under, with_span
from tilelang.target.cuda.ir.instructions import Assign, Define, Evaluate, Return, WaitProducts
from tilelang.target.cuda.operators import rule_of
from tilelang.target.cuda.tile.nest import reached_from
from tilelang.target.cuda.tile.tree import (
    AFTER_EXIT,
    SINGLE_THREAD,
    Branch,
    Loop,
    Operator,
    Parallel,
    Repeat,
    Scalar,
    Sequence,
    ThreadGroup,
    walk,
)


class InFlight:
    """The asynchronous operators of one kernel that have been started, in program order."""

    def __init__(self, emitter: Emitter):
        self.e = emitter
        self._started: list[Any] = []

    def start(self, node: Any) -> None:
        """Notes an operator, if it is asynchronous."""
        if rule_of(node.op).is_asynchronous(node.op):
            self._started.append(node)

    def wait(self, pending: int) -> list[Code]:
        """The program's own wait, after which the results of all but the newest ``pending`` operators are valid.

        With none pending that includes what a loop has started in the iteration before.
        """
        pins = {}
        read: dict[Access, None] = {}
        # At the wait of a loop's first iteration, `_started` lacks what stands below it in the body. And of what stands above,
        # operators of the iteration before may be complete here whose newest ones are not.
        every = self._of_group()
        complete = self._started[:-pending] if pending else every
        # The compiler is to leave alone the registers of a newer operator, with the same result, that is in flight.
        used = {_results(node) for node in self._started[-pending:]} if pending else set()
        for node in every:
            read.update(dict.fromkeys(self._operands(node)))
            if node in complete and _results(node) not in used:
                pins[_results(node)] = rule_of(node.op).pinned(node, self.e)
        code = leaf([WaitProducts(pending), *(code for pinned in pins.values() for code in pinned)])
        code.accesses = tuple(dict.fromkeys((*code.accesses, *read)))
        return [code]

    def complete(self) -> list[Code]:
        """The wait for all operators that may be in flight, beside one that is complete at its end and counts as the newest of
        them; nothing where all are complete at their end."""
        return self.wait(0) if any(rule_of(node.op).pinned(node, self.e) for node in self._of_group()) else []

    def _of_group(self) -> list[Any]:
        """The asynchronous operators of these threads, wherever in the kernel they stand."""
        layouts = self.e.layouts
        every = [node for node in layouts.plans if rule_of(node.op).is_asynchronous(node.op)]
        return [node for node in every if layouts.threads_of[node] == self.e.threads]

    def _operands(self, node: Any) -> Iterator[Access]:
        """The tiles that an operator may read until the wait, whatever barriers stand before it: a thread waits for its own
        part, and others may still read. The slots of a ring are the pipeline's."""
        for region, access in node.op.regions():
            storage = self.e.storage(region.buffer) if "r" in access else None
            if storage is not None and not isinstance(storage, Slot):
                yield Access(storage, READ)


def _results(node: Any) -> tuple[Any, ...]:
    """The buffers that an operator writes."""
    return tuple(region.buffer for region, access in node.op.regions() if "w" in access)


class Generator:
    """Generates the code of one kernel.

    Attributes:
        emitter: the kernel's names and places.
        in_flight: operators that have been started.
        single: whether one thread alone runs what is being generated.
        divergent: whether only some threads run what is being generated.
        asynchronous: whether copies of single threads are to be asynchronous.
        behind: whether the statement comes behind branches of groups that take part in barriers, in no order with them.
        barriers: the hardware barriers of groups of threads.
    """

    def __init__(self, emitter: Emitter):
        self.emitter = emitter
        self.in_flight = InFlight(emitter)
        self.single = False
        self.divergent = False
        self.asynchronous = False
        self.behind = False
        self.barriers = NamedBarriers(emitter.tree.root, {})

    def block(self, sequence: Sequence) -> Block:
        """The code of statements in order."""
        outer, self.behind, items = self.behind, False, list[Code]()
        for node in sequence.items:
            made = self.node(node)
            items += made
            self.behind = are_concurrent(made, self.behind)
        self.behind = outer
        return Block(joined_roles(items))

    def node(self, node: Any) -> list[Code]:
        """The code of one node."""
        try:
            return with_span(_RULES[type(node)](self, node), node.span)
        except CompileError as error:
            raise error.at(location_of(node.span)) from None

    # Structure ---------------------------------------------------------------------------------------------------------

    def _sequence(self, node: Sequence) -> list[Code]:
        return self.block(node).items

    def below(self, node: Any, body: Sequence) -> tuple[bool, Block]:
        """Whether the threads of the group may disagree on how often the body of a loop or branch runs, and its code."""
        divergent = not self.emitter.agrees(node)
        outer, self.divergent = self.divergent, self.divergent or divergent
        code = self.block(body)
        self.divergent = outer
        return divergent, code

    def _group(self, node: ThreadGroup) -> list[Code]:
        if node.threads is None:
            key = getattr(node.stmt, "attr_key", None)  # none where a branch is of all threads
            if key == SINGLE_THREAD:
                return emit_single_thread(self, node)
            outer, self.asynchronous = self.asynchronous, self.asynchronous or key == ASYNC_SCOPE
            code = self.block(node.body).items
            self.asynchronous = outer
            return code
        return emit_group(self, node)

    # Statements of a thread --------------------------------------------------------------------------------------------

    def _scalar(self, node: Scalar) -> list[Code]:
        e, stmt = self.emitter, node.stmt
        if isinstance(stmt, (ir.Break, ir.Continue)):
            return [Jump("break" if isinstance(stmt, ir.Break) else "continue")]
        known = intrinsic(stmt.value) if isinstance(stmt, ir.Evaluate) else None
        ordering = None if known is None else _ORDERING.get(known.name)
        if known is not None and ordering is not None:
            known.require(e.target)
            return ordering(self, stmt.value)
        copy = self._async_copy(node) if self.asynchronous else None
        if copy is not None:
            return [copy]
        publishes = known is not None and known.publishes
        reach = reached_from(stmt)

        def maps(access: Access) -> ThreadMap | None:
            elements = reach.get(access.buffer, 1)
            return None if elements is None else self.map_of_threads(access, elements)

        if self.divergent or e.is_by_thread(node):
            code = leaf(statement(e, stmt), hands_over=publishes)
            code.synchronises = orders_threads(statement_exprs(stmt))
            code.arrives = known is not None and known.publishes and known.manual
            code.acquires = code.synchronises and acquires(statement_exprs(stmt))
            code.waits = code.synchronises and waits_for_others(statement_exprs(stmt))
            code.uniform = self.divergent and e.uniformity.agree(statement_exprs(stmt), e.uniformity.block)
            return [self._by_agent(known, stmt, e.annotated(code, node.accesses, maps))]
        if isinstance(stmt, (ir.Bind, ir.Evaluate)) and is_atomic(stmt.value):
            return self._atomic(stmt)
        # Every thread runs the statement for its own registers; the first one alone does what it does to memory.
        stored = is_memory(stmt.buffer) if isinstance(stmt, ir.BufferStore) else known is not None and known.place == ADDRESS
        first = e.thread_maps.single(e.threads.start)  # it alone makes the block's stores
        code = leaf(statement(e, stmt, e.is_first), hands_over=publishes)
        return [self._by_agent(known, stmt, e.annotated(code, node.accesses, (lambda access: first) if stored else maps))]

    def _by_agent(self, known: Intrinsic | None, stmt: Any, code: Leaf) -> Leaf:
        """The code of a statement that may be an intrinsic, with who makes its accesses."""
        moved = moved_tensor(stmt.value) if known is not None and known.in_bulk else None
        storage = None if moved is None else self.emitter.storage(moved[0])
        if moved is not None and storage is not None:
            code.accesses = (*code.accesses, Access(storage, moved[1], Agent.BULK_OF_TENSOR))
        return made_by(Agent.CP_ASYNC_OF_PROGRAM, code) if known is not None and known.starts else code

    def _async_copy(self, node: Scalar) -> Leaf | None:
        from tilelang.target.cuda.codegen.thread_copies import async_copy_of  # few programs have such copies

        return async_copy_of(self, node)

    def _barrier(self, call: Any) -> list[Code]:
        if call.args:
            code = leaf([Evaluate(named_barrier(call, self.emitter))], hands_over=True)
            code.waits = True
            return [code]
        return [Barrier(of_program=True, after_exit=bool(call.attrs and call.attrs.get(AFTER_EXIT)))]

    def _wait_for_products(self, call: Any) -> list[Code]:
        return self.in_flight.wait(constant_argument(call, 0))

    def map_of_threads(self, access: Any, elements: int = 1) -> ThreadMap | None:
        """What each thread of the group touches by an access of a statement that all of them run, to some elements in a row; None
        where these may go on beyond the end of a row."""
        e, buffer = self.emitter, access.buffer
        found = e.thread_maps.of(buffer, access.site.indices, e.threads, is_placed=self.divergent, elements=elements)
        if elements == 1:
            return found
        box, row = found.box[-1], as_int(buffer.shape[-1])
        return found if box is not None and isinstance(row, int) and box[1] < row else None

    def _atomic(self, stmt: Any) -> list[Code]:
        """An atomic access that the block makes once: it releases what all threads did, and its result is for all of them.

        Another block may then store to what a copy of this one reads, so copies are complete, too.
        """
        e = self.emitter
        releases = str(stmt.value.attrs.get("memory_order", "relaxed")) in _RELEASING
        # CUDA C++ programming guide, "Memory Fence Functions": a release by one thread covers what the others did only if they
        # came to a barrier with it before.
        before: list[Code] = [Barrier(of_program=True)] if releases else []
        if isinstance(stmt, ir.Evaluate):
            return [*before, leaf(statement(e, stmt, e.is_first))]
        return [*before, *self.broadcast(stmt)]

    def broadcast(self, stmt: Any) -> list[Code]:
        """A binding whose value one thread computes for all."""
        e, dtype = self.emitter, str(stmt.var.ty)
        shared = e.scratch(1, dtype, f"{stmt.var.name}_shared").at(0)
        # The two leaves conflict over the scratch element, so the barrier between them is placed like any other.
        store = leaf(under(e.is_first, [Assign(shared, e.value(stmt.value))]))
        return [store, leaf([Define(e.named(stmt.var), dtype, shared)])]

    def _refuse_divergence(self) -> None:
        if self.divergent:
            raise DivergenceError(
                "a tile operator below a condition that only some threads meet",
                hint="let the condition depend on the thread's number alone, so that its threads can share the work",
            )

    def _refuse_divergent_conversion(self, node: Any) -> None:
        if self.divergent and node in self.emitter.layouts.conversions:
            raise self.emitter.layouts.conversions[node]

    # Nests -------------------------------------------------------------------------------------------------------------

    def _parallel(self, node: Parallel) -> list[Code]:
        e = self.emitter
        if node not in e.layouts.per_thread and _is_shared_out(node, e.layouts.loops[node]):
            self._refuse_divergence()
        self._refuse_divergent_conversion(node)
        return self.nest(node) if node.op is None else rule_of(node.op).lower_nest(node, self)

    def nest(self, node: Parallel, filled: Region | None = None, asynchronous: bool = False) -> list[Code]:
        """The code of a nest that each thread runs its share of (:func:`emit_nest`)."""
        return emit_nest(self.emitter, node, self.emitter.layouts.loops[node], filled, asynchronous)

    @cached_property
    def touches(self) -> Counter[Any]:
        """How often the kernel touches each buffer."""
        from tilelang.target.cuda.schedule.dependence import count_touches  # few kernels have pipelined loops left

        return count_touches(self.emitter.tree.root, self.emitter.tree)

    @cached_property
    def read_tensors(self) -> set[Any]:
        """Tensors that the kernel reads anywhere, except by updates whose destination they are."""
        found: set[Any] = set()
        for node in walk(self.emitter.tree.root):
            if isinstance(node, Parallel):
                updated = node.op is not None and rule_of(node.op).destination(node.op) is not None
                # An atomic addition reads what it changes, and that alone: no other statement depends on the value in between.
                own = (WRITE, UPDATE) if updated else (WRITE,)
                found |= {access.buffer for access in node.nest.accesses if access.kind not in own}
            elif isinstance(node, Operator):
                found |= {region.buffer for region, access in node.op.regions() if "r" in access}
        return found

    # Operators ---------------------------------------------------------------------------------------------------------

    def _operator(self, node: Operator) -> list[Code]:
        rule = rule_of(node.op)
        self._refuse_divergent_conversion(node)
        if rule.collective:
            self._refuse_divergence()
        return rule.lower(node, self)


def _is_shared_out(node: Parallel, loop: Any) -> bool:
    """Whether the threads of a group share the iterations of a nest, or one of them stores for all."""
    split = any(mode.coord == THREAD for dim in loop.dims for mode in dim.modes)
    return split or any(a.kind != READ and not lies_in_registers(a.buffer) for a in node.nest.accesses)


ASYNC_SCOPE = "async_scope"
"""Attribute around copies that are to be asynchronous."""

_RELEASING = ("release", "acq_rel", "seq_cst")


_ORDERING: Mapping[str, Callable[[Generator, Any], list[Code]]] = {
    "sync_threads": Generator._barrier,
    "thread_return": lambda generator, call: [leaf([Return()])],
    "ptx_wait_group": lambda generator, call: [Wait(constant_argument(call, 0), users=True)],
    "wait_wgmma": Generator._wait_for_products,
    "warpgroup_wait": Generator._wait_for_products,
}
"""Intrinsics that the steps after this one must know as more than calls."""

_RULES: Mapping[type, Callable[[Generator, Any], list[Code]]] = {
    Sequence: Generator._sequence,
    Loop: emit_loop,
    Repeat: emit_repeat,
    Branch: emit_branch,
    ThreadGroup: Generator._group,
    Scalar: Generator._scalar,
    Parallel: Generator._parallel,
    Operator: Generator._operator,
}
