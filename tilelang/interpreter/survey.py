"""Static analysis before a run: which values, buffers and statements differ between threads."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.memory import is_fragment, lies_in_registers
from tilelang.ir.visit import children, flattened, is_parallel, statement_exprs, walk, walk_expr
from tilelang.tileop.base import decode, is_tile_op
from tilelang.tileop.carried import carried_by, carried_partially
from tilelang.tileop.thread import INTRINSICS, intrinsic_name

WARP_GROUP = "tl.warp_group"
"""The attribute of ``T.ws``."""

_JUMPS = (ir.Break, ir.Continue)
_PURE = 1
"""TVM's effect kinds up to this one (expression annotation, pure) are those of calls without effect."""
_OF_WARPS = ("shfl_", "match_", "warp_reduce_", "any_sync", "all_sync", "ballot_sync", "activemask", "shuffle_elect")
DRAWING = ("rng_rand", "rng_rand_float")
"""Draws of random numbers: each thread has a generator, and the iterations of a ``T.Parallel`` draw one after the other."""
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
                    yield from (arg.source for arg in node.args if isinstance(arg, ir.TensorLoad))


def evaluated(body: Any) -> Iterator[Any]:
    """Every expression of the statements in a body, without the buffers that they store to."""
    for stmt in walk(body):
        yield from (*stmt.indices, stmt.value) if isinstance(stmt, ir.BufferStore) else statement_exprs(stmt)


def variables_of(exprs: Iterator[Any]) -> set[Any]:
    """The scalar variables that expressions use."""
    return {node for expr in exprs for node in walk_expr(expr) if isinstance(node, ir.Var) and not ir.is_buffer_var(node)}


def touched(body: Any) -> set[Any]:
    """The buffers that statements read or write."""
    found = {stmt.buffer for stmt in walk(body) if isinstance(stmt, (ir.BufferStore, ir.AllocBuffer, ir.DeclBuffer))}
    return found | loaded(evaluated(body))


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
    """The fragments of which single threads store elements, outside of ``T.Parallel``.

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
    below = below or any(map(differs, statement_exprs(stmt))) or (isinstance(stmt, ir.AttrStmt) and stmt.attr_key == WARP_GROUP)
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


def thread_names(body: Any) -> set[Any]:
    """The variables that are computed from a thread's number, and not from what threads have stored."""
    found: set[Any] = set()
    for stmt in walk(body):
        if isinstance(stmt, ir.AttrStmt) and isinstance(stmt.node, ir.IterVar) and _is_thread_index(stmt.node):
            found.add(stmt.node.var)
        elif isinstance(stmt, (ir.Bind, ir.For)) and any(may_differ(expr, found, _itself, ()) for expr in statement_exprs(stmt)):
            found.add(stmt.var if isinstance(stmt, ir.Bind) else stmt.loop_var)
    return found


def _itself(var: Any) -> Any:
    return var


def _is_thread_index(var: Any) -> bool:
    return str(var.thread_tag).startswith("threadIdx")


def may_differ(expr: Any, differing: set[Any], root: Callable[[Any], Any], drawing: tuple[str, ...] = DRAWING) -> bool:
    """Whether an expression may differ between threads.

    Args:
        expr: the expression.
        differing: variables and memory of threads that may differ.
        root: the buffer whose memory a buffer is a view of.
        drawing: the intrinsics that give each thread another value without naming it.
    """
    for node in walk_expr(expr):
        if isinstance(node, ir.Var) and root(node) in differing:
            return True
        name = intrinsic_name(node)
        if name is not None and (name in drawing or INTRINSICS[name].threads and name not in _OF_THE_BLOCK):
            return True
    return False


_OF_THE_BLOCK = frozenset(
    "block_rank_in_cluster syncthreads_count syncthreads_and syncthreads_or create_tma_descriptor store_cluster".split()
)
"""Intrinsics that are the same for all threads of a block."""


def differing(body: Any, root: Callable[[Any], Any], views: Container[Any] = ()) -> set[Any]:
    """The variables, and the memory of threads, that may differ between the threads of a block.

    These are the threads' numbers, what is computed from them, what is stored, or returned by an atomic update, under
    divergent control flow (below a condition on them, or after an exit below one), and partial results of a ``T.Parallel``.

    Args:
        body: the program's.
        root: the buffer whose memory a buffer is a view of.
        views: buffers that share their memory with other buffers.
    """
    found: set[Any] = set()
    before = -1
    # A fixed point: a store at the end of a loop may make a condition at its start differ.
    while before != len(found):
        before = len(found)
        _spread_differences(body, False, found, root, views)
    return found


