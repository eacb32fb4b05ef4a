"""Step ``deepen``: a loop along K of shallow products becomes one of deep products.

Before: tile IR, in which products read global tensors where ``forward_copies`` could let them. After: the same, in which a loop
whose body is one product of tiles that follow each other along K has fewer iterations, or is a single product. Products of a
depth that suits a GPU's shared memory (16 to 64) load and store C in every iteration. A CPU keeps C in registers over as much of
K as panels of B fit the first-level cache.

The sums are the same, in the same order: C has the type that sums are kept in, so that nothing is rounded between products. A and
B lie in tensors and C does not, so that no product writes what a later one reads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant, same
from tilelang.ir.memory import is_global
from tilelang.ir.region import Region
from tilelang.ir.visit import flattened, walk
from tilelang.target.cpu.dot import choose_dot_product
from tilelang.target.cpu.elementwise import change
from tilelang.target.cpu.emit import seq
from tilelang.target.cpu.forward_copies import is_call
from tilelang.target.cpu.lower import Scope
from tilelang.target.cpu.panels import summed
from tilelang.target.cpu.rewriter import StmtRewriter
from tilelang.tileop import record_of
from tilelang.tileop.gemm import Gemm
from tilelang.transform.substitute import substitute


def deepen(func: Any, context: Any) -> Any:
    """The program with fewer and deeper products."""
    if not any(is_call(stmt, Gemm) for stmt in walk(func.body)):
        return func
    return func.with_body(_Deepening(Scope(context)).stmt(func.body))


class _Deepening(StmtRewriter):
    """Rewrites loops."""

    def __init__(self, scope: Scope):
        self.scope = scope

    def visit_SeqStmt(self, node: Any) -> Any:
        statements = []
        for child in node.seq:
            follows = statements and isinstance(statements[-1], ir.For) and is_call(child, Gemm)
            found = _loop_of_products(statements[-1], self.scope) if follows else None
            whole = None if found is None else found.with_rest(record_of(child))
            statements = [*statements, child] if whole is None else [*statements[:-1], whole]
        return seq(list(map(self.stmt, statements)))

    def visit_For(self, node: Any) -> Any:
        loop = super().visit_For(node)
        found = _loop_of_products(loop, self.scope)
        return loop if found is None else found.deeper(self._turns(found.record))

    def _turns(self, record: Gemm) -> int:
        """The largest number of products that one deep product replaces."""
        # Products of 256 steps, which are 512 or 1024 elements along K where a step sums two or four.
        return max(1, _dot_product(record, self.scope).most // record.k)


@dataclass(frozen=True)
class _Loop:
    """A loop over products that follow each other along K.

    Attributes:
        node: the loop.
        low: the first value of its variable.
        turns: how many iterations it has.
        record: the product.
        clears: the first product starts from zeros.
        span: the product's source location.
    """

    node: Any
    low: int
    turns: int
    record: Gemm
    clears: bool
    span: Any

    def deeper(self, most: int) -> Any:
        """The same sums as products of up to ``most`` iterations each, of equal length but for the last one."""
        # As few products as `most` allows, of equal length: a short last one would load and store all of C for a few steps.
        each = -(-self.turns // -(-self.turns // most))
        full, rest = divmod(self.turns, each)
        depth = self.record.k
        if each == 1:
            return self.node
        if full == 1:
            start = self._product(0, each * depth, self.clears)
        else:
            var = ir.Var(self.node.loop_var.name, self.node.loop_var.ty)
            clear = ir.EQ(var, ir.IntImm(var.ty, 0)) if self.clears else False
            body = self._product(var * each, each * depth, clear)
            start = ir.For(var, constant(0), constant(full), self.node.kind, body, span=self.node.span)
        return seq(start, self._product(full * each, rest * depth, False) if rest else None)

    def with_rest(self, rest: Gemm) -> Any | None:
        """All turns and the product after them as one product, which is lowered as several of equal depth; None where the product
        does not go on where the turns end.
        """
        if not isinstance(rest.k, int) or rest.clear_accum or not self._goes_on(rest):
            return None
        return self._product(0, self.turns * self.record.k + rest.k, self.clears)

    def _goes_on(self, rest: Gemm) -> bool:
        """Whether a product is that of the next turn, but for its depth."""
        next_turn = [_longer(region, axis, rest.k, self._at(self.turns)) for region, axis in summed(self.record)]
        pairs = [*zip(next_turn, (rest.a, rest.b)), (self.record.c, rest.c)]
        alike = all(getattr(rest, field.name) == getattr(self.record, field.name) for field in Gemm.attribute_fields())
        return alike and all(_is_same(left, right) for left, right in pairs)

    def _at(self, turn: Any) -> dict[Any, Any]:
        return {self.node.loop_var: constant(self.low + turn, str(self.node.loop_var.ty))}

    def _product(self, first: Any, depth: int, clear: Any) -> Any:
        """The product from a turn on, over so many elements of K."""
        a, b = (_longer(region, axis, depth, self._at(first)) for region, axis in summed(self.record))
        return replace(self.record, a=a, b=b, clear_accum=clear).to_stmt(self.span)


def _loop_of_products(node: Any, scope: Scope) -> _Loop | None:
    """The loop as one of products along K; None if it is anything else."""
    low, turns, body = as_int(node.min), as_int(node.extent), flattened(node.body)
    record: Any = record_of(body[0]) if len(body) == 1 else None
    if node.step is not None or not isinstance(low, int) or not isinstance(turns, int) or not isinstance(record, Gemm):
        return None
    clears = is_first(record.clear_accum, node.loop_var, low)
    sums = clears or isinstance(record.clear_accum, int) and not record.clear_accum
    if not sums or not isinstance(record.k, int) or not _is_disjoint(record):
        return None
    # An accumulator that is rounded to its type after each product would be rounded less often.
    if _dot_product(record, scope).accumulator != record.c.dtype:
        return None
    operands = [*summed(record), (record.c, None)]
    if not all(_advances(region, axis, record.k, node.loop_var, scope) for region, axis in operands):
        return None
    return _Loop(node, low, turns, record, clears, body[0].span)


def _dot_product(record: Gemm, scope: Scope) -> Any:
    return choose_dot_product(record.a.dtype, record.b.dtype, record.c.dtype, record.k, scope.context)


def is_first(clear: Any, variable: Any, low: int) -> bool:
    """Whether an accumulator is cleared in the first turn, and in no other.

    Args:
        clear: when a product clears it.
        variable: of the loop.
        low: its first value.
    """
    return isinstance(clear, ir.EQ) and clear.a.same_as(variable) and as_int(clear.b) == low


def _is_disjoint(record: Gemm) -> bool:
    """Whether C shares no memory with A or B."""
    tensors = [is_global(region) for region in (record.a, record.b, record.c)]
    return tensors == [True, True, False]


def _advances(region: Region, axis: int | None, depth: int, variable: Any, scope: Scope) -> bool:
    """Whether a region moves by ``depth`` along one axis from turn to turn, and along no other."""
    moves = [0] * len(region.mins)
    if axis is not None:
        moves[axis] = depth
    static = all(isinstance(extent, int) for extent in region.extents)
    return static and all(change(low, variable, scope) == move for low, move in zip(region.mins, moves))


def _longer(region: Region, axis: int, length: int, turn: dict[Any, Any]) -> Region:
    """The region from a turn on, with so many elements along an axis."""
    extents = list(region.extents)
    extents[axis] = length
    return Region(region.buffer, tuple(as_int(substitute(constant(low), turn)) for low in region.mins), tuple(extents))


def _is_same(left: Region, right: Region) -> bool:
    """Whether two regions are provably the same part of a buffer."""
    numbers = zip((*left.mins, *left.extents), (*right.mins, *right.extents))
    return left.buffer.same_as(right.buffer) and all(same(a, b) for a, b in numbers)
