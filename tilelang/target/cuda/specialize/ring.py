"""Which pipelined loops can be fed by the tensor memory accelerator, and with what.

A loop qualifies where some of its statements are copies from tensors that nothing in the kernel writes into shared tiles that
only this loop reads: a producer can then run ahead of the consumers by as many iterations as there are stages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.facts import Facts
from tilelang.ir.region import Region
from tilelang.ir.visit import any_statement, children, statement_exprs, walk, walk_expr
from tilelang.target.cuda.operators import rule_of
from tilelang.target.cuda.tile.hints import Hints, is_default_swizzle
from tilelang.target.cuda.tile.intrinsics import intrinsic
from tilelang.target.cuda.tile.tree import SHARED
from tilelang.tileop import decode, is_tile_op

_VARIABLE = "local.var"
_SLOT_ALIGNMENT = 128
"""Bytes; the accelerator writes to such addresses only, and the slots of a ring lie side by side."""


@dataclass(frozen=True, eq=False)
class Load:
    """A copy of a loop's body that a producer may make.

    Attributes:
        at: its position in the body.
        op: the operator.
        source, target: its regions.
    """

    at: int
    op: Any
    source: Region
    target: Region


@dataclass(frozen=True, eq=False)
class Feed:
    """Loads that arrive together: they are first used by the same statement of the loop's body, and last used by the same.

    Attributes:
        loads: in order.
        first_use, last_use: positions in the body.
    """

    loads: tuple[Load, ...]
    first_use: int
    last_use: int

    @property
    def bytes(self) -> int:
        """Bytes of one arrival."""
        return sum(_tile_bytes(load.target) for load in self.loads)


@dataclass(frozen=True, eq=False)
class Ring:
    """A loop that a producer feeds.

    Attributes:
        loop: the ``For`` statement.
        body: its statements, in order.
        stages: tiles in flight.
        feeds: what arrives in each iteration.
        nested: whether the loop may run more than once.
    """

    loop: Any
    body: tuple[Any, ...]
    stages: int
    feeds: tuple[Feed, ...]
    nested: bool

    @property
    def buffers(self) -> list[Any]:
        """The shared buffers that get one version a stage."""
        return [load.target.buffer for feed in self.feeds for load in feed.loads]


def find_rings(body: Any, facts: Facts, usage: Usage | None = None) -> list[Ring]:
    """The loops of a kernel that can be fed, in program order; none where the kernel synchronises by hand."""
    usage = usage or Usage(body)
    if usage.is_manual:
        return []
    found: list[Ring] = []
    _search(body, usage, facts, False, found)
    return found


def statements(stmt: Any) -> list[Any]:
    """The statements of a block, nested sequences flattened."""
    if isinstance(stmt, ir.SeqStmt):
        return [inner for child in stmt.seq for inner in statements(child)]
    return [stmt]


def buffers_of(stmt: Any) -> set[Any]:
    """Every buffer that ``stmt``, or a statement inside it, names."""
    found = set()
    for node in walk(stmt):
        for expr in statement_exprs(node):
            found.update(part for part in walk_expr(expr) if isinstance(part, ir.Var) and ir.is_buffer_var(part))
    return found


class Usage:
    """Facts about a whole kernel.

    Attributes:
        written: buffer -> how many statements write it.
        aliased: buffers that have another name.
        hints: what the program remarks.
        is_manual: whether the program orders shared memory, or splits the block, by itself.
        setup: the leading statements that only compute scalars, from what nothing in the kernel writes.
    """

    def __init__(self, body: Any):
        self.body = body
        self.written: dict[Any, int] = {}
        self.aliased: set[Any] = set()
        self.hints = Hints()
        self.is_manual = False
        for node in walk(body):
            self._read(node)
        self.setup = self._setup(statements(body))
        self.settled = self._settled()
        self.unknown: set[Any] = set()
        for node in walk(body):
            if isinstance(node, ir.Bind) and not self.is_uniform([node.value]):
                self.unknown.add(node.var)

    def _setup(self, top: Sequence[Any]) -> list[Any]:
        found: list[Any] = []
        for stmt in top:
            if isinstance(stmt, ir.AllocBuffer) or is_hint(stmt):
                continue
            if not self._is_scalar(stmt):
                break
            found.append(stmt)
        return found

    def _is_scalar(self, stmt: Any) -> bool:
        if isinstance(stmt, ir.BufferStore):
            inside = stmt.buffer.scope() == _VARIABLE
        else:
            inside = isinstance(stmt, (ir.Bind, ir.SeqStmt, ir.IfThenElse)) or (
                isinstance(stmt, ir.For) and stmt.kind == ir.ForKind.SERIAL
            )
        return inside and self._is_known(statement_exprs(stmt), _is_variable) and all(map(self._is_scalar, children(stmt)))

    def _settled(self) -> set[Any]:
        """Variables that keep the value which the setup gives them."""
        count: dict[Any, int] = {}
        for stmt in self.setup:
            for node in walk(stmt):
                if isinstance(node, ir.BufferStore):
                    count[node.buffer] = count.get(node.buffer, 0) + 1
        return {buffer for buffer, times in count.items() if self.written[buffer] == times}

    def is_uniform(self, exprs: Iterable[Any]) -> bool:
        """Whether a producer can compute expressions: nothing comes from shared memory, registers or written tensors."""
        exprs = [expr for expr in exprs if not isinstance(expr, int)]
        if any(part in self.unknown for expr in exprs for part in walk_expr(expr) if isinstance(part, ir.Var)):
            return False
        return self._is_known(exprs, self.settled.__contains__)

    def _is_known(self, exprs: Iterable[Any], allowed: Callable[[Any], bool]) -> bool:
        for expr in exprs:
            for part in walk_expr(expr):
                if isinstance(part, ir.TensorLoad) and not allowed(part.source):
                    if part.source.scope() not in ("", "global") or self.written.get(part.source):
                        return False
                if isinstance(part, ir.Call) and isinstance(part.op, ir.Op) and part.op.name.startswith("tl."):
                    return False
        return True

    def _read(self, node: Any) -> None:
        if isinstance(node, ir.BufferStore):
            self._write(node.buffer)
        elif isinstance(node, ir.DeclBuffer):
            self.aliased.update(part for part in walk_expr(node.data) if isinstance(part, ir.Var))
            self.aliased.add(node.buffer)
        elif isinstance(node, ir.AttrStmt) and node.attr_key == "tl.warp_group":
            self.is_manual = True
        elif isinstance(node, ir.AllocBuffer) and "barrier" in node.buffer.scope():
            self.is_manual = True
        for expr in statement_exprs(node):
            for part in walk_expr(expr):
                if isinstance(part, ir.Call):
                    self._call(part)

    def _call(self, call: Any) -> None:
        if is_tile_op(call):
            op = decode(call)
            for region, access in op.regions():
                if "w" in access:
                    self._write(region.buffer)
            rule_of(op).hint(op, None, self.hints)
            return
        name = call.op.name if isinstance(call.op, ir.Op) else ""
        if name.startswith("tl.atomic_") or name in _POINTER_CALLS or "extern" in name:
            for part in walk_expr(call):
                if isinstance(part, ir.Var) and ir.is_buffer_var(part):
                    self._write(part)
        known = intrinsic(call)
        if known is not None and known.manual:
            self.is_manual = True

    def _write(self, buffer: Any) -> None:
        self.written[buffer] = self.written.get(buffer, 0) + 1


_POINTER_CALLS = ("tirx.address_of", "tirx.tvm_access_ptr", "tirx.buffer_data")


def _search(stmt: Any, usage: Usage, facts: Facts, nested: bool, found: list[Ring]) -> None:
    if isinstance(stmt, ir.For) and "num_stages" in stmt.annotations:
        ring = _ring(stmt, usage, facts, nested)
        if ring is not None:
            found.append(ring)
            return
    repeats = isinstance(stmt, (ir.For, ir.While))
    for child in children(stmt):
        _search(child, usage, facts, nested or repeats, found)


def _ring(loop: Any, usage: Usage, facts: Facts, nested: bool) -> Ring | None:
    stages = int(as_int(loop.annotations["num_stages"]))
    explicit = any(key in loop.annotations for key in ("tl.pipeline_order", "tl.pipeline_stage", "tl.pipeline_group"))
    if stages < 2 or explicit or any_statement(loop.body, lambda node: isinstance(node, (ir.Break, ir.Continue))):
        return None
    body = tuple(statements(loop.body))
    uses = [buffers_of(stmt) for stmt in body]
    inside = any_statement(loop.body, lambda node: isinstance(node, ir.For) and "num_stages" in node.annotations)
    loads = [] if inside else [load for at, stmt in enumerate(body) if (load := _load(at, stmt, facts)) is not None]
    feeds = tuple(_grouped([load for load in loads if _can_feed(load, uses, loop, usage)], uses))
    return Ring(loop, body, stages, feeds, nested) if feeds else None


def operator_of(stmt: Any) -> Any:
    """The tile operator that a statement is; None where it is none."""
    return decode(stmt.value) if isinstance(stmt, ir.Evaluate) and is_tile_op(stmt.value) else None


def _load(at: int, stmt: Any, facts: Facts) -> Load | None:
    op = operator_of(stmt)
    if op is None or not rule_of(op).may_be_loaded(op, facts):
        return None
    return Load(at, op, *rule_of(op).copied(op))


def _can_feed(load: Load, uses: Sequence[set[Any]], loop: Any, usage: Usage) -> bool:
    at, source, target = load.at, load.source, load.target
    if target.scope not in SHARED or not target.is_whole:
        return False
    if _tile_bytes(target) % _SLOT_ALIGNMENT:
        return False
    if usage.written.get(source.buffer) or source.buffer in usage.aliased or source.buffer in usage.hints.safe_values:
        return False
    if usage.written.get(target.buffer) != 1 or target.buffer in usage.aliased:
        return False
    if any(target.buffer in used for used in uses[:at]) or not any(target.buffer in used for used in uses[at + 1 :]):
        return False
    if not usage.is_uniform(source.mins):
        return False
    outside = _count(usage.body, target.buffer) - _count(loop, target.buffer)
    return outside == 0


def _count(stmt: Any, buffer: Any) -> int:
    return sum(
        part is buffer or (isinstance(part, ir.Var) and part.same_as(buffer))
        for node in walk(stmt)
        if not isinstance(node, ir.AllocBuffer) and not _asks_for_a_swizzle(node)
        for expr in statement_exprs(node)
        for part in walk_expr(expr)
    )


def _asks_for_a_swizzle(stmt: Any) -> bool:
    """Whether a statement is the hint that a tile be swizzled, in whichever way."""
    op, hints = operator_of(stmt), Hints()
    if op is not None:
        rule_of(op).hint(op, None, hints)
    return any(is_default_swizzle(buffer, layout) for buffer, layout, _ in hints.layouts)


def is_hint(stmt: Any) -> bool:
    """Whether a statement is a hint to the compiler."""
    op = operator_of(stmt)
    return op is not None and rule_of(op).hint(op, None, Hints())


def _is_variable(buffer: Any) -> bool:
    return buffer.scope() == _VARIABLE


def _grouped(loads: Sequence[Load], uses: Sequence[set[Any]]) -> list[Feed]:
    groups: dict[tuple[int, int], list[Load]] = {}
    for load in loads:
        places = [place for place in range(load.at + 1, len(uses)) if load.target.buffer in uses[place]]
        groups.setdefault((places[0], places[-1]), []).append(load)
    return [Feed(tuple(group), first, last) for (first, last), group in groups.items()]


def _tile_bytes(region: Any) -> int:
    return canonical(region.dtype).bytes * math.prod(map(int, region.extents))