def _spread_differences(stmt: Any, below: bool, found: set[Any], root: Callable[[Any], Any], views: Container[Any]) -> None:
    """Adds what a statement makes thread-dependent; ``below`` says whether it is under a divergent condition."""

    def differs(*exprs: Any) -> bool:
        return any(may_differ(expr, found, root) for expr in exprs)

    if isinstance(stmt, ir.AttrStmt) and isinstance(stmt.node, ir.IterVar):
        if _is_thread_index(stmt.node):
            found.add(stmt.node.var)
    elif isinstance(stmt, ir.AttrStmt):
        below = below or stmt.attr_key == WARP_GROUP
    elif isinstance(stmt, ir.Bind) and (differs(stmt.value) or (below and _has_effect(stmt.value))):
        found.add(stmt.var)
    elif isinstance(stmt, ir.BufferStore) and is_private(stmt.buffer) and (below or differs(*stmt.indices, stmt.value)):
        found.add(root(stmt.buffer))
    elif isinstance(stmt, ir.Evaluate) and is_tile_op(stmt.value):
        record = decode(stmt.value)
        stored = [region.buffer for region, access in record.regions() if "w" in access and is_private(region.buffer)]
        if stored and (below or differs(stmt.value)):
            found.update(map(root, stored))
    elif isinstance(stmt, ir.For):
        if is_parallel(stmt):
            carried = carried_by(stmt, views)
            if below or any(may_differ(expr, found - carried, root) for expr in evaluated(stmt)):
                found.update(root(buffer) for buffer in element_stores(stmt) if is_private(buffer))
            found.update(carried_partially(stmt, views))
            return
        if differs(stmt.min, stmt.extent):
            below = True
            found.add(stmt.loop_var)
    elif isinstance(stmt, (ir.IfThenElse, ir.While)):
        below = below or differs(stmt.condition)
    elif isinstance(stmt, ir.SeqStmt):
        for part in flattened(stmt):
            _spread_differences(part, below, found, root, views)
            below = below or may_leave(part, differs)
        return
    elif isinstance(stmt, ir.Evaluate) and intrinsic_name(stmt.value) in _FILLING:
        # These fill the registers that they are given, which differ between lanes whatever the arguments are.
        places = [arg.source for arg in stmt.value.args if isinstance(arg, ir.TensorLoad) and is_private(arg.source)]
        found.update(map(root, places))
    if isinstance(stmt, (ir.For, ir.While)):
        # Threads that leave a loop early make all of its body run for some threads only, what stands before the break included.
        below = below or may_leave(stmt.body, differs, (ir.Break,))
    for child in children(stmt):
        _spread_differences(child, below, found, root, views)


def _has_effect(value: Any) -> bool:
    """Whether each evaluation of an expression gives another value, as an atomic update does."""
    names = (intrinsic_name(node) for node in walk_expr(value))
    return any(name is not None and not INTRINSICS[name].pure for name in names)


def may_leave(stmt: Any, differs: Callable[[Any], bool], jumps: tuple[type, ...] = _JUMPS, below: bool = False) -> bool:
    """Whether some threads may leave a statement before its end, and others not: it has an exit below a condition that differs.

    Args:
        stmt: the statement.
        differs: whether an expression may differ between threads.
        jumps: the jumps out of the loop around that count; ``return`` always does.
        below: whether the statement stands below such a condition.
    """
    if isinstance(stmt, jumps) or (isinstance(stmt, ir.Evaluate) and intrinsic_name(stmt.value) == "thread_return"):
        return below
    if isinstance(stmt, ir.AttrStmt):
        below = below or stmt.attr_key == WARP_GROUP
    elif isinstance(stmt, (ir.For, ir.While)):
        # A jump inside means this loop; only a return leaves it.
        jumps = ()
        below = below or any(map(differs, statement_exprs(stmt)))
    elif isinstance(stmt, ir.IfThenElse):
        below = below or differs(stmt.condition)
    return any(may_leave(child, differs, jumps, below) for child in children(stmt))


_FILLING = ("ptx_ldmatrix", "ptx_mma")
"""Instructions of a warp that give each thread its own registers."""


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
