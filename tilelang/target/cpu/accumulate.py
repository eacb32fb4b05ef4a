"""Step ``accumulate``: products start from zeros by themselves, and integer products are summed where their result goes.

Before: tile IR. After: the same, in which

- the fill of an accumulator with zeros is removed if its next use is a product of all of it: that product, or its first iteration
  in a loop, then ignores the old content. This saves two passes over memory, to write the zeros and to read them;
- an accumulator is removed if it is only summed and then copied to a tensor without conversion: the tensor itself is the
  accumulator. Since no other tensor may be the same memory then, this is done only for a tensor whose type no other one has. And
  each block must have a place of its own: several may store the same sums to one, but not add them up there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_global
from tilelang.ir.region import Region
from tilelang.ir.visit import any_statement, flattened, variables, walk
from tilelang.target.cpu.copy import box_condition
from tilelang.target.cpu.elementwise import change
from tilelang.target.cpu.emit import no_op, seq
from tilelang.target.cpu.forward_copies import Removal, uses_of
from tilelang.target.cpu.lower import Scope
from tilelang.target.cpu.rewriter import StmtRewriter
from tilelang.tileop import record_of
from tilelang.tileop.copy import Copy, Fill
from tilelang.tileop.gemm import Gemm
from tilelang.tileop.thread import intrinsic_name


def accumulate(func: Any, context: Any) -> Any:
    """The program with products that clear, and sum, for themselves."""
    if not any(isinstance(record_of(stmt), Gemm) for stmt in walk(func.body)) or any_statement(func.body, leaves):
        return func
    scope = Scope(context)
    scope.declare_parameters(func.params)
    rewriter = _Accumulation(scope, func)
    body = rewriter.stmt(func.body)
    return func.with_body(Removal(rewriter.gone).stmt(body) if rewriter.gone else body)


class _Accumulation(StmtRewriter):
    """Rewrites sequences.

    Attributes:
        own: the buffers (by hash) that the program allocates and never views under another name.
        uses: how often the program names each variable.
        blocks: the variables that number blocks, and how many there are.
        gone: the accumulators that nothing uses any more.
    """

    def __init__(self, scope: Scope, func: Any):
        self.scope = scope
        viewed = sum((uses_of(stmt) for stmt in walk(func.body) if isinstance(stmt, ir.DeclBuffer)), Counter())
        allocated = {hash(stmt.buffer) for stmt in walk(func.body) if isinstance(stmt, ir.AllocBuffer)}
        self.own = {key for key in allocated if key not in viewed}
        self.viewed = viewed
        self.uses = uses_of(func.body)
        self.types = Counter(str(param.dtype) for param in func.params if ir.is_buffer_var(param))
        self.blocks: dict[Any, Any] = {}
        self.gone: set[int] = set()

    def visit_AttrStmt(self, node: Any) -> Any:
        if node.attr_key != "thread_extent":
            return super().visit_AttrStmt(node)
        self.scope.facts.bind_range(node.node.var, node.value)
        outer = self.blocks
        if node.node.thread_tag.startswith("blockIdx"):
            self.blocks = {**outer, node.node.var: as_int(node.value)}
        kernel = super().visit_AttrStmt(node)
        self.blocks = outer
        return kernel

    def visit_For(self, node: Any) -> Any:
        if node.step is None:
            self.scope.facts.bind_range(node.loop_var, node.extent, node.min)
        return super().visit_For(node)

    def visit_SeqStmt(self, node: Any) -> Any:
        statements = [self.stmt(child) for child in node.seq]
        for position, stmt in enumerate(statements):
            record = record_of(stmt)
            if isinstance(record, Fill) and self._clears(record):
                self._begin(statements, position, record.dst)
        return seq(statements)

    def _clears(self, fill: Fill) -> bool:
        """Whether all of a buffer of the block becomes zero."""
        return _is_zero(fill.value) and fill.dst.is_whole and hash(fill.dst.buffer) in self.own

    def _begin(self, statements: list[Any], position: int, accumulator: Region) -> None:
        """Lets the first product after a fill begin from zeros, and sums in the result's place."""
        key = hash(accumulator.buffer)
        user = next((at for at in range(position + 1, len(statements)) if key in uses_of(statements[at])), None)
        if user is None:
            return
        begun = _beginning(statements[user], accumulator)
        if begun is None:
            return
        statements[position], statements[user] = no_op(), begun
        target = self._target(statements, user, accumulator)
        if target is not None:
            last, region = target
            statements[last] = no_op()
            statements[user] = _Redirected(key, region).stmt(statements[user])
            self.gone.add(key)

    def _target(self, statements: list[Any], user: int, accumulator: Region) -> tuple[int, Region] | None:
        """The copy of an accumulator to a tensor, and where it goes, if nothing else happens to either."""
        key = hash(accumulator.buffer)
        last = next((at for at in range(user + 1, len(statements)) if key in uses_of(statements[at])), None)
        if last is None:
            return None
        copy = record_of(statements[last])
        if not isinstance(copy, Copy) or not copy.src.is_whole or hash(copy.src.buffer) != key:
            return None
        dst, products = copy.dst, _products(statements[user], key)
        # As often as the whole program names it: then no other statement reads or writes the accumulator.
        used = uses_of(statements[user])[key] + uses_of(statements[last])[key] + 2  # its allocation, and the fill
        alone = products == uses_of(statements[user])[key] and self.uses[key] == used
        return (last, dst) if alone and self._is_exclusive(dst, accumulator) else None

    def _is_exclusive(self, dst: Region, accumulator: Region) -> bool:
        """Whether a region is a matrix of the same type, inside of a tensor that nothing else of the program can touch."""
        tensor = hash(dst.buffer)
        matrix = dst.shape == accumulator.shape == dst.extents[-2:] and dst.dtype == accumulator.dtype
        # A caller may pass one tensor for several parameters, though only for those of one type.
        distinct = self.types[dst.dtype] == 1 and self.uses[tensor] == 1 and tensor not in self.viewed
        # The sums go to the tensor in every iteration, so its place must not depend on a variable of a loop around or inside.
        known = all(var in self.blocks for low in dst.mins if not isinstance(low, int) for var in variables(low))
        plain = is_global(dst) and not len(dst.buffer.strides)
        inside = plain and box_condition(dst, self.scope) is None
        return matrix and distinct and known and inside and all(self._moves(dst, block) for block in self.blocks)

    def _moves(self, dst: Region, block: Any) -> bool:
        """Whether blocks that differ in a variable access disjoint parts of a tensor: it alone moves them along an axis."""
        lows = [(low, extent) for low, extent in zip(dst.mins, dst.extents) if not isinstance(low, int)]
        steps = [(change(low, block, self.scope), extent) for low, extent in lows if set(variables(low)) == {block}]
        far = (isinstance(step, int) and isinstance(extent, int) and step >= extent for step, extent in steps)
        return self.blocks[block] == 1 or any(far)


