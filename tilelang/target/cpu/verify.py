"""Postconditions of the pipeline's steps, which tests check between them (``verify`` of the pass runner)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.visit import own_expressions, walk
from tilelang.target.cpu.formats import STORAGE
from tilelang.target.cpu.place import ON_STACK
from tilelang.target.cpu.program import CpuProgram
from tilelang.tileop import is_tile_op
from tilelang.tileop.thread import intrinsic_name


def tiles_are_lowered(func: Any) -> None:
    """No tile operator is left, and nothing is bound to a thread."""
    for stmt in walk(func.body):
        assert not (isinstance(stmt, ir.Evaluate) and is_tile_op(stmt.value)), f"a tile operator is left: {stmt}"
        assert not (isinstance(stmt, ir.AttrStmt) and stmt.attr_key == "thread_extent"), f"a thread is left: {stmt.node}"


def exits_are_lowered(func: Any) -> None:
    """No ``return``, ``break`` or ``continue`` is left."""
    for stmt in walk(func.body):
        assert not isinstance(stmt, (ir.Break, ir.Continue)), "a break or continue is left"
        assert not (isinstance(stmt, ir.Evaluate) and intrinsic_name(stmt.value) == "thread_return"), "a return is left"


def types_are_legal(program: CpuProgram) -> None:
    """No element of a narrow format is read or written as such, and no intrinsic of the language is called."""
    for expr in _expressions(program):
        if isinstance(expr, ir.TensorLoad):
            assert str(expr.source.dtype) not in STORAGE, f"{expr.source.name} is {expr.source.dtype}"
        assert intrinsic_name(expr) is None, f"an intrinsic is left: {expr}"


def buffers_are_placed(program: CpuProgram) -> None:
    """Every allocation stays on the stack; what does not is an alias by now."""
    for stmt in _statements(program):
        assert not isinstance(stmt, ir.AllocBuffer) or ON_STACK in stmt.annotations, f"{stmt.buffer.name} has no place"


def _statements(program: CpuProgram) -> Iterator[Any]:
    for part in (program, *program.parts):
        yield from walk(part.func.body)


def _expressions(program: CpuProgram) -> Iterator[Any]:
    return (part for stmt in _statements(program) for part in own_expressions(stmt))
