"""``T.Pipelined`` loops: copies run ahead of their use by cp.async, in rings of shared buffers.

With ``s`` slots, the copies of iteration ``i + s - 1`` are issued in iteration ``i``, right after the barrier that shows both
that iteration ``i``'s data has arrived and that every thread is done with the slot to be overwritten: one barrier a step. Each
iteration commits one group, empty or not, so the wait is the same constant in all of them and any trip count is right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.visit import walk_expr
from tilelang.target.cuda.tree import Loop, Operator, Parallel, Scalar, Sequence, TileTree, walk
from tilelang.tileop.copy import Copy


@dataclass(frozen=True, eq=False)
class Pipeline:
    """A planned loop.

    Attributes:
        producers: copies that run ahead.
        bindings: values that they need, computed for their own iteration.
        rings: the shared buffers that they fill.
        slots: versions of each.
        distance: iterations that they run ahead.
    """

    producers: tuple[Parallel, ...]
    bindings: tuple[Scalar, ...]
    rings: tuple[Any, ...]
    slots: int

    @property
    def distance(self) -> int:
        return self.slots - 1


def plan_pipeline(loop: Loop, tree: TileTree) -> Pipeline | None:
    """The pipeline of a loop; None where it has no stages or nothing to run ahead."""
    notes = loop.stmt.annotations
    if "num_stages" not in notes:
        return None
    slots = as_int(notes["num_stages"])
    stages = _list(notes, "tl.pipeline_stage")
    if stages and slots < 2:
        slots = max(stages) + 1
    if slots < 2:
        return None
    items = loop.body.items
    written = _written(loop.body)
    usable, bindings = _usable_values(loop, items, written)
    producers = []
    for item in items:
        if isinstance(item, Parallel) and _runs_ahead(item, loop, tree, usable, written):
            producers.append(item)
    if stages:
        allowed = {id(item) for item, stage in zip(_statements(items), stages) if stage < max(stages)}
        producers = [item for item in producers if id(item) in allowed]
    if not producers:
        return None
    rings = tuple(item.op.dst.buffer for item in producers)
    return Pipeline(tuple(producers), tuple(bindings), rings, slots)


def _list(notes: Any, name: str) -> list[int]:
    return [as_int(value) for value in notes[name]] if name in notes else []


def _statements(items: list[Any]) -> list[Any]:
    """What the user's order and stage lists count: everything but bindings."""
    return [item for item in items if not (isinstance(item, Scalar) and isinstance(item.stmt, ir.Bind))]


def _written(body: Sequence) -> dict[Any, int]:
    """How many statements of the body write each buffer."""
    counts: dict[Any, int] = {}
    for node in walk(body):
        for buffer in _writes(node):
            counts[buffer] = counts.get(buffer, 0) + 1
    return counts


def _writes(node: Any) -> list[Any]:
    if isinstance(node, Parallel):
        return list({a.buffer for a in node.nest.accesses if a.kind != "read"})
    if isinstance(node, Operator):
        regions = node.op.regions() if hasattr(node.op, "regions") else []
        return [region.buffer for region, access in regions if "w" in access]
    if isinstance(node, Scalar) and isinstance(node.stmt, ir.BufferStore):
        return [node.stmt.buffer]
    if isinstance(node, Scalar) and isinstance(node.stmt, ir.Evaluate):
        return [e.source for e in walk_expr(node.stmt.value) if isinstance(e, ir.TensorLoad)]
    return []


def _usable_values(loop: Loop, items: list[Any], written: dict[Any, int]) -> tuple[set[Any], list[Scalar]]:
    """Bindings of the body that a copy may use ahead of time: pure values of the loop variable and of unwritten memory."""
    inner = {node.stmt.var for node in walk(loop.body) if isinstance(node, Scalar) and isinstance(node.stmt, ir.Bind)}
    usable: set[Any] = set()
    bindings = []
    for item in items:
        if isinstance(item, Scalar) and isinstance(item.stmt, ir.Bind):
            if _available(item.stmt.value, inner, usable, written):
                usable.add(item.stmt.var)
                bindings.append(item)
    return usable, bindings


def _available(expr: Any, inner: set[Any], usable: set[Any], written: dict[Any, int]) -> bool:
    for node in walk_expr(expr):
        if isinstance(node, ir.TensorLoad) and node.source in written:
            return False
        if isinstance(node, ir.Var) and node in inner and node not in usable:
            return False
        if isinstance(node, ir.Call) and isinstance(node.op, ir.Op) and node.op.name.startswith("tl."):
            return False
    return True


def _runs_ahead(node: Parallel, loop: Loop, tree: TileTree, usable: set[Any], written: dict[Any, int]) -> bool:
    op = node.op
    if not isinstance(op, Copy) or op.kind != "copy":
        return False
    buffer = op.dst.buffer
    if op.src.scope != "global" or op.dst.scope not in ("shared", "shared.dyn") or not op.dst.is_whole:
        return False
    if written.get(buffer, 0) != 1 or op.src.buffer in written or buffer in tree.aliases or buffer in tree.aliases.values():
        return False
    inner = {n.stmt.var for n in walk(loop.body) if isinstance(n, Scalar) and isinstance(n.stmt, ir.Bind)}
    parts = [*op.src.mins, *op.src.extents]
    if not all(isinstance(part, int) or _available(part, inner, usable, written) for part in parts):
        return False
    return not _used_outside(buffer, loop, tree)


def _used_outside(buffer: Any, loop: Loop, tree: TileTree) -> bool:
    """Whether a statement outside of the loop touches the buffer."""
    inside = {id(node) for node in walk(loop.body)}
    for node in walk(tree.root):
        if id(node) in inside:
            continue
        if isinstance(node, Parallel) and any(a.buffer == buffer for a in node.nest.accesses):
            return True
        if isinstance(node, Operator) and hasattr(node.op, "regions"):
            if any(region.buffer == buffer for region, _ in node.op.regions()):
                return True
        if isinstance(node, Scalar) and _mentions_buffer(node.stmt, buffer):
            return True
    return False


def _mentions_buffer(stmt: Any, buffer: Any) -> bool:
    from tilelang.ir.visit import statement_exprs

    return any(
        (isinstance(e, ir.TensorLoad) and e.source == buffer) or (isinstance(e, ir.Var) and e == buffer)
        for part in statement_exprs(stmt)
        for e in walk_expr(part)
    )
