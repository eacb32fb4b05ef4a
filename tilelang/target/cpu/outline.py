"""Step ``outline``: the statements of a long kernel become functions of a bounded length.

Before: loops over the user's element types. After: where a kernel weighs more than :data:`LONG`, calls of functions over its
parts. Compilers take more than linear time in the length of a function: LLVM needed 9 s for 50 unrolled products of
64 x 64 x 64 in one function, gcc 24 s for 500 short loops. Parts that are equal up to the names of what they touch are one
function, so a product that a program unrolls a thousand times is legalised and compiled once.

A part takes pointers to the buffers that it shares with the rest and the values of its free variables. A buffer that one part
alone uses is allocated there, as far as the stack holds it. Registers have no address, so that all that names them is one part.
Statements that leave the kernel stay where they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.visit import walk
from tilelang.target.cpu.emit import REGISTER_LANES, seq
from tilelang.target.cpu.place import LARGEST_ON_STACK, STACK_BYTES, buffer_bytes
from tilelang.target.cpu.program import CpuProgram
from tilelang.target.cpu.rewriter import StmtRewriter
from tilelang.transform.in_place import Order, are_distinct, sources_of

Step = Callable[[CpuProgram, Any], CpuProgram]

LONG = 500
"""A kernel of more than this weight is divided."""

PART = 200
"""A part is complete when it has this weight: large enough to be worth a call, small enough to compile fast."""

_RETURNING = (ir.AssertStmt, ir.tirx.Return)
"""Statements that return from the function that they are in, so they cannot move to another one."""


def outline(func: Any, context: Any) -> CpuProgram:
    """The program with its long sequences divided."""
    outliner = _Outliner(context.name, None if are_distinct(func) else sources_of(func.body))
    body = outliner.stmt(func.body) if weight(func.body) > LONG else func.body
    return CpuProgram(func.with_body(body), parts=tuple(map(CpuProgram, outliner.parts)))


def each(step: Step) -> Step:
    """A step on a program and on each of its parts."""

    def run(program: CpuProgram, context: Any) -> CpuProgram:
        return replace(step(program, context), parts=tuple(step(part, context) for part in program.parts))

    return run


def weight(stmt: Any) -> int:
    """A measure of how much machine code a statement becomes."""
    return _weight(Counter(map(type, walk(stmt))))


def _weight(kinds: Mapping[type, int]) -> int:
    return sum(count * _WEIGHTS.get(kind, 1) for kind, count in kinds.items())


_WEIGHTS = {ir.For: 4, ir.SeqStmt: 0}


class _Outliner(StmtRewriter):
    """Divides the sequences of one program.

    Attributes:
        parts: the functions made so far, over buffers and scalars.
        sources: what the tensors of a program are views of, where the caller may give one tensor for two of them; else None.
        registers: the buffers in registers, by their hash, of the sequences around the one that is divided.
    """

    def __init__(self, name: str, sources: Mapping[Any, Any] | None):
        self.name, self.sources = name, sources
        self.parts: list[Any] = []
        self.alike: dict[int, list[Any]] = {}
        self.views: set[Any] = set()
        self.registers: set[int] = set()

    def visit_DeclBuffer(self, node: Any) -> Any:
        self.views.add(node.buffer)
        return node

    def visit_SeqStmt(self, node: Any) -> Any:
        pieces = [_Piece(child) for child in node.seq]
        around = frozenset(self.registers)
        self.registers.update(hash(piece.stmt.buffer) for piece in pieces if piece.is_in_registers)
        pieces = [_Piece(self.stmt(piece.stmt)) if piece.weight > LONG else piece for piece in pieces]
        self.views.update(piece.stmt.buffer for piece in pieces if isinstance(piece.stmt, ir.DeclBuffer))
        runs = list(_runs(_whole(list(_sunk(pieces))), self.sources, around))
        # In how many runs each variable occurs: a buffer of one run alone becomes that function's own.
        users = Counter(key for run in runs for key in run.variables)
        return seq([self.call(run, users) if run.movable else run.statements for run in runs])

    def call(self, run: _Run, users: Mapping[int, int]) -> list[Any]:
        """Makes a function of a run; gives its call, after the allocations of buffers that other parts use, too."""
        kept, own, free = [], [], STACK_BYTES
        for stmt in run.statements:
            if isinstance(stmt, ir.AllocBuffer):
                size = buffer_bytes(stmt.buffer)
                # A buffer that other parts use, or that is too large for this part's stack, is allocated before the call.
                if users[hash(stmt.buffer)] > 1 or not isinstance(size, int) or size > min(free, LARGEST_ON_STACK):
                    kept.append(stmt)
                    continue
                free -= size
            own.append(stmt)
        body = seq(own)
        inside = _defined(body)
        params = [var for key, var in run.variables.items() if key not in inside]
        func = ir.PrimFunc(params, body, ret_type=ir.ir.PrimType("int32"))
        # `noalias` is a promise about all accesses in the function: a view, or a tensor that may be the same as another, breaks
        # it.
        if self.views.isdisjoint(params) and not run.late:
            func = func.with_attr("tirx.noalias", True)
        name = ir.StringImm(str(self._known(func).attrs["global_symbol"]))
        passed = [ir.buffer_data(param) if ir.is_buffer_var(param) else param for param in params]
        return [*kept, ir.Evaluate(ir.Call(ir.Op.get("tirx.call_extern"), [name, *passed], ret_ty="int32"))]

    def _known(self, func: Any) -> Any:
        """The part equal to ``func``; a new one where there is none yet."""
        # Compared with parts of the same hash only: for a thousand parts, all pairs would be half a million comparisons.
        alike = self.alike.setdefault(tvm_ffi.structural_hash(func), [])
        for bare, part in alike:
            if tvm_ffi.structural_equal(func, bare):
                return part
        part = func.with_attr("global_symbol", f"{self.name}_part{len(self.parts)}")
        alike.append((func, part))
        self.parts.append(part)
        return part


Variables = dict[int, Any]
"""Variables by their hash, which is their identity: comparing two of them builds an expression."""


def _named(node: Any) -> Variables:
    """The variables in a statement or an expression, in order."""
    found: Variables = {}

    def add(var: Any) -> None:
        found[hash(var)] = var

    tvm_ffi.structural_walk(node, [(ir.Var, add)])
    return found


class _Piece:
    """One statement of a sequence, with cached properties."""

    def __init__(self, stmt: Any):
        self.stmt = stmt

    @cached_property
    def variables(self) -> Variables:
        """The variables that it names; those of the sizes of buffers, too."""
        found = _named(self.stmt)
        for buffer in filter(ir.is_buffer_var, list(found.values())):
            for size in (*buffer.shape, *buffer.strides):
                found.update({} if isinstance(size, ir.IntImm) else _named(size))
        return found

    @cached_property
    def kinds(self) -> Mapping[type, int]:
        """How many statements of each type are in it."""
        return Counter(map(type, walk(self.stmt)))

    @cached_property
    def weight(self) -> int:
        return _weight(self.kinds)

    @property
    def allocates(self) -> bool:
        return isinstance(self.stmt, ir.AllocBuffer)

    @property
    def is_in_registers(self) -> bool:
        """Whether it allocates a buffer in registers."""
        return self.allocates and REGISTER_LANES in (self.stmt.annotations or {})

    @property
    def movable(self) -> bool:
        """Whether it defines nothing that a later statement names, and returns from nothing."""
        return not isinstance(self.stmt, (ir.DeclBuffer, ir.Bind)) and self.kinds.keys().isdisjoint(_RETURNING)


def _sunk(pieces: list[_Piece]) -> Iterator[_Piece]:
    """The statements with each allocation just before its first use.

    The front end puts all allocations first. There they would be a part of their own, and each buffer a parameter of every part.
    """
    waiting = {hash(piece.stmt.buffer): piece for piece in pieces if piece.allocates}
    for piece in pieces:
        if not piece.allocates:
            yield from [waiting.pop(key) for key in piece.variables if key in waiting]
            yield piece


def _whole(pieces: list[_Piece]) -> Iterator[list[_Piece]]:
    """The statements in groups that stay together: those from an allocation of registers to their last use, or one."""
    last = {key: at for at, piece in enumerate(pieces) for key in piece.variables}
    group, end = [], 0
    for at, piece in enumerate(pieces):
        group.append(piece)
        end = max(end, last[hash(piece.stmt.buffer)] if piece.is_in_registers else 0)
        if at >= end:
            yield group
            group = []


@dataclass
class _Run:
    """Neighbouring statements.

    Attributes:
        late: whether one of them reads a tensor after it wrote another one that may be the same memory.
        movable: they become a function; otherwise they stay.
    """

    pieces: list[_Piece]
    late: bool = False
    movable: bool = True

    @property
    def statements(self) -> list[Any]:
        return [piece.stmt for piece in self.pieces]

    @cached_property
    def variables(self) -> Variables:
        """The variables that they name, in order, each once."""
        found: Variables = {}
        for piece in self.pieces:
            found.update(piece.variables)
        return found


def _runs(groups: Iterable[list[_Piece]], sources: Mapping[Any, Any] | None, registers: Set[int]) -> Iterator[_Run]:
    """Divides statements into parts of enough weight; the statements of one operator stay together if possible.

    A part also ends before it would read a tensor after writing another one that may be the same memory. Then its pointers are
    distinct, and the compiler does not have to check for overlap in every loop. What names ``registers`` of code around it stays.
    """
    run, length, allocates, late, written = [], 0, False, False, set()
    for group in groups:
        order = Order(sources or {})
        if sources is not None:
            for piece in group:
                order.visit(piece.stmt)
        movable = all(piece.movable and registers.isdisjoint(piece.variables) for piece in group)
        # A part that has allocated a buffer goes on until the next allocation, so that the users of the buffer are in it, up to
        # four times the length.
        complete = length >= PART and (group[0].allocates or not allocates) or length >= 4 * PART
        if run and (complete or not movable or any(written - {tensor} for tensor in order.read)):
            yield _Run(run, late)
            run, length, allocates, late, written = [], 0, False, False, set()
        if not movable:
            yield _Run(group, movable=False)
            continue
        run += group
        length += sum(piece.weight for piece in group)
        allocates |= any(piece.allocates for piece in group)
        late |= bool(order.found)
        written |= order.written
    if run:
        yield _Run(run, late)


def _defined(body: Any) -> set[int]:
    """The variables that statements define."""
    defined: set[int] = set()
    for stmt in walk(body):
        name = _DEFINES.get(type(stmt))
        if name is not None:
            defined.add(hash(getattr(stmt, name)))
    tvm_ffi.structural_walk(body, [(ir.Let, lambda let: defined.add(hash(let.var)))])
    return defined


_DEFINES = {ir.For: "loop_var", ir.Bind: "var", ir.AllocBuffer: "buffer", ir.DeclBuffer: "buffer"}
"""Statement -> its attribute that is a new variable."""
