"""Exits of some threads become branches of the others: what follows ``if c: return`` or ``if c: continue`` is for the others.

    if tx >= 64:                    if tx >= 64:
        T.thread_return()               pass
    T.copy(A, tile)                 else:
    ...                                 T.copy(A, tile)
                                        ...

The threads that stay are then known, so that tile operators and barriers are theirs, and statements below are each thread's. An
exit from the middle of a nested statement sets a variable, and what follows is below a condition on it; out of loops, ``return``
breaks. An exit that all threads take together stays one, and so do those at the end of the kernel from inside of loops, and those
from a pipelined loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.target.cuda.analysis.uniformity import BLOCK, Uniformity, is_return
from tilelang.target.cuda.tile.tree import Branch, Loop, Repeat, Scalar, Scope, Sequence, TileTree, inside, span_of, walk

Exit = Callable[[Any], bool]


def branch_early_exits(tree: TileTree, threads: Mapping[Any, int]) -> None:
    """Rewrites the exits of a kernel in place; ``threads`` are the variables of the thread's index with their extents."""
    if not any(_is_continue(node) or is_return(node) for node in walk(tree.root)):
        return
    uniformity = Uniformity(tree, threads)
    _Exits(tree, uniformity, is_return).body(tree.root)
    for node in list(walk(tree.root)):
        if isinstance(node, Repeat) or (isinstance(node, Loop) and node.parts is None):
            _Exits(tree, uniformity, _is_continue).body(node.body)


class _Exits:
    """Exits of one kind from one body: a kernel's, or an iteration's."""

    def __init__(self, tree: TileTree, uniformity: Uniformity, is_exit: Exit):
        self.tree, self.uniformity, self.is_exit = tree, uniformity, is_exit
        self._left: Any = None

    def body(self, body: Sequence) -> None:
        """Rewrites the exits of a body."""
        self.ending(body)
        if self._left is not None:
            body.items.insert(0, self._set(False))

    # Statements after which the body ends ------------------------------------------------------------------------------

    def ending(self, sequence: Sequence) -> None:
        for number, node in enumerate(sequence.items):
            if not self.may_leave(node):
                continue
            rest = Sequence(sequence.items[number + 1 :])
            if self._exits_at_its_end(node):
                node.then.items.pop()
                node.otherwise = rest
                del sequence.items[number + 1 :]
            elif rest.items:
                self.remember(node)
                sequence.items[number + 1 :] = [self._unless_left(rest)]
                self.ending(rest)
            break
        if sequence.items:
            for side in _sides(sequence.items[-1]):
                self.ending(side)

    def may_leave(self, node: Any, below: bool = False) -> bool:
        """Whether some threads may leave a statement by an exit, and others not; ``below``, if any may."""
        if isinstance(node, (Branch, Loop, Repeat)):
            below = below or self.uniformity.control(node) < BLOCK
        elif isinstance(node, Scope):
            below = below or node.threads is not None
        if isinstance(node, (Loop, Repeat)) and (self.is_exit is not is_return or getattr(node, "parts", None) is not None):
            return False
        return (below and self.is_exit(node)) or any(self.may_leave(part, below) for part in inside(node))

    def _exits_at_its_end(self, node: Any) -> bool:
        """Whether a branch is left at its end alone, on one side."""
        if not isinstance(node, Branch) or node.otherwise is not None or not any(map(self.is_exit, node.then.items[-1:])):
            return False
        return not any(self.may_leave(each, below=True) for each in node.then.items[:-1])

    # Statements that others follow -------------------------------------------------------------------------------------

    def remember(self, node: Any) -> None:
        """Makes the exits inside of a statement assignments: who has left runs nothing more of it."""
        for part in inside(node):
            if not isinstance(part, Sequence):
                self.remember(part)
                continue
            self._remember_in(part)
            if isinstance(node, (Loop, Repeat)):
                part.items.append(self._branch(self._has_left(), Sequence([Scalar(ir.Break())])))

    def _remember_in(self, sequence: Sequence) -> None:
        for number, node in enumerate(sequence.items):
            if self.is_exit(node):
                sequence.items[number:] = [self._set(True, span_of(node))]
                return
            if not self.may_leave(node, below=True):
                continue
            self.remember(node)
            rest = Sequence(sequence.items[number + 1 :])
            if rest.items:
                self._remember_in(rest)
                sequence.items[number + 1 :] = [self._unless_left(rest)]
            return

    # The variable ------------------------------------------------------------------------------------------------------

    def _variable(self) -> Any:
        if self._left is None:
            self._left = ir.decl_buffer((1,), "bool", "left", scope="local.var", layout=None)
            self.tree.allocations[self._left] = {}
        return self._left

    def _set(self, value: bool, span: Any = None) -> Scalar:
        zero = ir.IntImm("int32", 0)
        return Scalar(ir.BufferStore(self._variable(), ir.IntImm("bool", value), [zero], span))

    def _has_left(self) -> Any:
        return ir.BufferLoad(self._variable(), [ir.IntImm("int32", 0)])

    def _unless_left(self, rest: Sequence) -> Branch:
        return self._branch(ir.Not(self._has_left()), rest)

    def _branch(self, condition: Any, body: Sequence) -> Branch:
        span = span_of(body.items[0])
        return Branch(ir.IfThenElse(condition, ir.Evaluate(ir.IntImm("int32", 0)), None, span), body, None)


def _sides(node: Any) -> list[Sequence]:
    """The statements of a branch or a scope."""
    if isinstance(node, Branch):
        return [side for side in (node.then, node.otherwise) if side is not None]
    return [node.body] if isinstance(node, Scope) else []


def _is_continue(node: Any) -> bool:
    return isinstance(node, Scalar) and isinstance(node.stmt, ir.Continue)
