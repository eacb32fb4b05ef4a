"""Tensors through which the threads of a kernel hand values to one another: barriers order them, and no promise hides them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.visit import walk_expr
from tilelang.target.cuda.reading.nest import READ, UPDATE, WRITE, Nest
from tilelang.target.cuda.reading.tree import Branch, Parallel, Repeat, Scalar, TileTree, walk
from tilelang.tileop.copy import Copy


def exchanged_tensors(tree: TileTree, root: Any) -> set[Any]:
    """Tensors whose accesses barriers must order: those written and read, and those that different threads write.

    Args:
        root: the buffer whose memory a buffer is a view of.
    """
    reads: set[Any] = set()
    writers: dict[Any, set[Any]] = {}
    for node, buffer, kind in _accesses(tree):
        if kind == READ:
            reads.add(root(buffer))
        elif kind == WRITE or (kind == UPDATE and isinstance(node, Scalar)):  # one thread updates for the whole block
            writers.setdefault(root(buffer), set()).add(node)
    return {buffer for buffer, nodes in writers.items() if buffer in reads or _may_overwrite(nodes)}


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
    elif isinstance(node, (Branch, Repeat)):
        loads = (part for part in walk_expr(node.stmt.condition) if isinstance(part, ir.TensorLoad))
        found = [(load.source, READ) for load in loads]
    else:
        found = []
    return ((buffer, kind) for buffer, kind in found if buffer.scope() in ("global", ""))


def _may_overwrite(writers: set[Any]) -> bool:
    """Whether some of the statements may write what others wrote; several copies are taken to write different parts."""
    nests = [node for node in writers if isinstance(node, Parallel)]
    copies = [node for node in nests if isinstance(node.op, Copy)]
    return bool(nests) and len(writers) > max(1, len(copies))