class _Redirected(StmtRewriter):
    """Sums products elsewhere."""

    def __init__(self, key: int, region: Region):
        self.key, self.region = key, region

    def visit_Evaluate(self, node: Any) -> Any:
        record = record_of(node)
        if isinstance(record, Gemm) and hash(record.c.buffer) == self.key:
            return replace(record, c=self.region).to_stmt(node.span)
        return node


def _beginning(stmt: Any, accumulator: Region) -> Any | None:
    """A product, or a loop whose first use of the accumulator is one, that clears it; None for anything else."""
    if isinstance(stmt, ir.Evaluate):
        return _clearing(stmt, accumulator, True)
    low, extent = (as_int(stmt.min), as_int(stmt.extent)) if isinstance(stmt, ir.For) else (None, None)
    # A loop that runs no turn would leave the accumulator without its zeros.
    if not isinstance(low, int) or not isinstance(extent, int) or extent < 1 or stmt.step is not None:
        return None
    key, body = hash(accumulator.buffer), flattened(stmt.body)
    first = next(at for at, child in enumerate(body) if key in uses_of(child))
    # In the first turn of the loop the old content does not count, afterwards it does.
    body[first] = _clearing(body[first], accumulator, ir.EQ(stmt.loop_var, ir.IntImm(stmt.loop_var.ty, low)))
    if body[first] is None:
        return None
    return ir.For(stmt.loop_var, stmt.min, stmt.extent, stmt.kind, seq(body), annotations=stmt.annotations, span=stmt.span)


def _clearing(stmt: Any, accumulator: Region, clear: Any) -> Any | None:
    """The product ``stmt`` where ``clear`` says when its accumulator does not count; None for anything else."""
    record, key = record_of(stmt), hash(accumulator.buffer)
    if not isinstance(record, Gemm) or key in (hash(record.a.buffer), hash(record.b.buffer)):
        return None
    of_all = hash(record.c.buffer) == key and record.c.is_whole and uses_of(stmt)[key] == 1
    sums = isinstance(record.clear_accum, int) and not record.clear_accum
    return replace(record, clear_accum=clear).to_stmt(stmt.span) if of_all and sums else None


def _products(stmt: Any, key: int) -> int:
    """How many products of all of the accumulator a statement has."""
    records = [record_of(child) for child in walk(stmt)]
    return sum(isinstance(record, Gemm) and hash(record.c.buffer) == key and record.c.is_whole for record in records)


def _is_zero(value: Any) -> bool:
    number = value.value if isinstance(value, (ir.IntImm, ir.FloatImm)) else value
    return isinstance(number, (int, float)) and number == 0


def leaves(stmt: Any) -> bool:
    """Whether a statement may leave a loop or the kernel early."""
    returns = isinstance(stmt, ir.Evaluate) and intrinsic_name(stmt.value) == "thread_return"
    return returns or isinstance(stmt, (ir.Break, ir.Continue))
