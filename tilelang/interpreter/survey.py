"""Static analysis before a run: the buffers that statements use and change, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.memory import is_fragment, lies_in_registers
from tilelang.ir.visit import children, is_parallel, statement_exprs, walk, walk_expr
from tilelang.tileop.base import decode, is_tile_op
from tilelang.tileop.hint import MaxRegisters
from tilelang.tileop.thread import INTRINSICS, intrinsic_name, runs_foreign_code

WARP_GROUP = "tl.warp_group"
"""The attribute of ``T.ws``."""

TAKING_PART = frozenset(
    """
    sync_threads sync_warp sync_grid named_barrier_arrive mbarrier_wait_parity mbarrier_arrive mbarrier_arrive_expect_tx
    barrier_wait barrier_arrive arrive_cluster_barrier cp_async_barrier_noinc cluster_arrive cluster_wait cluster_sync
    """.split()
)
"""Intrinsics by which threads wait for others, or signal to them."""
_PURE = 1
"""TVM's effect kinds up to this one (expression annotation, pure) are those of calls without effect."""
_OF_WARPS = ("shfl_", "match_", "warp_reduce_", "any_sync", "all_sync", "ballot_sync", "activemask", "shuffle_elect")
_CHANGING = ("atomic_", "ptx_", "store_cluster", "dp4a", "tma_")
"""Beginnings of the names of intrinsics that write to elements given as arguments."""


def element_stores(body: Any) -> Iterator[Any]:
    """The buffers that statements change element by element."""
    for stmt in walk(body):
        if isinstance(stmt, ir.BufferStore):
            yield stmt.buffer
        for expr in statement_exprs(stmt):
            for node in walk_expr(expr):
                name = intrinsic_name(node)
                if name is not None and name.startswith(_CHANGING):
                    # An atomic update changes its place alone; the other operand is what it is changed by.
                    changed = node.args[:1] if name.startswith("atomic_") else node.args
                    yield from (arg.source for arg in changed if isinstance(arg, ir.TensorLoad))


def evaluated(body: Any) -> Iterator[Any]:
    """Every expression of the statements in a body, without the buffers that they store to."""
    for stmt in walk(body):
        yield from (*stmt.indices, stmt.value) if isinstance(stmt, ir.BufferStore) else statement_exprs(stmt)


def takes_part(stmt: Any) -> bool:
    """Whether threads wait for others in a statement, or signal to them."""
    nodes = [node for expr in evaluated(stmt) for node in walk_expr(expr) if isinstance(node, ir.Call)]
    spins = (node for each in walk(stmt) if isinstance(each, ir.While) for node in walk_expr(each.condition))
    if any(map(runs_foreign_code, walk(stmt))) or any(map(_orders_threads, nodes)):
        return True
    return any((intrinsic_name(node) or "").startswith("atomic_") for node in spins)


def _orders_threads(call: Any) -> bool:
    if is_tile_op(call):
        # Registers move between groups of warps that run side by side.
        return isinstance(decode(call), MaxRegisters)
    return intrinsic_name(call) in TAKING_PART or memory_order(call) != "relaxed"


def memory_order(call: Any) -> str:
    """That of an atomic access; ``"relaxed"`` of any other call."""
    return str(call.attrs["memory_order"]) if call.attrs is not None and "memory_order" in call.attrs else "relaxed"


def variables_of(exprs: Iterator[Any]) -> set[Any]:
    """The scalar variables that expressions use."""
    return {node for expr in exprs for node in walk_expr(expr) if isinstance(node, ir.Var) and not ir.is_buffer_var(node)}


def touched(body: Any) -> set[Any]:
    """The buffers that statements read or write."""
    found = {stmt.buffer for stmt in walk(body) if isinstance(stmt, (ir.BufferStore, ir.AllocBuffer, ir.DeclBuffer))}
    return found | loaded(evaluated(body))


