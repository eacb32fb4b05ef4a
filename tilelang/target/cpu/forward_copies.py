"""Step ``forward_copies``: products read a tensor, or another tile, directly where its copy is used by nothing else.

Before: tile IR. After: the same, in which an operand of ``T.gemm`` is the region of the global tensor that a copy would have put
into its shared tile or fragment, or the tile that a copy would have put into another; the copy and the buffer are removed. On a
CPU a product packs its operands itself, or reads them in place, so the copy would only be one more pass over memory.

The product sees the same elements, because

- the copy fills the whole buffer, from inside the tensor for every block, without converting anything;
- nothing but products that follow in the same sequence reads the buffer, and nothing else writes it;
- no statement from the copy to the last of them writes to global memory, be it to a tensor that overlaps this one, and the
  copy's indices are computed from nothing that changes; or, of a tile, none of them names it, and it has no other name.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.expr import is_pure
from tilelang.ir.memory import is_global
from tilelang.ir.region import Region
from tilelang.ir.visit import own_expressions, walk, walk_expr
from tilelang.target.cpu.copy import box_condition
from tilelang.target.cpu.emit import no_op, seq
from tilelang.target.cpu.lower import Scope
from tilelang.target.cpu.rewriter import StmtRewriter
from tilelang.tileop import is_tile_op, record_of
from tilelang.tileop.base import TileOp
from tilelang.tileop.copy import Copy
from tilelang.tileop.gemm import Gemm
from tilelang.tileop.hint import AnnotateLayout


def forward_copies(func: Any, context: Any) -> Any:
    """The program without the copies that products do not need."""
    if not any(isinstance(record_of(stmt), Gemm) for stmt in walk(func.body)):
        return func
    scope = Scope(context)
    scope.declare_parameters(func.params)
    forwarding = _Forwarding(scope, func.body)
    body = forwarding.stmt(func.body)
    return func.with_body(Removal(forwarding.gone).stmt(body)) if forwarding.gone else func


class _Forwarding(StmtRewriter):
    """Redirects products, sequence by sequence.

    Attributes:
        gone: the buffers that nothing reads any more, by hash.
    """

    def __init__(self, scope: Scope, body: Any):
        self.scope = scope
        self.gone: set[int] = set()
        self.own = own_buffers(body)
        self.uses = uses_of(body)
        # Allocations and hints about layouts name a buffer, and do not use what is in it.
        for stmt in walk(body):
            if isinstance(stmt, ir.AllocBuffer) or isinstance(record_of(stmt), AnnotateLayout):
                self.uses -= uses_of(stmt)

    def visit_AttrStmt(self, node: Any) -> Any:
        if node.attr_key == "thread_extent":
            self.scope.facts.bind_range(node.node.var, node.value)
        return super().visit_AttrStmt(node)

    def visit_For(self, node: Any) -> Any:
        if node.step is None:
            self.scope.facts.bind_range(node.loop_var, node.extent, node.min)
        return super().visit_For(node)

    def visit_IfThenElse(self, node: Any) -> Any:
        with self.scope.facts.assuming(node.condition):
            then_case = self.stmt(node.then_case)
        if node.else_case is None:
            return ir.IfThenElse(node.condition, then_case, None, node.span)
        with self.scope.facts.assuming(node.condition, holds=False):
            return ir.IfThenElse(node.condition, then_case, self.stmt(node.else_case), node.span)

    def visit_SeqStmt(self, node: Any) -> Any:
        statements = [self.stmt(child) for child in node.seq]
        records = list(map(record_of, statements))
        copies = [position for position, record in enumerate(records) if isinstance(record, Copy) and self._fills(record)]
        if copies and any(isinstance(record, Gemm) for record in records):
            sequence = _Sequence(statements)
            for position in copies:
                self._redirect(sequence, position, records[position])
        return seq(statements)

    def _fills(self, copy: Copy) -> bool:
        """Whether a copy makes a tile on the chip equal to a matrix inside a global tensor, or to another tile."""
        src, dst = copy.src, copy.dst
        if not all(isinstance(extent, int) for extent in (*src.extents, *dst.extents)):
            return False
        matrix = len(src.shape) == len(dst.shape) == 2 and src.shape == src.extents[-2:]
        moved = matrix and dst.is_whole and src.dtype == dst.dtype and not is_global(dst)
        if not moved or not is_global(src):
            return moved and src.is_whole and hash(src.buffer) in self.own
        return not len(src.buffer.strides) and not any(map(_reads, src.mins)) and box_condition(src, self.scope) is None

    def _redirect(self, sequence: _Sequence, position: int, copy: Copy) -> None:
        """Lets the products after ``position`` read the source of ``copy``, if nothing else uses its tile."""
        key, statements = hash(copy.dst.buffer), sequence.statements
        first, *readers = sequence.users[key]
        # All of the tile's uses in the program are in this sequence, the copy is the first of them, and the others are products.
        here = sum(sequence.uses[user][key] for user in sequence.users[key])
        if first != position or not readers or here != self.uses[key]:
            return
        products = {reader: record_of(statements[reader]) for reader in readers}
        if not all(_may_read_globally(product, key) for product in products.values()):
            return
        # What the copy would have kept may otherwise have changed when a product reads it.
        if is_global(copy.src):
            changes = sequence.writes(position, readers[-1])
        else:
            changes = any(hash(copy.src.buffer) in uses for uses in sequence.uses[position + 1 : readers[-1] + 1])
        if changes:
            return
        moved = {
            reader: replace(product, a=_moved(product.a, copy), b=_moved(product.b, copy)).to_stmt(statements[reader].span)
            for reader, product in products.items()
        }
        # A product may use the tile in another place than as A or B, in an index for instance.
        if any(key in uses_of(stmt) for stmt in moved.values()):
            return
        for reader, stmt in moved.items():
            statements[reader] = stmt
        statements[position] = no_op()
        self.gone.add(key)


class _Sequence:
    """A sequence of statements.

    Attributes:
        uses: how often each statement names each variable.
        users: the positions of the statements that name a variable, in order.
    """

    def __init__(self, statements: list[Any]):
        self.statements = statements
        self.uses = [Counter() if isinstance(stmt, ir.AllocBuffer) else uses_of(stmt) for stmt in statements]
        self.users: dict[int, list[int]] = defaultdict(list)
        for position, (stmt, uses) in enumerate(zip(statements, self.uses)):
            if not isinstance(record_of(stmt), AnnotateLayout):
                for key in uses:
                    self.users[key].append(position)
        self.writers = [position for position, stmt in enumerate(statements) if writes_globally(stmt)]

    def writes(self, first: int, last: int) -> bool:
        """Whether one of the statements from ``first`` to ``last`` may write to global memory."""
        return bisect_left(self.writers, first) != bisect_right(self.writers, last)


class Removal(StmtRewriter):
    """Removes the allocations of buffers, and what hints say of them."""

    def __init__(self, gone: set[int]):
        self.gone = gone

    def visit_AllocBuffer(self, node: Any) -> Any:
        return no_op() if hash(node.buffer) in self.gone else node

    def visit_Evaluate(self, node: Any) -> Any:
        record = record_of(node)
        return no_op() if isinstance(record, AnnotateLayout) and hash(record.buffer.buffer) in self.gone else node


def own_buffers(body: Any) -> frozenset[int]:
    """The buffers (by hash) that a program allocates and never views under another name."""
    named = {hash(node) for stmt in walk(body) if isinstance(stmt, ir.DeclBuffer) for node in walk_expr(stmt.data)}
    return frozenset(hash(stmt.buffer) for stmt in walk(body) if isinstance(stmt, ir.AllocBuffer)) - named


def is_call(stmt: Any, operator: type[TileOp]) -> bool:
    """Whether a statement is a tile operator of one kind, without decoding it."""
    return isinstance(stmt, ir.Evaluate) and is_tile_op(stmt.value) and stmt.value.op.name == operator.op_name


def uses_of(node: Any) -> Counter[int]:
    """How often each variable is named."""
    found: Counter[int] = Counter()

    def add(var: Any) -> None:
        found[hash(var)] += 1

    tvm_ffi.structural_walk(node, [(ir.Var, add)])
    return found


def _moved(operand: Region, copy: Copy) -> Region:
    """An operand that is part of the tile, as part of the tensor."""
    if hash(operand.buffer) != hash(copy.dst.buffer):
        return operand
    src = copy.src
    mins = [low + offset for low, offset in zip(src.mins[-2:], _matrix_axes(operand.mins, copy))]
    extents = _matrix_axes(operand.extents, copy)
    return Region(src.buffer, (*src.mins[:-2], *mins), (*src.extents[:-2], *extents))


def _matrix_axes(values: tuple[Any, ...], copy: Copy) -> list[Any]:
    """Of one value an axis of the tile, those of its axes that are not of length one."""
    return [value for value, extent in zip(values, copy.dst.extents) if extent != 1]


def _reads(index: Any) -> bool:
    """Whether an index is computed from memory, or by a call."""
    return not isinstance(index, int) and any(isinstance(node, (ir.TensorLoad, ir.Call)) for node in walk_expr(index))


def _may_read_globally(product: Any, key: int) -> bool:
    """Whether it is a product that may read its operand from where the tile was copied from.

    Columns of A are still copied: read in place, their elements lie far apart and would evict each other from the caches.
    """
    if not isinstance(product, Gemm) or hash(product.c.buffer) == key:
        return False
    return not (product.transpose_a and hash(product.a.buffer) == key)


def writes_globally(stmt: Any) -> bool:
    """Whether a statement may write to global memory, or do anything that is not known."""
    return any(map(_may_write, walk(stmt)))


def _may_write(stmt: Any) -> bool:
    record = record_of(stmt)
    if record is not None:
        return any("w" in access and is_global(region) for region, access in record.regions())
    if isinstance(stmt, ir.BufferStore) and is_global(stmt.buffer):
        return True
    if isinstance(stmt, (ir.DeclBuffer, ir.AssertStmt, ir.tirx.Return, ir.Break, ir.Continue)):
        return True
    return any(isinstance(part, ir.Call) and not is_pure(part) for part in own_expressions(stmt))
