"""Checks the user's schedule of a ``T.Pipelined`` loop, on targets that run the statements in program order anyway.

Targets that follow a schedule differ in whether bindings count as statements, so the number of entries may lie between two
counts; only a number that no target accepts is refused.
"""

from __future__ import annotations

from typing import Any

from tilelang.errors import PipelineScheduleError
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.span import location_of
from tilelang.ir.visit import flattened, walk
from tilelang.tileop import hint
from tilelang.tileop.base import decode, is_tile_op


def check_schedules(func: Any, context: Any) -> Any:
    """The program itself.

    Raises:
        PipelineScheduleError: at the first loop whose ``order``, ``stage`` or ``group`` has too few or too many entries, or
            whose ``order`` has one twice.
    """
    for node in walk(func.body):
        if isinstance(node, ir.For):
            _check(node)
    return func


def _check(loop: Any) -> None:
    order, stage, group = (_entries(loop.annotations, name) for name in ("order", "stage", "group"))
    if order is None and stage is None:
        return
    span = location_of(loop.span)
    statements = flattened(loop.body)
    # Users count the names that they give to values as statements, or not: both are accepted.
    least, most = sum(map(_counts_always, statements)), len(statements)
    if group is not None:
        least = most = len(group)
    given = [len(entries) for entries in (order, stage) if entries is not None]
    if not all(least <= count <= most for count in given) or len(set(given)) > 1:
        raise PipelineScheduleError(
            f"order and stage have {' and '.join(map(str, given))} entries, the body has {least} "
            + ("groups" if group is not None else "statements"),
            span,
            "count what the body does (copies, products, stores), not names given to values",
        )
    placed = [number for number in map(as_int, order or []) if number >= 0]
    if len(set(placed)) != len(placed):
        raise PipelineScheduleError(f"two statements have the same order: {placed}", span, "order is a permutation")


def _entries(notes: Any, name: str) -> Any:
    """The user's list, as ``T.Pipelined`` or ``T.serial(annotations=)`` gave it."""
    return notes.get(f"tl.pipeline_{name}") or notes.get(f"software_pipeline_{name}")


def _counts_always(stmt: Any) -> bool:
    """Whether a statement counts for every target."""
    if isinstance(stmt, ir.Evaluate):
        return is_tile_op(stmt.value) and type(decode(stmt.value)).__module__ != hint.__name__
    return isinstance(stmt, (ir.BufferStore, ir.For, ir.While, ir.IfThenElse))
