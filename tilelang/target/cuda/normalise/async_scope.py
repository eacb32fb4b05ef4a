"""Below ``T.attr(…, "async_scope", 1)`` the copies of single threads from global to shared memory run asynchronously.

Programs in which some threads load for others write such copies as loops of ``T.vectorized``, and let a barrier count them by
``T.cp_async_barrier_noinc``. Each becomes the instruction that copies 4, 8 or 16 bytes, zeros where the source does not exist.
What is no such copy stays as it is.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import reduce
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.facts import Facts
from tilelang.ir.memory import is_global, lies_in_shared
from tilelang.ir.visit import any_statement, flattened, with_children
from tilelang.target.cuda.tile.nest import mentions
from tilelang.target.cuda.tile.program import Kernel
from tilelang.tileop.thread import intrinsic_call
from tilelang.transform.substitute import substitute

ASYNC_SCOPE = "async_scope"


def start_copies(kernel: Kernel) -> Kernel:
    """The kernel with the copies below that attribute as instructions."""
    if not any_statement(kernel.body, _is_scope):
        return kernel
    return replace(kernel, body=_Scopes(kernel.threads).visit(kernel.body, False))


def _is_scope(stmt: Any) -> bool:
    return isinstance(stmt, ir.AttrStmt) and stmt.attr_key == ASYNC_SCOPE


class _Scopes:
    """Rewrites statements, with what is known of the variables around them."""

    def __init__(self, threads: tuple[tuple[Any, int], ...]):
        self.facts = Facts()
        for var, extent in threads:
            self.facts.bind_range(var, extent)

    def visit(self, stmt: Any, inside: bool) -> Any:
        """A statement; ``inside`` says whether it stands below the attribute."""
        if _is_scope(stmt):
            return self.visit(stmt.body, True)
        if isinstance(stmt, ir.For):
            return self._loop(stmt, inside)
        if isinstance(stmt, ir.IfThenElse):
            return self._branch(stmt, inside)
        if isinstance(stmt, ir.Bind):
            self.facts.bind_value(stmt.var, stmt.value)
        copy = self._copy(stmt, None, 1) if inside else None
        return with_children(stmt, lambda child: self.visit(child, inside)) if copy is None else copy

    def _loop(self, stmt: Any, inside: bool) -> Any:
        self.facts.bind_range(stmt.loop_var, stmt.extent, stmt.min)
        count = as_int(stmt.extent)
        if inside and int(stmt.kind) == int(ir.ForKind.VECTORIZED) and isinstance(count, int) and as_int(stmt.min) == 0:
            copies = [self._copy(part, stmt.loop_var, count) for part in flattened(stmt.body)]
            if None not in copies:
                return ir.SeqStmt(copies, stmt.span) if len(copies) > 1 else copies[0]
        return with_children(stmt, lambda body: self.visit(body, inside))

    def _branch(self, stmt: Any, inside: bool) -> Any:
        with self.facts.assuming(stmt.condition):
            then = self.visit(stmt.then_case, inside)
        with self.facts.assuming(stmt.condition, False) if stmt.else_case is not None else nullcontext():
            otherwise = None if stmt.else_case is None else self.visit(stmt.else_case, inside)
        return ir.IfThenElse(stmt.condition, then, otherwise, stmt.span)

    # Copies ------------------------------------------------------------------------------------------------------------

    def _copy(self, stmt: Any, var: Any, count: int) -> Any:
        """A store of ``count`` neighbouring elements, along ``var``, as one instruction; None where it is none."""
        if not isinstance(stmt, ir.BufferStore) or not isinstance(stmt.value, ir.TensorLoad):
            return None
        target, source = stmt.buffer, stmt.value.source
        size = count * canonical(str(target.dtype)).bits
        between = lies_in_shared(target) and is_global(source)
        if not between or str(target.dtype) != str(source.dtype) or size not in (32, 64, 128):
            return None
        to, of = self._first(target, stmt.indices, var, count), self._first(source, stmt.value.indices, var, count)
        if to is None or of is None:
            return None
        exists = self._exists(source, of, count)
        loads = (ir.BufferLoad(target, to), ir.BufferLoad(source, of), ir.IntImm("int32", size // 8))
        return ir.Evaluate(intrinsic_call("ptx_cp_async", *loads, *exists), stmt.span)

    def _first(self, buffer: Any, indices: Any, var: Any, count: int) -> list[Any] | None:
        """The first of ``count`` neighbouring elements; None where they are not, or not aligned to their size."""
        *outer, last = indices
        if var is None:
            return [*outer, last]
        if any(mentions(index, {var: 0}) for index in outer):
            return None
        first, second = (substitute(last, {var: ir.IntImm(str(var.ty), number)}) for number in (0, 1))
        if self.facts.simplify(second - first) != 1 or not self.facts.divisible(first, count):
            return None
        return [*outer, first] if self.facts.divisible(as_int(buffer.shape[-1]), count) else None

    def _exists(self, source: Any, indices: list[Any], count: int) -> list[Any]:
        """The condition under which elements of a tensor exist, where that is not certain."""
        conditions = []
        for axis, (index, extent) in enumerate(zip(indices, source.shape)):
            reach = count - 1 if axis == len(indices) - 1 else 0
            if not self.facts.non_negative(index):
                conditions.append(index >= 0)
            if not self.facts.holds(index + reach < extent):
                conditions.append(index + reach < extent)
        return [reduce(ir.And, conditions)] if conditions else []
