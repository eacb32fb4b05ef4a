"""Tensors through which the threads of a kernel hand values to one another: barriers order them, and no promise hides them.

The caller may also give one tensor for two parameters, to work in place. Where each element is read before it is written, any
order that the compiler chooses is right; a parameter that is read after another was written must find there what was written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.visit import walk as walk_statements
from tilelang.ir.visit import walk_expr
from tilelang.target.cuda.nest import READ, WRITE, Nest
from tilelang.target.cuda.tree import Branch, Loop, Parallel, Repeat, Scalar, TileTree, inside, walk
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
        elif kind == WRITE:
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


def late_tensors(tree: TileTree, root: Any) -> set[Any]:
    """Tensors of which one is read after another was written, in program order: they may be the same one in a call.

    Their parameters cannot be ``__restrict__`` either. The iterations of one nest have no order.
    """
    order = _Order(root)
    order.visit(tree.root)
    return order.found


class _Order:
    """Walks a tree in program order.

    Attributes:
        written: what has been written so far; in a loop, also what its body writes.
        found: what was read after something else was written, and that.
    """

    def __init__(self, root: Any):
        self.root = root
        self.written: set[Any] = set()
        self.found: set[Any] = set()

    def visit(self, node: Any) -> None:
        if isinstance(node, (Loop, Repeat)) or any(isinstance(stmt, (ir.For, ir.While)) for stmt in _inner(node)):
            self.written |= {self.root(b) for each in walk(node) for b, kind in _accesses_of(each) if kind != READ}
        for buffer, kind in _accesses_of(node):
            self.meet(self.root(buffer), kind)
        for child in inside(node):
            self.visit(child)

    def meet(self, buffer: Any, kind: str) -> None:
        if kind != READ:
            self.written.add(buffer)
        elif self.written - {buffer}:
            self.found |= self.written | {buffer}


def _inner(node: Any) -> list[Any]:
    """The statements of a nest's body, or of a statement outside of nests."""
    body = node.nest.body if isinstance(node, Parallel) else node.stmt if isinstance(node, Scalar) else None
    return [] if body is None else list(walk_statements(body))


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