def touched_by_all(body: Any, differs: Callable[[Any], bool]) -> set[Any]:
    """The buffers that statements read or write which stand below no branch for some threads.

    Args:
        body: the statements.
        differs: whether an expression may differ between threads.
    """
    if isinstance(body, ir.AllocBuffer):
        return set()
    if (
        isinstance(body, ir.IfThenElse)
        and differs(body.condition)
        or isinstance(body, ir.AttrStmt)
        and body.attr_key == WARP_GROUP
    ):
        return set()
    inside = children(body)
    return set().union(*(touched_by_all(each, differs) for each in inside)) if inside else touched(body)


def is_of_all(buffer: Any, body: Any, differs: Callable[[Any], bool]) -> bool:
    """Whether all threads that come to the statements which use a buffer use it together in one of them.

    Args:
        buffer: of which ``body`` has all uses.
        body: statements.
        differs: whether an expression may differ between threads.
    """
    while buffer not in touched_by_all(body, differs):
        using = [part for part in children(body) if not isinstance(part, ir.AllocBuffer) and buffer in touched(part)]
        if len(using) != 1:
            return False
        body = using[0]
    return True


def loaded(exprs: Iterable[Any]) -> set[Any]:
    """The buffers that expressions name elements or regions of."""
    nodes = (node for expr in exprs for node in walk_expr(expr))
    return {node.source for node in nodes if isinstance(node, (ir.TensorLoad, ir.TensorRegion))}


def written_buffers(body: Any) -> set[Any]:
    """The buffers that statements in a body write."""
    found = set(element_stores(body))
    for stmt in walk(body):
        if isinstance(stmt, ir.Evaluate) and is_tile_op(stmt.value):
            found.update(region.buffer for region, access in decode(stmt.value).regions() if "w" in access)
    return found


def stored_by_threads(stmt: Any, differs: Callable[[Any], bool], below: bool = False) -> set[Any]:
    """The fragments of which single threads store elements, outside of ``T.Parallel``; the threads of ``T.ws`` all store.

    Args:
        stmt: the statement.
        differs: whether an expression may differ between threads.
        below: whether the statement stands below a condition that differs.
    """
    if isinstance(stmt, ir.BufferStore):
        own = below or any(map(differs, stmt.indices))
        return {stmt.buffer} if own and is_fragment(stmt.buffer) else set()
    if is_parallel(stmt):
        return set()
    below = below or any(map(differs, statement_exprs(stmt)))
    return {buffer for child in children(stmt) for buffer in stored_by_threads(child, differs, below)}


def updated_atomically(body: Any) -> set[Any]:
    """The fragments that atomic operations update."""
    found: set[Any] = set()
    for stmt in walk(body):
        op = decode(stmt.value) if isinstance(stmt, ir.Evaluate) and is_tile_op(stmt.value) else None
        if op is not None and op.is_atomic:
            found.update(region.buffer for region, access in op.regions() if "w" in access)
        calls = (node for expr in statement_exprs(stmt) for node in walk_expr(expr))
        found |= loaded(node.args[0] for node in calls if (intrinsic_name(node) or "").startswith("atomic_"))
    return set(filter(is_fragment, found))


def stored_first(body: Any) -> set[Any]:
    """The memory of threads that statements store to before they read it."""
    first: dict[Any, str] = {}
    for stmt in walk(body):
        exprs = (*stmt.indices, stmt.value) if isinstance(stmt, ir.BufferStore) else statement_exprs(stmt)
        for expr in exprs:
            for node in walk_expr(expr):
                if isinstance(node, ir.TensorLoad):
                    first.setdefault(node.source, "read")
        if isinstance(stmt, ir.BufferStore):
            first.setdefault(stmt.buffer, "stored")
    return {buffer for buffer, access in first.items() if access == "stored" and is_private(buffer)}


def is_private(buffer: Any) -> bool:
    """Whether a buffer is private to each thread."""
    return lies_in_registers(buffer) and not is_fragment(buffer)


def is_of_registers(call: Any) -> bool:
    """Whether a call touches no memory and orders no threads: it computes, or is between the threads of a warp."""
    name = intrinsic_name(call)
    if name is not None:
        return INTRINSICS[name].pure or name.startswith(_OF_WARPS)
    effect = call.op.get_attr("TCallEffectKind") if isinstance(call.op, ir.Op) else None
    return effect is not None and int(effect) <= _PURE
