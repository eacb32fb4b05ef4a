"""``T.annotate_safe_value`` holds for the statements that follow it in its block (the kernel, a loop, a branch, a ``T.sblock``).

Targets have one safe value for each buffer of a kernel. So where an annotation does not hold for all uses of its buffer, the
statements after it use a view of the buffer, and the annotation becomes one of that view.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm_ffi

from tilelang.frontend.builder import sequence
from tilelang.ir import nodes as ir
from tilelang.ir.memory import is_global
from tilelang.ir.visit import any_statement, expressions, flattened, with_children
from tilelang.tileop.base import record_of
from tilelang.tileop.hint import SafeValue

_BLOCK = "tl.block"


def as_block(stmts: list[Any]) -> list[Any]:
    """The statements of a ``T.sblock``, marked as a block where one of them is an annotation."""
    if all(_annotated(stmt) is None for stmt in stmts):
        return stmts
    nothing = ir.IntImm("int32", 0)
    return [ir.AttrStmt(nothing, _BLOCK, nothing, sequence(stmts), stmts[0].span)]


def with_views_of_safe_values(body: Any, take_name: Callable[[str], str]) -> Any:
    """A program with a view for each annotation that does not hold for a whole kernel; ``take_name`` makes names unique."""
    if not any_statement(body, lambda stmt: _annotated(stmt) is not None):
        return body
    return _rewritten(body, take_name)


def _rewritten(stmt: Any, take_name: Callable[[str], str]) -> Any:
    if isinstance(stmt, ir.AttrStmt) and stmt.attr_key == "thread_extent":
        nested = isinstance(stmt.body, ir.AttrStmt) and stmt.body.attr_key == "thread_extent"
        return with_children(
            stmt, lambda body: _rewritten(body, take_name) if nested else _rewritten_block(body, take_name, True)
        )
    if isinstance(stmt, ir.SeqStmt):
        return _rewritten_block(stmt, take_name, False)
    if isinstance(stmt, ir.AttrStmt) and stmt.attr_key == _BLOCK:
        return _rewritten_block(stmt.body, take_name, False)
    return with_children(stmt, lambda body: _rewritten_block(body, take_name, False))


def _rewritten_block(body: Any, take_name: Callable[[str], str], of_kernel: bool) -> Any:
    """The statements of a block with a view for each annotation.

    Args:
        body: the block.
        take_name: makes names unique.
        of_kernel: whether it is the block of a kernel, whose annotations need no view where no statement before them uses the
            buffer: they hold for all of its uses.
    """
    waiting: list[Any] = flattened(body)
    done: list[Any] = []
    used: set[Any] = set()
    while waiting:
        stmt = waiting.pop(0)
        buffer = _annotated(stmt)
        if buffer is not None and not (of_kernel and buffer not in used):
            view = _view(buffer, take_name(str(buffer.name)))
            done.append(ir.DeclBuffer(view, data=ir.buffer_data(buffer), span=stmt.span))
            stmt, *waiting = (_renamed(part, buffer, view) for part in (stmt, *waiting))
        used.update(part for part in expressions(stmt) if isinstance(part, ir.Var))
        done.append(_rewritten(stmt, take_name))
    return sequence(done)


def _annotated(stmt: Any) -> Any:
    """The tensor of an annotation; None of another statement."""
    record = record_of(stmt)
    return record.buffer.buffer if isinstance(record, SafeValue) and is_global(record.buffer) else None


def _view(buffer: Any, name: str) -> Any:
    strides = list(buffer.strides) or None
    return ir.decl_buffer(
        list(buffer.shape), str(buffer.dtype), name, strides=strides, data_alignment=buffer.data_alignment, layout=None
    )


def _renamed(stmt: Any, buffer: Any, view: Any) -> Any:
    return tvm_ffi.structural_map(stmt, [(ir.Var, lambda var: view if var.same_as(buffer) else var)])
