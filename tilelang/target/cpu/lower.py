"""Step ``lower_tiles``: kernels become loops over blocks, tile operators become loops over elements.

Before: tile IR without thread constructs. After: serial loops, one ``PARALLEL`` loop over the flattened grid of each kernel,
element accesses (guarded where they may leave a global buffer), scalar intrinsics; no tile operator is left. Element types
and storage scopes are still the user's.

A rule for an operator is a function ``(record, scope) -> statement`` in the file of its family, registered with :func:`rule`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from tilelang.errors import TileLangError, UnsupportedError, UnsupportedOnCpuError
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.ir.facts import Facts
from tilelang.ir.region import Region
from tilelang.ir.span import location_of
from tilelang.ir.visit import mentions, reads_memory
from tilelang.target.cpu.emit import seq
from tilelang.target.cpu.guards import Guards
from tilelang.target.cpu.rewriter import StmtRewriter
from tilelang.tileop import decode, is_tile_op
from tilelang.tileop.thread import intrinsic_name
from tilelang.transform.in_place import are_distinct

Rule = Callable[[Any, "Scope"], Any]
Lowering = TypeVar("Lowering", bound=Rule)
STATEMENTS: dict[str, Callable[[Any], Any]] = {}
"""Intrinsic whose call is a statement -> the statements that perform it."""

RULES: dict[type, Rule] = {}
"""Tile operator -> how the CPU performs it."""

BLOCK_LOOP = "tl.blocks"
"""Annotation of the loop over a kernel's blocks; its value is the number of grid axes."""

INDEPENDENT = "tl.independent"
"""Annotation of an innermost loop whose iterations may run in any order, and together."""

PARALLEL_WORK = 65536
"""Stored elements or registers below which a kernel runs on the calling thread: 5 us of additions, 20 us of an error function."""


_BLOCKS = 2**31
"""Blocks of a grid that are too many: an int32 numbers them."""


def rule(operator: type) -> Callable[[Lowering], Lowering]:
    """Decorator: registers the lowering of ``operator``."""

    def register(function: Lowering) -> Lowering:
        if operator in RULES:
            raise ValueError(f"{operator.__name__} is lowered in {RULES[operator].__module__} and in {function.__module__}")
        RULES[operator] = function
        return function

    return register


class Scope:
    """The context of a statement for the rule that lowers it.

    Attributes:
        context: the facts of the compilation.
        facts: the ranges of the loop and block variables in scope, and the conditions around the statement.
        safe_values: what an out-of-bounds read of a buffer gives, where not zero, in this kernel.
        kept: the panels that blocks leave for the next ones; None outside of kernels.
        results: where the accumulators (by hash) of the kernel's products are copied to.
        stored: those that a product has stored there already, and under which condition.
    """

    def __init__(self, context: Any):
        self.context = context
        self.facts = Facts()
        self.safe_values: dict[Any, Any] = {}
        self.kept: Any = None
        self.results: dict[int, Any] = {}
        self.stored: dict[int, Any] = {}
        self.failures: list[str] = []
        self.status: Any = None
        self.span: Any = None

    def declare_parameters(self, params: Any) -> None:
        """Sizes of tensors are not negative; a tensor without elements has no memory, not even for element 0."""
        for param in params:
            if ir.is_buffer_var(param):
                for size in param.shape:
                    if isinstance(size, ir.Var):
                        self.facts.bind_range(size, 2**31 - 1)

    def bind_ranges(self, variables: Sequence[Any], extents: Sequence[Any]) -> None:
        """Says the ranges of loops' variables; what is no variable is left out."""
        for var, extent in zip(variables, extents):
            if isinstance(var, ir.Var):
                self.facts.bind_range(var, extent)

    def safe_value(self, buffer: Any) -> Any:
        """What an out-of-bounds read of ``buffer`` gives."""
        value = self.safe_values.get(buffer, 0)
        dtype = str(buffer.dtype)
        if isinstance(value, (int, float)):
            is_float = dtype.startswith(("float", "bfloat"))
            return ir.FloatImm(dtype, float(value)) if is_float else ir.IntImm(dtype, int(value))
        return ir.Cast(dtype, value) if str(value.ty) != dtype else value


