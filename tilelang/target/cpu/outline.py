"""Step ``outline``: the statements of a long kernel become functions of a bounded length.

Before: loops over the user's element types. After: where a kernel weighs more than :data:`LONG`, calls of functions over its
parts. Compilers take more than linear time in the length of a function: LLVM needed 9 s for 50 unrolled products of
64 x 64 x 64 in one function, gcc 24 s for 500 short loops. Parts that are equal up to the names of what they touch are one
function, so a product that a program unrolls a thousand times is legalised and compiled once.

A part takes pointers to the buffers that it shares with the rest and the values of its free variables. A buffer that one part
alone uses is allocated there, as far as the stack holds it. Statements that leave the kernel stay where they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.visit import any_statement, walk
from tilelang.target.cpu.emit import seq
from tilelang.target.cpu.legalize import LegalProgram
from tilelang.target.cpu.place import LARGEST_ON_STACK, STACK_BYTES, buffer_bytes
from tilelang.target.cpu.rewriter import StmtRewriter

Step = Callable[[LegalProgram, Any], LegalProgram]

LONG = 500
"""Weight of a kernel from which on it is divided."""

PART = 200
"""Weight from which on a part is complete: enough to pay for a call, little enough for a compiler."""

_LEAVES = (ir.AssertStmt, ir.tirx.Return)
"""What returns from the function that it stands in."""


def outline(func: Any, context: Any) -> LegalProgram:
    """The program with its long sequences divided."""
    outliner = _Outliner(context.name)
    body = outliner.stmt(func.body) if weight(func.body) > LONG else func.body
    return LegalProgram(func.with_body(body), parts=tuple(map(LegalProgram, outliner.parts)))


def each(step: Step) -> Step:
    """A step on a program and on each of its parts."""

    def run(program: LegalProgram, context: Any) -> LegalProgram:
        return replace(step(program, context), parts=tuple(step(part, context) for part in program.parts))

    return run


def weight(stmt: Any) -> int:
    """About how much code a compiler makes of a statement."""
    return sum(4 if isinstance(node, ir.For) else 1 for node in walk(stmt) if not isinstance(node, ir.SeqStmt))


class _Outliner(StmtRewriter):
    """Divides the sequences of one program.

    Attributes:
        parts: the functions made so far, over buffers and scalars.
    """

    def __init__(self, name: str):
        self.name = name
        self.parts: list[Any] = []
        self.alike: dict[int, list[Any]] = {}
        self.views: set[Any] = set()

    def visit_DeclBuffer(self, node: Any) -> Any:
        self.views.add(node.buffer)
        return node

    def visit_SeqStmt(self, node: Any) -> Any:
        statements = [self.stmt(child) if weight(child) > LONG else child for child in node.seq]
        self.views.update(stmt.buffer for stmt in statements if isinstance(stmt, ir.DeclBuffer))
        runs = list(_runs(statements))
        users = Counter(var for run in runs for var in run.variables)
        return seq([self.call(run, users) if run.movable else run.statements for run in runs])

    def call(self, run: _Run, users: Mapping[Any, int]) -> list[Any]:
        """The call of the function that a run becomes, after the allocations that others use, too."""
        kept, own, free = [], [], STACK_BYTES
        for stmt in run.statements:
            if isinstance(stmt, ir.AllocBuffer):
                size = buffer_bytes(stmt.buffer)
                if users[stmt.buffer] > 1 or not isinstance(size, int) or size > min(free, LARGEST_ON_STACK):
                    kept.append(stmt)
                    continue
                free -= size
            own.append(stmt)
        body = seq(own)
        inside = _defined(body)
        params = [var for var in run.variables if var not in inside]
        func = ir.PrimFunc(params, body, ret_type=ir.ir.PrimType("int32"))
        if self.views.isdisjoint(params):
            func = func.with_attr("tirx.noalias", True)
        name = ir.StringImm(str(self._known(func).attrs["global_symbol"]))
        passed = [ir.buffer_data(param) if ir.is_buffer_var(param) else param for param in params]
        return [*kept, ir.Evaluate(ir.Call(ir.Op.get("tirx.call_extern"), [name, *passed], ret_ty="int32"))]

    def _known(self, func: Any) -> Any:
        """The part equal to ``func``; a new one where there is none yet."""
        alike = self.alike.setdefault(tvm_ffi.structural_hash(func), [])
        for bare, part in alike:
            if tvm_ffi.structural_equal(func, bare):
                return part
        part = func.with_attr("global_symbol", f"{self.name}_part{len(self.parts)}")
        alike.append((func, part))
        self.parts.append(part)
        return part


@dataclass
class _Run:
    """Neighbouring statements.

    Attributes:
        movable: they become a function; otherwise it is one statement that stays.
        weight: of all of them.
        allocates: some are allocations.
    """

    statements: list[Any]
    movable: bool
    weight: int = 0
    allocates: bool = False

    @cached_property
    def variables(self) -> list[Any]:
        """The variables that they name, in order, each once; those of the sizes of buffers, too."""
        found: dict[Any, None] = {}
        for stmt in self.statements:
            tvm_ffi.structural_walk(stmt, [(ir.Var, found.setdefault)])
        for buffer in filter(ir.is_buffer_var, list(found)):
            for size in (*buffer.shape, *buffer.strides):
                tvm_ffi.structural_walk(size, [(ir.Var, found.setdefault)])
        return list(found)

    def is_complete(self, following: Any) -> bool:
        """Whether ``following`` begins another run: where this is long enough, operators staying whole."""
        between = isinstance(following, ir.AllocBuffer) or not self.allocates
        return self.weight >= PART and between or self.weight >= 4 * PART


def _runs(statements: list[Any]) -> Iterator[_Run]:
    run = _Run([], True)
    for stmt in statements:
        movable = _is_movable(stmt)
        if run.statements and (not movable or run.is_complete(stmt)):
            yield run
            run = _Run([], True)
        if movable:
            run.statements.append(stmt)
            run.weight += weight(stmt)
            run.allocates |= isinstance(stmt, ir.AllocBuffer)
        else:
            yield _Run([stmt], False)
    if run.statements:
        yield run


def _is_movable(stmt: Any) -> bool:
    """Whether a statement defines nothing that a later one names, and returns from nothing."""
    if isinstance(stmt, (ir.DeclBuffer, ir.Bind)):
        return False
    return isinstance(stmt, ir.AllocBuffer) or not any_statement(stmt, lambda node: isinstance(node, _LEAVES))


def _defined(body: Any) -> set[Any]:
    """The variables that statements define."""
    defined: set[Any] = set()
    for stmt in walk(body):
        if isinstance(stmt, ir.For):
            defined.add(stmt.loop_var)
        elif isinstance(stmt, ir.Bind):
            defined.add(stmt.var)
        elif isinstance(stmt, (ir.AllocBuffer, ir.DeclBuffer)):
            defined.add(stmt.buffer)
    tvm_ffi.structural_walk(body, [(ir.Let, lambda let: defined.add(let.var))])
    return defined
