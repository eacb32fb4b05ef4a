"""Tensors through which the threads of a kernel communicate: barriers order them, and no promise to the compiler hides them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.visit import statement_exprs, walk_expr
from tilelang.target.cuda.analysis.disjointness import Iterations
from tilelang.target.cuda.ir.access import READ, UPDATE, WRITE
from tilelang.target.cuda.operators import rule_of
from tilelang.target.cuda.tile.nest import Nest
from tilelang.target.cuda.tile.tree import Branch, Loop, Parallel, Repeat, Scalar, TileTree, walk


def communicating_tensors(tree: TileTree, root: Any, iterations: Iterations) -> set[Any]:
    """Tensors whose accesses barriers must order: changed and read, or changed in several places that may be the same.

    Args:
        root: the buffer whose memory a buffer is a view of.
        iterations: the loops of the kernel.
    """
    reads: set[Any] = set()
    changes: dict[Any, dict[Any, set[str]]] = {}
    for node, buffer, kind in _accesses(tree):
        if kind == READ:
            reads.add(root(buffer))
        elif kind in (WRITE, UPDATE):
            changes.setdefault(root(buffer), {}).setdefault(node, set()).add(kind)
    return {buffer for buffer, found in changes.items() if buffer in reads or _may_meet(found, iterations)}


def changing_tensors(tree: TileTree, root: Any) -> set[Any]:
    """Tensors that are read and may be changed by other threads meanwhile.

    Their parameters cannot be ``__restrict__``: with that promise the compiler moves reads across barriers, as nobody else could
    have written what it reads.
    """
    kinds: dict[Any, set[str]] = {}
    for _node, buffer, kind in _accesses(tree):
        kinds.setdefault(root(buffer), set()).add(kind)
    return {buffer for buffer, found in kinds.items() if READ in found and len(found) > 1}


def _accesses(tree: TileTree) -> Iterator[tuple[Any, Any, str]]:
    """(node, tensor, kind) of every access of a tensor that threads make."""
    return ((node, buffer, kind) for node in walk(tree.root) for buffer, kind in _accesses_of(node))


def _accesses_of(node: Any) -> Iterator[tuple[Any, str]]:
    """(tensor, kind) of the accesses of a node itself, in program order."""
    if isinstance(node, Parallel):
        found = [(access.buffer, access.kind) for access in node.nest.accesses]
    elif isinstance(node, Scalar):
        found = [(access.buffer, access.kind) for access in Nest.build((), node.stmt, None, "statement").accesses]
    elif isinstance(node, (Branch, Loop, Repeat)):
        parts = (part for expr in statement_exprs(node.stmt) for part in walk_expr(expr))
        found = [(part.source, READ) for part in parts if isinstance(part, ir.TensorLoad)]
    else:
        found = []
    return ((buffer, kind) for buffer, kind in found if buffer.scope() in ("global", ""))


def _may_meet(changes: dict[Any, set[str]], iterations: Iterations) -> bool:
    """Whether a statement may change what another one, or another iteration, changes by other threads; atomic updates may."""
    repeated = (isinstance(node, Scalar) and WRITE in changes[node] and iterations.is_repeated(node) for node in changes)
    return any(repeated) or any(
        WRITE in changes[one] | changes[other] and not _are_disjoint(_destination(one), _destination(other), iterations)
        for one, other in combinations(changes, 2)
    )


def _are_disjoint(one: Any, other: Any, iterations: Iterations) -> bool:
    """Whether two copies certainly write different elements."""
    return one is not None and other is not None and iterations.are_disjoint(one, other)


def _destination(node: Any) -> Any:
    return rule_of(node.op).destination(node.op) if isinstance(node, Parallel) and node.op is not None else None
