"""Exits that threads disagree on, as branches: what follows ``if c: continue`` or ``if c: return`` is for the other threads.

    if tx >= 64:                    if tx >= 64:
        T.thread_return()               pass
    T.copy(A, tile)                 else:
    ...                                 T.copy(A, tile)
                                        ...

The threads that stay are then known, so that tile operators and barriers are theirs. An exit that all threads take together
stays one, and so does one from the middle of a nested branch or of a pipelined loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.target.cuda.analysis.uniformity import Uniformity
from tilelang.target.cuda.tile.tree import Branch, Loop, Repeat, Scalar, Scope, Sequence, TileTree, walk
from tilelang.tileop.thread import intrinsic_name


def branch_early_exits(tree: TileTree, threads: Mapping[Any, int]) -> None:
    """Rewrites the exits of a kernel in place; ``threads`` are the variables of the thread's index with their extents."""
    if not any(_is_continue(node) or _is_return(node) for node in walk(tree.root)):
        return
    uniformity = Uniformity(tree, threads)
    _Exits(uniformity, _is_return).sequence(tree.root)
    for node in list(walk(tree.root)):
        if isinstance(node, Repeat) or (isinstance(node, Loop) and node.parts is None):
            _Exits(uniformity, _is_continue).sequence(node.body)


class _Exits:
    """Exits of one kind, in statements after which nothing else would be left out."""

    def __init__(self, uniformity: Uniformity, is_exit: Any):
        self.uniformity, self.is_exit = uniformity, is_exit

    def sequence(self, sequence: Sequence) -> None:
        for number, node in enumerate(sequence.items):
            if not self._leaves(node):
                continue
            node.then.items.pop()
            node.otherwise = Sequence(sequence.items[number + 1 :])
            del sequence.items[number + 1 :]
            break
        for side in _ends(sequence):
            self.sequence(side)

    def _leaves(self, node: Any) -> bool:
        """Whether a statement is the exit of some threads, and of no others."""
        if not isinstance(node, Branch) or node.otherwise is not None or not node.then.items:
            return False
        return self.is_exit(node.then.items[-1]) and not self.uniformity.agrees(node, self.uniformity.block)


def _ends(sequence: Sequence) -> list[Sequence]:
    """The statements at the end of a sequence, where that is a branch or a scope."""
    last = sequence.items[-1] if sequence.items else None
    if isinstance(last, Branch):
        return [side for side in (last.then, last.otherwise) if side is not None]
    return [last.body] if isinstance(last, Scope) else []


def _is_continue(node: Any) -> bool:
    return isinstance(node, Scalar) and isinstance(node.stmt, ir.Continue)


def _is_return(node: Any) -> bool:
    return isinstance(node, Scalar) and isinstance(node.stmt, ir.Evaluate) and intrinsic_name(node.stmt.value) == "thread_return"
