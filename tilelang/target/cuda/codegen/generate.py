"""From a kernel's tree and its layouts to code: one rule for each kind of node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tilelang.errors import CompileError
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.region import Region
from tilelang.ir.span import location_of
from tilelang.ir.visit import walk_expr
from tilelang.layout import row_major
from tilelang.layout.fragment import THREAD
from tilelang.target.cuda.codegen.async_calls import PRODUCT_WAITS, constant_argument
from tilelang.target.cuda.codegen.code import Barrier, Block, BranchCode, Code, Jump, LoopCode, ScopeCode, Wait, leaf_of
from tilelang.target.cuda.codegen.element_types import value_type
from tilelang.target.cuda.codegen.emitter import Emitter
from tilelang.target.cuda.codegen.intrinsics import named_barrier_text
from tilelang.target.cuda.codegen.nest import emit_nest
from tilelang.target.cuda.codegen.pipelined import emit_pipeline
from tilelang.target.cuda.codegen.statements import loop_header, statement
from tilelang.target.cuda.hopper.wgmma import WARP_GROUP_NUMBER
from tilelang.target.cuda.inference.loop_layout import loop_from_fragment
from tilelang.target.cuda.operators import rule_of
from tilelang.target.cuda.reading.nest import READ
from tilelang.target.cuda.reading.tiles import nest_of
from tilelang.target.cuda.reading.tree import Branch, Loop, Operator, Parallel, Repeat, Scalar, Scope, Sequence, walk
from tilelang.target.cuda.reading.uniformity import is_atomic
from tilelang.target.cuda.schedule.plan import plan_schedule
from tilelang.tileop.copy import Copy
from tilelang.tileop.thread import intrinsic_name


class Generator:
    """Generates the code of one kernel.

    Attributes:
        emitter: the kernel's names and places.
        hopper: rules of what only sm_90a has, or None.
        max_registers: whether the kernel moves registers between its warps.
        divergent: whether only some threads run what is being generated.
        by_thread: whether statements outside of tile operators are each thread's own.
        barriers: hardware number of the named barrier of each scope, and the numbers that the program uses.
    """

    def __init__(self, emitter: Emitter, hopper: Any = None):
        self.emitter = emitter
        self.hopper = hopper
        self.max_registers = False
        self.divergent = False
        self.by_thread = False
        self.barriers: dict[Any, int] = {}

    def block(self, sequence: Sequence) -> Block:
        """The code of statements in order."""
        block = Block()
        for node in sequence.items:
            block.items += self.node(node)
        return block

    def node(self, node: Any) -> list[Code]:
        """The code of one node."""
        try:
            return _RULES[type(node)](self, node)
        except CompileError as error:
            span = getattr(node, "span", None) or getattr(getattr(node, "stmt", None), "span", None)
            raise error.at(location_of(span)) from None

    # Structure ---------------------------------------------------------------------------------------------------------

    def _sequence(self, node: Sequence) -> list[Code]:
        return self.block(node).items

    def _loop(self, node: Loop) -> list[Code]:
        schedule = plan_schedule(node, self.emitter.tree, self.emitter.facts)
        if schedule is not None:
            return emit_pipeline(self, node, schedule)
        header = loop_header(self.emitter, node.stmt)
        if "#pragma" not in header:
            header = "#pragma unroll 1\n" + header
        return [LoopCode(header, self.block(node.body))]

    def _repeat(self, node: Repeat) -> list[Code]:
        reads, _ = self._condition_accesses(node.stmt.condition)
        condition = self.emitter.text(node.stmt.condition)
        body = self.block(node.body)
        before = [leaf_of([], reads)] if reads else []
        if reads:
            body.items.append(leaf_of([], reads))
        return [*before, LoopCode(f"while ({condition})", body)]

    def _branch(self, node: Branch) -> list[Code]:
        e = self.emitter
        reads, _ = self._condition_accesses(node.stmt.condition)
        condition = e.text(node.stmt.condition)
        divergent = any(isinstance(v, ir.Var) and v in e.divergent_vars for v in walk_expr(node.stmt.condition))
        outer = self.divergent
        self.divergent = outer or divergent
        then = self.block(node.then)
        otherwise = None if node.otherwise is None else self.block(node.otherwise)
        self.divergent = outer
        before = [leaf_of([], reads)] if reads else []
        return [*before, BranchCode(condition, then, otherwise, divergent)]

    def _condition_accesses(self, condition: Any) -> tuple[set[Any], set[Any]]:
        return self.emitter.accesses(ir.Evaluate(condition))

    def _scope(self, node: Scope) -> list[Code]:
        if node.threads is None:
            if self.hopper is not None and node.stmt.attr_key == "tl.single_thread":
                return self.hopper.single_thread(self, node)
            return self.block(node.body).items
        e = self.emitter
        outer, e.scope = e.scope, e.layouts.scopes[node]
        by_thread, self.by_thread = self.by_thread, self.by_thread or node.by_thread
        body = self.block(node.body)
        self.by_thread = by_thread
        scope, e.scope = e.scope, outer
        orders_itself = node.by_thread and not any(isinstance(inner, (Parallel, Operator)) for inner in walk(node))
        barrier = "" if orders_itself else self._barrier(scope)
        return [ScopeCode(_membership(scope, outer), body, scope.first, scope.count, barrier)]

    def _barrier(self, scope: Any) -> str:
        """A barrier of the threads of a scope: of the warp where one warp holds it, else one of the block's hardware barriers,
        with a number that the program does not use."""
        if scope.count <= 32:
            return f"__syncwarp(0x{(1 << scope.count) - 1 << scope.first % 32:x}u);"
        if not self.barriers:
            self.barriers = {None: 0, **{number: number for number in _own_barriers(self.emitter.tree.root)}}
        key = (scope.first, scope.count)
        if key not in self.barriers:
            free = set(range(HARDWARE_BARRIERS)).difference(self.barriers.values())
            if not free:
                raise CompileError(f"more than {HARDWARE_BARRIERS} groups of threads of this block have barriers of their own")
            self.barriers[key] = max(free)
        return f"tl::named_barrier_sync({self.barriers[key]}, {scope.count});"

    # Statements of a thread --------------------------------------------------------------------------------------------

    def _scalar(self, node: Scalar) -> list[Code]:
        e, stmt = self.emitter, node.stmt
        name = intrinsic_name(stmt.value) if isinstance(stmt, ir.Evaluate) else None
        if name == "sync_threads":
            if stmt.value.args:
                return [replace(leaf_of([named_barrier_text(stmt.value, e) + ";"]), hands_over=True)]
            return [Barrier()]
        if isinstance(stmt, (ir.Break, ir.Continue)):
            return [Jump("break" if isinstance(stmt, ir.Break) else "continue")]
        if name == "thread_return":
            return [leaf_of(["return;"])]
        if name in PRODUCT_WAITS and self.hopper is not None:
            return self.hopper.wait(self, constant_argument(stmt.value, 0))
        if name == "ptx_wait_group" and isinstance(as_int(stmt.value.args[0]), int):
            return [Wait(as_int(stmt.value.args[0]), users=True)]
        reads, writes = e.accesses(stmt)
        if self.divergent or self.by_thread or e.is_own(node):
            return [replace(leaf_of(statement(e, stmt), reads, writes), hands_over=name in _HANDING_OVER)]
        if isinstance(stmt, (ir.Bind, ir.Evaluate)) and is_atomic(stmt.value):
            return self._atomic(stmt, reads, writes)
        return [leaf_of(statement(e, stmt, f"{e.thread} == 0"), reads, writes)]

    def _atomic(self, stmt: Any, reads: set[Any], writes: set[Any]) -> list[Code]:
        """An atomic access that the block makes once: it releases what all threads wrote, and its result is for all of them."""
        e, first = self.emitter, f"{self.emitter.thread} == 0"
        before: list[Code] = [Barrier()] if str(stmt.value.attrs.get("memory_order", "relaxed")) in _RELEASING else []
        if isinstance(stmt, ir.Evaluate):
            return [*before, leaf_of(statement(e, stmt, first), reads, writes)]
        dtype = str(stmt.var.ty)
        shared = self.shared_scratch([1], dtype, f"{stmt.var.name}_shared")
        update = leaf_of([f"if ({first}) {e.name(shared)}[0] = {e.text(stmt.value)};"], reads, {*writes, shared})
        name = e.var_text[stmt.var] = e.names.take(stmt.var.name)
        return [*before, update, leaf_of([f"const {value_type(dtype)} {name} = {e.name(shared)}[0];"], {shared})]

    def _refuse_divergence(self) -> None:
        if self.divergent:
            raise CompileError(
                "a tile operator below a condition that only some threads meet",
                hint="let the condition depend on the thread's number alone, so that its threads can share the work",
            )

    # Nests -------------------------------------------------------------------------------------------------------------

    def _parallel(self, node: Parallel) -> list[Code]:
        e = self.emitter
        if _is_shared_out(node, e.layouts.loops[node]):
            self._refuse_divergence()
        special = self.hopper.copy(self, node) if self.hopper is not None else None
        if special is not None:
            return special
        if self.divergent and node in e.layouts.staged:
            raise e.layouts.staged[node]
        code = emit_nest(e, node, e.layouts.loops[node])
        if isinstance(node.op, Copy) and node.op.kind == "async":
            for leaf in code:
                leaf.lines.append("tl::cp_async_commit();")
                leaf.detached = True
        return code

    def exchange(self, node: Parallel) -> list[Code]:
        """A copy between fragments whose threads differ, through shared memory."""
        e, op = self.emitter, node.op
        shape = [as_int(extent) for extent in op.dst.extents]
        scratch = self.shared_scratch(shape, op.dst.dtype, f"{op.dst.buffer.name}_exchange")
        whole = Region.whole(scratch)
        code: list[Code] = []
        for source, target, fragment in ((op.src, whole, op.src), (whole, op.dst, op.dst)):
            copy = Copy(source, target)
            nest = nest_of(copy, node.span)
            part = Parallel(nest, copy)
            indices = [a for a in nest.accesses if a.buffer == fragment.buffer]
            loop = loop_from_fragment(nest, indices[0], e.layouts.fragments[fragment.buffer], e.scope.count)
            code += emit_nest(e, part, loop)
        return code

    def shared_scratch(self, shape: list[int], dtype: str, name: str) -> Any:
        """A shared buffer that the program does not know of."""
        e = self.emitter
        buffer = ir.decl_buffer(shape, dtype, name, scope="shared.dyn", layout=None)
        e.layouts.memory[buffer] = row_major(shape)
        e.buffer_text[buffer] = e.names.declare(name)
        e.shared_buffers.append(buffer)
        return buffer

    # Operators ---------------------------------------------------------------------------------------------------------

    def _operator(self, node: Operator) -> list[Code]:
        rule = rule_of(node.op)
        if rule.collective:
            self._refuse_divergence()
        return rule.lower(node, self)


def _is_shared_out(node: Parallel, loop: Any) -> bool:
    """Whether the threads of a scope share the iterations of a nest, or one of them stores for all."""
    split = any(mode.unit == THREAD for dim in loop.dims for mode in dim.modes)
    return split or any(a.kind != READ and not a.buffer.scope().startswith("local") for a in node.nest.accesses)


def _membership(scope: Any, outer: Any) -> str:
    """The C++ condition that a thread of ``outer`` is in ``scope``, by the largest unit that both are made of."""
    end, outer_end = scope.first + scope.count, outer.first + outer.count
    unit, rank = next((n, rank) for n, rank in _RANKS if scope.first % n == 0 and (end % n == 0 or end == outer_end))
    first, last = scope.first // unit, -(-end // unit)
    if last - first == 1 and end != outer_end:
        return f"{rank} == {first}"
    tests = [f"{rank} >= {first}"] if scope.first > outer.first else []
    tests += [f"{rank} < {last}"] if end < outer_end else []
    return " && ".join(tests) or "true"


_HANDING_OVER = frozenset(
    "barrier_arrive mbarrier_arrive mbarrier_arrive_expect_tx arrive_cluster_barrier"
    " cluster_arrive cluster_sync named_barrier_arrive sync_warp".split()
)
"""After these, threads that wait take it that plain copies are complete."""

_RELEASING = ("release", "acq_rel", "seq_cst")

HARDWARE_BARRIERS = 16

_RANKS = ((128, WARP_GROUP_NUMBER), (32, "tl::warp_rank()"), (1, "tid"))
"""Threads of a unit and the text of its number, largest first."""


def _own_barriers(root: Sequence) -> set[int]:
    """Numbers of the named barriers that the program uses itself."""
    found = set()
    for node in walk(root):
        call = node.stmt.value if isinstance(node, Scalar) and isinstance(node.stmt, ir.Evaluate) else None
        if intrinsic_name(call) in ("sync_threads", "named_barrier_arrive") and call.args:
            found.add(as_int(call.args[0]))
    return {number for number in found if isinstance(number, int)}


_RULES: Mapping[type, Callable[[Generator, Any], list[Code]]] = {
    Sequence: Generator._sequence,
    Loop: Generator._loop,
    Repeat: Generator._repeat,
    Branch: Generator._branch,
    Scope: Generator._scope,
    Scalar: Generator._scalar,
    Parallel: Generator._parallel,
    Operator: Generator._operator,
}