def lower_tiles(func: Any, context: Any) -> Any:
    """The program as loops; the module's docstring has the postcondition."""
    scope = Scope(context)
    scope.declare_parameters(func.params)
    lowering = TileLowering(scope, func)
    body = lowering.stmt(func.body)
    return func.with_body(lowering.with_status(body))


class TileLowering(StmtRewriter):
    """The walk over a program.

    Attributes:
        own: see :func:`~tilelang.target.cpu.forward_copies.own_buffers`.
        parameters: the function's, by hash.
        parallel: how many loops of the ``T.Parallel`` around a statement are still to come.
    """

    def __init__(self, scope: Scope, func: Any):
        from tilelang.target.cpu.forward_copies import own_buffers
        from tilelang.target.cpu.stream import Streams

        self.scope = scope
        self.own = own_buffers(func.body)
        self.parameters = frozenset(map(hash, func.params))
        self.streams = Streams(func, scope.context)
        self.guards = Guards(scope) if scope.context.guards_accesses else None
        self.distinct = are_distinct(func)
        self.in_kernel = False
        self.parallel = 0

    def with_status(self, body: Any) -> Any:
        """``body`` with the failures of its device assertions reported once all blocks have stopped."""
        from tilelang.target.cpu.debug import report_failures

        return report_failures(self.scope, body)

    # Statements

    def stmt(self, node: Any) -> Any:
        if node.span is not None:
            self.scope.span = node.span
        return super().stmt(node)

    def visit_SeqStmt(self, node: Any) -> Any:
        from tilelang.target.cpu.fuse import groups

        return seq([self.stmt(part) if loops is None else self._group(part, loops) for part, loops in groups(node.seq, self)])

    def _group(self, reduction: Any, loops: Any) -> Any:
        """A reduction, with the loops that make its operand."""
        from tilelang.target.cpu.reduce import lower_reduce

        self.scope.span = reduction.span or self.scope.span

        def piece(outer: Sequence[Any], first: Any, count: int) -> Any:
            fetches = self.streams.fetches(loops, first, count)
            return seq(fetches, [self.stmt(made.piece(outer, first, count)) for made in loops])

        record: Any = decode(reduction.value)
        return lower_reduce(record, self.scope, piece)

    def visit_AttrStmt(self, node: Any) -> Any:
        if node.attr_key == "thread_extent":
            return self._kernel(node)
        return self.stmt(node.body) if node.attr_key.startswith("tl.") else super().visit_AttrStmt(node)

    def visit_For(self, node: Any) -> Any:
        from tilelang.target.cpu.strips import in_strips

        special = self._special(node) if "tl.parallel" in node.annotations else in_strips(node, self)
        if special is not None:
            return special
        low, extent = self.expr(node.min), self.expr(node.extent)
        step = None if node.step is None else self.expr(node.step)
        if step is None:
            self.scope.facts.bind_range(node.loop_var, extent, low)
        # TVM copies the body of an unrolled loop itself, and can do so only if the length is known.
        unrolled = node.kind == ir.ForKind.UNROLLED and isinstance(extent, ir.IntImm)
        kind = ir.ForKind.UNROLLED if unrolled else ir.ForKind.SERIAL
        self.parallel = as_int(node.annotations.get("tl.parallel", self.parallel))
        # Of a nest, the innermost loop alone is marked: it is the one that is vectorised.
        independent = INDEPENDENT in node.annotations or self.parallel == 1
        self.parallel = max(0, self.parallel - 1)
        notes = {INDEPENDENT: constant(1)} if independent else {}
        shorter = self._clipped(node, extent) if independent and self.guards is not None else None
        if shorter is not None:
            end, condition = shorter
            with self.scope.facts.assuming(condition):
                body = self.stmt(node.body)
            return ir.For(node.loop_var, low, end, kind, body, annotations=notes, span=node.span)
        with self._around(node.loop_var, low if step is None else None, extent):
            body = self.stmt(node.body)
        return ir.For(node.loop_var, low, extent, kind, body, annotations=notes, step=step, span=node.span)

    def _around(self, variable: Any, low: Any, extent: Any) -> AbstractContextManager[None]:
        """Around the body of a loop; ``low`` is None where it has steps."""
        kept = self.scope.kept
        return nullcontext() if kept is None else kept.around(variable, None if low is None else as_int(low), as_int(extent))

    def _sometimes(self, condition: Any = None, holds: bool = True) -> AbstractContextManager[None]:
        """Around statements that not every block runs, but where a condition holds, or does not."""
        return nullcontext() if self.scope.kept is None else self.scope.kept.sometimes(condition, holds)

    def visit_While(self, node: Any) -> Any:
        with self._sometimes():
            return super().visit_While(node)

    def _clipped(self, node: Any, extent: Any) -> tuple[Any, Any] | None:
        """The length that an innermost parallel loop needs, and the condition that holds in it; None where that is not all.

        The loop ends where its only store would leave the tensor, in place of asking for each element.
        """
        store, variable = node.body, node.loop_var
        if self.guards is None or not isinstance(store, ir.BufferStore) or node.step is not None or as_int(node.min) != 0:
            return None
        condition = self.guards.condition(store.buffer, store.indices)
        if not isinstance(condition, ir.LT) or self.scope.facts.holds(condition):
            return None
        first = self.scope.facts.simplify(condition.a - variable)
        plain = not mentions(first, {variable}) and not reads_memory(first) and variable.ty == condition.a.ty
        if not plain:
            return None
        return ir.Min(extent, condition.b - first), condition

    def _special(self, node: Any) -> Any | None:
        """A ``T.Parallel`` that is streamed, or whose values are looked up; None for any other."""
        from tilelang.target.cpu.lookup import looked_up

        streamed = self.streams.lowered(node, self) if self.streams.tensors else None
        return looked_up(node, self) if streamed is None else streamed

    def visit_IfThenElse(self, node: Any) -> Any:
        condition = self.expr(node.condition)
        # Below `if i < n` an access at i needs no guard.
        with self._sometimes(node.condition), self.scope.facts.assuming(node.condition):
            then = self.stmt(node.then_case)
        otherwise = None
        if node.else_case is not None:
            with self._sometimes(node.condition, False), self.scope.facts.assuming(node.condition, holds=False):
                otherwise = self.stmt(node.else_case)
        return ir.IfThenElse(condition, then, otherwise, node.span)

    def visit_Evaluate(self, node: Any) -> Any:
        if is_tile_op(node.value):
            streamed = self.streams.lowered(node, self) if self.streams.tensors else None
            return self._tile_operator(node) if streamed is None else streamed
        name = intrinsic_name(node.value)
        if name is not None and f"tl.{name}" in STATEMENTS:
            return self.stmt(STATEMENTS[f"tl.{name}"](node.value))
        return super().visit_Evaluate(node)

    def visit_BufferStore(self, node: Any) -> Any:
        stored = super().visit_BufferStore(node)
        if self.guards is None or not self.in_kernel:
            return stored
        return self.guards.store(stored)

    def expr(self, node: Any) -> Any:
        if self.guards is None or not self.in_kernel:
            return node
        return self.guards.loads(node)

    # Kernels and operators

    def _tile_operator(self, node: Any) -> Any:
        record = self._guarded(decode(node.value))
        found = RULES.get(type(record))
        location = location_of(node.span)
        if found is None:
            raise UnsupportedError(f"{record.called} has no meaning on the CPU target").at(location)
        try:
            return found(record, self.scope)
        except TileLangError as error:
            raise error.at(location) from None

    def _guarded(self, record: Any) -> Any:
        """The operator with what its operands load, as values or where a region begins, guarded; rules guard the regions."""

        def operand(value: Any) -> Any:
            if isinstance(value, Region):
                return Region(value.buffer, tuple(map(operand, value.mins)), tuple(map(operand, value.extents)))
            if isinstance(value, tuple):
                return tuple(map(operand, value))
            return self.expr(value) if isinstance(value, ir.PrimExpr) else value

        fields = type(record).operand_fields()
        return dataclasses.replace(record, **{field.name: operand(getattr(record, field.name)) for field in fields})

    def _kernel(self, node: Any) -> Any:
        from tilelang.target.cpu.kept import Kept
        from tilelang.target.cpu.results import results_of

        axes: list[tuple[Any, Any]] = []
        span = node.span
        while isinstance(node, ir.AttrStmt) and node.attr_key == "thread_extent":
            if node.node.thread_tag.startswith("blockIdx"):
                axes.append((node.node.var, node.value))
            node = node.body
        for var, extent in axes:
            self.scope.facts.bind_range(var, extent)
        self.in_kernel = True
        self.scope.safe_values = {}
        blocks = [var for var, _ in axes]
        self.streams.begin(blocks, node)
        self.scope.results = results_of(node, blocks, self.streams.tensors, self.scope)
        self.scope.kept = Kept(axes, node, self.distinct)
        body = self.stmt(node)
        loop = grid_loop(self.scope.kept, body, span)
        self.in_kernel, self.scope.kept = False, None
        return seq(loop, self.streams.fence())


