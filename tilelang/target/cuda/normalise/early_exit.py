"""Exits of some threads become branches of the others: what follows ``if c: return`` or ``if c: continue`` is for the others.

    if tx >= 64:                    if tx >= 64:
        T.thread_return()               pass
    T.copy(A, tile)                 else:
    ...                                 T.copy(A, tile)
                                        ...

The threads that stay are then known, so that tile operators and barriers are theirs, and statements below are each thread's. An
exit from the middle of a nested statement sets a variable, and what follows is below a condition on it; out of loops, ``return``
breaks. The program's barriers after a ``return`` are marked: in the end they are not below the condition. An exit that all
threads take together stays one, and so do those at the end of the kernel from inside of loops, and those from a pipelined loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.memory import VARIABLE
from tilelang.target.cuda.analysis.uniformity import BLOCK, Uniformity, is_return
from tilelang.target.cuda.tile.tree import AFTER_EXIT, Branch, Loop, Repeat, Scalar, Sequence, ThreadGroup, TileTree, walk
from tilelang.tileop.thread import intrinsic_call, intrinsic_name

Exit = Callable[[Any], bool]


def branch_early_exits(tree: TileTree, threads: Mapping[Any, int]) -> TileTree:
    """The kernel with its exits as branches; ``threads`` are the variables of the thread's index with their extents."""
    if not any(_is_continue(node) or is_return(node) for node in walk(tree.root)):
        return tree
    uniformity, allocations = Uniformity(tree, threads), dict(tree.allocations)
    root = _branched(_Exits(uniformity, is_return, allocations).body(tree.root), uniformity, allocations)
    return replace(tree, root=root, allocations=allocations)


def _branched(node: Any, uniformity: Uniformity, allocations: dict[Any, Any]) -> Any:
    """A node with the exits of the iterations of each loop in it as branches."""
    if isinstance(node, (Loop, Repeat)) and not node.is_pipelined:
        node = replace(node, body=_Exits(uniformity, _is_continue, allocations).body(node.body))
    return node.with_parts(lambda part: _branched(part, uniformity, allocations))


class _Exits:
    """Exits of one kind from one body: a kernel's, or an iteration's.

    Attributes:
        allocations: gets the variable that tells whether a thread has left, where one is needed.
    """

    def __init__(self, uniformity: Uniformity, is_exit: Exit, allocations: dict[Any, Any]):
        self.uniformity, self.is_exit, self.allocations = uniformity, is_exit, allocations
        self._left: Any = None

    def body(self, body: Sequence) -> Sequence:
        """The body with its exits as branches."""
        new = self.ending(body)
        return new if self._left is None else Sequence([self._set(False), *new.items])

    # Statements after which the body ends ------------------------------------------------------------------------------

    def ending(self, sequence: Sequence, below: bool = False) -> Sequence:
        """Statements after which the body ends; ``below`` an exit of some threads."""
        items = sequence.items
        place = next((place for place, node in enumerate(items) if self.may_leave(node, below)), None)
        if place is None:
            return sequence
        node, rest = items[place], Sequence(items[place + 1 :])
        # The simple form: `if c: A; return` followed by B is `if c: A else: B`.
        if isinstance(node, Branch) and self._exits_at_its_end(node):
            branch = Branch(node.stmt, self.ending(Sequence(node.then.items[:-1])), self._staying(rest))
            return Sequence([*items[:place], branch])
        # Nothing follows, so that an exit at the end of either side just goes.
        if not rest.items:
            sides = node.with_parts(self.ending) if isinstance(node, (Branch, ThreadGroup)) else node
            return Sequence([*items[:place], sides])
        # The general form, for an exit from the middle: who left is remembered, and the rest is for those who did not.
        return Sequence([*items[:place], self.remembering(node), self._unless_left(self._staying(rest))])

    def _staying(self, rest: Sequence) -> Sequence:
        """What follows an exit."""
        if self.is_exit is not is_return:
            return self.ending(rest)
        # Threads that have left come to the barriers, so that an exit of all who stay is one of some.
        return self.ending(rest, below=True).with_parts(_with_barriers_marked)

    def may_leave(self, node: Any, below: bool = False) -> bool:
        """Whether some threads may leave a statement by an exit, and others not; ``below``, if any may."""
        if isinstance(node, (Branch, Loop, Repeat)):
            below = below or self.uniformity.control(node) < BLOCK
        elif isinstance(node, ThreadGroup):
            below = below or node.threads is not None
        if isinstance(node, (Loop, Repeat)) and (self.is_exit is not is_return or node.is_pipelined):
            return False
        return (below and self.is_exit(node)) or any(self.may_leave(part, below) for part in node.inside)

    def _exits_at_its_end(self, node: Branch) -> bool:
        """Whether a branch is left at its end alone, on one side."""
        if node.otherwise is not None or not any(map(self.is_exit, node.then.items[-1:])):
            return False
        return not any(self.may_leave(each, below=True) for each in node.then.items[:-1])

    # Statements that others follow -------------------------------------------------------------------------------------

    def remembering(self, node: Any) -> Any:
        """A statement whose exits are assignments: who has left runs nothing more of it."""

        def part_of(part: Sequence) -> Sequence:
            new = self._remembering_in(part)
            if not isinstance(node, (Loop, Repeat)):
                return new
            return Sequence([*new.items, self._branch(self._has_left(), Sequence([Scalar(ir.Break())]))])

        return node.with_parts(part_of)

    def _remembering_in(self, sequence: Sequence) -> Sequence:
        items = sequence.items
        for place, node in enumerate(items):
            if self.is_exit(node):
                return Sequence([*items[:place], self._set(True, node.span)])
            if self.may_leave(node, below=True):
                rest = Sequence(items[place + 1 :])
                after = [self._unless_left(self._remembering_in(rest))] if rest.items else []
                return Sequence([*items[:place], self.remembering(node), *after])
        return sequence

    # The variable ------------------------------------------------------------------------------------------------------

    def _variable(self) -> Any:
        if self._left is None:
            self._left = ir.decl_buffer((1,), "bool", "left", scope=VARIABLE, layout=None)
            self.allocations[self._left] = {}
        return self._left

    def _set(self, value: bool, span: Any = None) -> Scalar:
        return Scalar(ir.BufferStore(self._variable(), ir.IntImm("bool", value), [0], span))

    def _has_left(self) -> Any:
        return ir.BufferLoad(self._variable(), [0])

    def _unless_left(self, rest: Sequence) -> Branch:
        return self._branch(ir.Not(self._has_left()), rest)

    def _branch(self, condition: Any, body: Sequence) -> Branch:
        span = body.items[0].span
        return Branch(ir.IfThenElse(condition, ir.Evaluate(ir.IntImm("int32", 0)), None, span), body, None)


def _with_barriers_marked(node: Any) -> Any:
    """A statement whose barriers of the block are marked."""
    if isinstance(node, Scalar) and isinstance(node.stmt, ir.Evaluate) and intrinsic_name(node.stmt.value) == "sync_threads":
        call = node.stmt.value
        marked = intrinsic_call("sync_threads", attrs={AFTER_EXIT: True}, span=node.stmt.span)
        return node if call.args else Scalar(ir.Evaluate(marked, node.stmt.span))
    return node.with_parts(_with_barriers_marked)


def _is_continue(node: Any) -> bool:
    return isinstance(node, Scalar) and isinstance(node.stmt, ir.Continue)
