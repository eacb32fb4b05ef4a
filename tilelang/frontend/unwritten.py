"""Warns of tiles, arrays and variables that are read although nothing can have written them; such a variable begins as zero.

A statement that reads such memory and writes it too (``T.gemm`` without ``clear_accum``, ``x[i] += 1``) gives it no first value.
What a statement reads under a condition of its own, and memory whose address is passed on, is left to the interpreter, which
reports each element that is read and was not written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from tilelang.errors import UninitialisedWarning
from tilelang.frontend.builder import sequence
from tilelang.frontend.conversion import convert
from tilelang.frontend.values import as_expr
from tilelang.ir import nodes as ir
from tilelang.ir.access import ADDRESS, READ, WRITE
from tilelang.ir.expr import as_int, is_pure
from tilelang.ir.memory import is_shared, is_variable, lies_in_registers
from tilelang.ir.span import warn_at
from tilelang.ir.visit import children, is_guarded, operands, statement_exprs, with_children
from tilelang.tileop import record_of
from tilelang.tileop.atomic import AtomicTile
from tilelang.tileop.copy import Copy, Fill, Im2Col, Transpose
from tilelang.tileop.gemm import Gemm, GemmSparse
from tilelang.tileop.reduce import Reduce
from tilelang.tileop.scan import Scan


class _Place(NamedTuple):
    """Where a statement stands: its number in program order, and the loops around it."""

    number: int
    loops: tuple[int, ...]


def with_first_values(body: Any) -> Any:
    """The program, with zero in each variable that a statement reads and no statement before it may have written.

    Programs for other releases count on it. The first statement that reads such a variable, or a tile or array, is a warning.
    """
    found = _Accesses(body)
    variables = [memory for memory in found.reads if _warned(found, memory) and is_variable(memory)]
    return sequence(list(_with_zeros(body, variables))) if variables else body


def _warned(found: _Accesses, memory: Any) -> bool:
    """Whether a statement reads memory that nothing before it may have written; warns at the first one."""
    if memory not in found.allocated or memory in found.passed_on:
        return False
    # In shared memory a statement may wait for another thread, whose statement comes later in the text.
    ordered = lies_in_registers(memory) and not found.has_groups
    writes = found.writes[memory]
    for place, stmt in found.reads[memory]:
        if not writes or ordered and not any(_may_precede(write, place) for write in writes):
            remedy = "it begins as 0, as by init=0" if is_variable(memory) else f"T.clear({memory.name}) gives it a value"
            text = f"{memory.name} is read, but no statement before has written it; {remedy}"
            warn_at(text, UninitialisedWarning, stmt.span)
            return True
    return False


def _with_zeros(stmt: Any, variables: list[Any]) -> Iterator[Any]:
    """A statement, with a store of zero after the allocation of each of ``variables``."""
    if isinstance(stmt, ir.SeqStmt):
        for each in stmt.seq:
            yield from _with_zeros(each, variables)
        return
    yield with_children(stmt, lambda body: sequence(list(_with_zeros(body, variables))))
    if isinstance(stmt, ir.AllocBuffer) and any(stmt.buffer.same_as(each) for each in variables):
        kind = str(stmt.buffer.dtype)
        yield ir.BufferStore(stmt.buffer, convert(as_expr(0, kind), kind), [ir.IntImm("int32", 0)], span=stmt.span)


def _may_precede(write: _Place, read: _Place) -> bool:
    return write.number < read.number or not set(write.loops).isdisjoint(read.loops)


class _Accesses:
    """The accesses of each memory in a program.

    Attributes:
        allocated: the memory that the program's kernels allocate, without barriers and tiles of no element.
        reads: statements that certainly read it, in program order.
        writes: where statements write it that do not certainly read it as well.
        passed_on: the memory whose address other code gets.
        has_groups: whether groups of threads run different statements.
    """

    def __init__(self, body: Any) -> None:
        self.allocated = set[Any]()
        self.reads = defaultdict[Any, list[tuple[_Place, Any]]](list)
        self.writes = defaultdict[Any, list[_Place]](list)
        self.passed_on = set[Any]()
        self.has_groups = False
        self._roots: dict[Any, Any] = {}
        self._number = 0
        self._visit(body, ())

    def _visit(self, stmt: Any, loops: tuple[int, ...]) -> None:
        self._number += 1
        if isinstance(stmt, ir.AllocBuffer):
            has_elements = all(as_int(size) != 0 for size in stmt.buffer.shape)
            if has_elements and (is_shared(stmt.buffer) or lies_in_registers(stmt.buffer)):
                self.allocated.add(stmt.buffer)
        elif isinstance(stmt, ir.DeclBuffer):
            sources = [buffer for buffer, _ in _accesses(stmt.data)]
            self._roots[stmt.buffer] = self._roots.get(sources[0], sources[0]) if sources else stmt.buffer
        elif isinstance(stmt, ir.AttrStmt) and stmt.attr_key == "tl.warp_group":
            self.has_groups = True
        self._note(stmt, _Place(self._number, loops))
        if isinstance(stmt, (ir.For, ir.While)):
            loops = (*loops, self._number)
        for child in children(stmt):
            self._visit(child, loops)

    def _note(self, stmt: Any, place: _Place) -> None:
        accesses = [(self._roots.get(buffer, buffer), access) for buffer, access in _statement_accesses(stmt)]
        read = {memory: None for memory, access in accesses if access == READ}
        for memory in read:
            self.reads[memory].append((place, stmt))
        for memory, access in accesses:
            if access == WRITE and memory not in read:
                self.writes[memory].append(place)
            elif access == ADDRESS:
                self.passed_on.add(memory)


def _statement_accesses(stmt: Any) -> Iterator[tuple[Any, str]]:
    operator = record_of(stmt)
    if operator is not None:
        for region, access in operator.regions():
            yield from ((region.buffer, kind) for kind in _kinds(operator, access))
        exprs = operator.scalars()
    elif isinstance(stmt, ir.BufferStore):
        yield stmt.buffer, WRITE
        exprs = [*stmt.indices, stmt.value]
    elif isinstance(stmt, ir.DeclBuffer):
        return
    else:
        exprs = statement_exprs(stmt)
    for expr in exprs:
        yield from _accesses(expr)


def _kinds(operator: Any, access: str) -> tuple[str, ...]:
    """What an operator certainly does to a region that it declares to read, write or update."""
    if not isinstance(operator, _COMPUTING):
        return (ADDRESS,) if "w" in access else ()  # hints and text, else operators that the program itself synchronises
    if access == "rw":
        return (WRITE,) if _may_clear(operator) else (READ, WRITE)
    return (READ,) if access == "r" else (WRITE,)


_COMPUTING = (AtomicTile, Copy, Fill, Gemm, GemmSparse, Im2Col, Reduce, Scan, Transpose)


def _may_clear(operator: Any) -> bool:
    """Whether an operator that accumulates may ignore the old value: an expression decides it where the kernel runs."""
    clears = (as_int(getattr(operator, name, 0)) for name in ("clear_accum", "clear"))
    return any(not isinstance(clear, int) or clear for clear in clears)


def _accesses(expr: Any) -> Iterator[tuple[Any, str]]:
    """The memory that an expression certainly reads, and the memory whose address it passes on."""
    waiting = [(expr, READ)]
    while waiting:
        node, kind = waiting.pop()
        if isinstance(node, ir.Var):
            if ir.is_buffer_var(node):
                yield node, ADDRESS
            continue
        parts = operands(node)
        if isinstance(node, ir.TensorLoad):
            if kind:
                yield node.source, kind
            parts = parts[1:]
        elif isinstance(node, ir.Call) and (not is_pure(node) or str(node.ty) == "handle"):
            kind = ADDRESS
        waiting += [(part, "" if kind == READ and is_guarded(node, position) else kind) for position, part in enumerate(parts)]
