"""Barriers between the statements of a ``T.Parallel``: the loop is split there into one loop before and one after the barrier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm_ffi

from tilelang.errors import MisplacedError
from tilelang.ir import nodes as ir
from tilelang.ir.span import location_of
from tilelang.ir.visit import flattened, reads_memory, walk, walk_expr
from tilelang.tileop.thread import INTRINSICS, intrinsic_name

_BARRIERS = ("sync_threads", "sync_grid")


def split_at_barriers(body: Any) -> list[tuple[Any, bool]]:
    """The parts of a loop's body between barriers (with False) and the barriers (with True), in order.

    Raises:
        MisplacedError: a value that an iteration reads from memory before a barrier is used after it, or a barrier is inside of
            another statement of the body.
    """
    stmts = flattened(body)
    for inner in (inner for stmt in stmts for inner in walk(stmt) if inner is not stmt):
        name = _barrier_name(inner)
        if name is not None:
            raise MisplacedError(
                f"{INTRINSICS[name].spelling} below another statement of a T.Parallel: an iteration cannot wait for others",
                location_of(inner.span),
                hint="put it directly into the T.Parallel, whose iterations it then ends, or outside of it",
            )
    if all(_barrier_name(stmt) is None for stmt in stmts):
        return [(body, False)]
    split = _Split()
    found: list[tuple[Any, bool]] = []
    part: list[Any] = []
    for stmt in [*stmts, None]:
        if stmt is not None and _barrier_name(stmt) is None:
            part.append(stmt)
            continue
        found += [(_block(split.part(part)), False)] if part else []
        found += [] if stmt is None else [(stmt, True)]
        split.barrier, part = stmt, []
    return found


class _Split:
    """Takes the parts of a body in order.

    An iteration ends at a barrier, so a later part has no access to the variables of an earlier one. Those that are computed
    from indices alone are computed again; any other would have to be stored, for which the program has no memory.

    Attributes:
        barrier: the one before the next part.
        positions: variables of earlier parts that are computed from indices and arguments alone, with their values.
        owned: the other variables, and the views, of earlier parts.
    """

    def __init__(self) -> None:
        self.barrier: Any = None
        self.positions: dict[Any, Any] = {}
        self.owned: set[Any] = set()

    def part(self, stmts: list[Any]) -> list[Any]:
        """The statements of a part, without the values of earlier ones."""
        stmts = [_replaced(stmt, self.positions) for stmt in stmts]
        used = set(ir.tirx.analysis.undefined_vars(_block(stmts)))
        if used & self.owned:
            self._refuse(next(iter(used & self.owned)))
        for stmt in stmts:
            if isinstance(stmt, ir.Bind) and _is_position(stmt.value):
                self.positions[stmt.var] = _replaced(stmt.value, self.positions)
            elif isinstance(stmt, (ir.Bind, ir.DeclBuffer)):
                self.owned.add(stmt.var if isinstance(stmt, ir.Bind) else stmt.buffer)
        return stmts

    def _refuse(self, var: Any) -> None:
        spelling = INTRINSICS[_barrier_name(self.barrier) or ""].spelling
        raise MisplacedError(
            f"{var.name} belongs to the iterations of this T.Parallel before {spelling}, which ends them, and is used after it",
            location_of(self.barrier.span),
            hint="keep it in a fragment, which all iterations see, or compute it again after the barrier",
        )


def _replaced(node: Any, values: Mapping[Any, Any]) -> Any:
    """``node`` with the values of variables in their place."""
    return tvm_ffi.structural_map(node, [(ir.Var, lambda var: values.get(var, var))]) if values else node


def _block(stmts: list[Any]) -> Any:
    return stmts[0] if len(stmts) == 1 else ir.SeqStmt(stmts)


def _barrier_name(stmt: Any) -> str | None:
    """The intrinsic of a barrier of the whole block or grid; None for any other statement."""
    name = intrinsic_name(stmt.value) if isinstance(stmt, ir.Evaluate) else None
    return name if name in _BARRIERS and not stmt.value.args else None


def _is_position(value: Any) -> bool:
    """Whether a value depends on indices and arguments alone."""
    return not reads_memory(value) and all(intrinsic_name(part) is None for part in walk_expr(value) if isinstance(part, ir.Call))