def grid_loop(kept: Any, body: Any, span: Any) -> Any:
    """The loop over all blocks, x fastest, or in groups that share panels; axes of extent 1 take no arithmetic.

    Args:
        kept: the panels that blocks leave for the next ones, with the axes of the grid.
        body: the statement of one block.
        span: the source location of ``T.Kernel``.
    """
    total: Any = 1
    binds = []
    block = ir.Var("block", "int32")
    axes, places = kept.numbered(block)
    for var, extent in axes:
        extent = as_int(extent)
        index = block if isinstance(total, int) and total == 1 else ir.FloorDiv(block, constant(total))
        last = var is axes[-1][0]
        # The last axis needs no remainder, as the number of blocks is the product of the extents.
        value = index if last else ir.FloorMod(index, constant(extent))
        value = ir.IntImm("int32", 0) if extent == 1 else value
        binds.append(ir.Bind(var, value if var.ty == block.ty else ir.Cast(var.ty, value)))
        total = total * extent if isinstance(total, int) and isinstance(extent, int) else constant(total) * constant(extent)
    annotations = {BLOCK_LOOP: ir.IntImm("int32", len(kept.axes))}
    check = _check_of_number(total, [extent for _, extent in axes], span)
    blocks = total if isinstance(total, int) else math.inf
    parallel = blocks > 1 and blocks * work(body) >= PARALLEL_WORK
    return seq(check, kept.loops_over(total, block, seq(binds, places, body), parallel, annotations, span))


def _check_of_number(total: Any, extents: Sequence[Any], span: Any) -> Any | None:
    """The assertion that an int32 holds the number of blocks; None where that is certain.

    Args:
        total: the number as int32.
        extents: of the axes.
        span: the source location of ``T.Kernel``.
    """
    if isinstance(total, int):
        if total >= _BLOCKS:
            raise UnsupportedOnCpuError(f"a grid of {total} blocks", "let each block do more").at(location_of(span))
        return None
    if len(extents) == 1:
        return None
    most = ir.IntImm("int64", _BLOCKS)
    # As soon as a product is too large it does not grow, so that it stays within 64 bits.
    wide = functools.reduce(lambda number, extent: ir.Min(number, most) * extent, map(_in_64_bits, extents))
    message = ir.StringImm(f"the grid has {_BLOCKS} blocks or more")
    return ir.AssertStmt(wide < most, ir.StringImm("RuntimeError"), [message], span)


def _in_64_bits(extent: Any) -> Any:
    return ir.Cast("int64", constant(extent))


def work(stmt: Any) -> float:
    """About how many elements ``stmt`` stores; infinite where that depends on the call."""
    if isinstance(stmt, (ir.BufferStore, ir.Evaluate)):
        return 1.0
    if isinstance(stmt, ir.SeqStmt):
        return sum(map(work, stmt.seq))
    if isinstance(stmt, ir.For):
        # A loop that ends with the tensor is as long as its tile.
        extent = as_int(stmt.extent.a if isinstance(stmt.extent, ir.Min) else stmt.extent)
        inside = work(stmt.body)
        return (extent if isinstance(extent, int) else math.inf) * inside if inside else 0.0
    if isinstance(stmt, ir.IfThenElse):
        return max(work(stmt.then_case), work(stmt.else_case) if stmt.else_case is not None else 0.0)
    if isinstance(stmt, ir.AttrStmt):
        return work(stmt.body)
    return math.inf if isinstance(stmt, ir.While) else 0.0
