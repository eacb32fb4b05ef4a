"""Step ``lower_exits``: ``return``, ``break`` and ``continue`` become conditions, since neither code generator has them.

Before: blocks that may end early, loops whose bodies may leave early. After: none. A ``return`` is a ``continue`` of the loop
over blocks; in an inner loop it is a ``break``, followed by a ``return`` after the loop. A ``break`` sets a flag, and the loop
runs while it is not set; statements after a point where a flag may have been set are executed under the condition that it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.target.cpu.emit import local, seq
from tilelang.target.cpu.lower import BLOCK_LOOP
from tilelang.target.cpu.rewriter import StmtRewriter
from tilelang.tileop.thread import intrinsic_name


def lower_exits(func: Any, context: Any) -> Any:
    """The program without ``return``, ``break`` and ``continue``."""
    body = _Returns().stmt(func.body) if _returns(func.body) else func.body
    if not _contains(body, (ir.Break, ir.Continue)):
        return func
    return func.with_body(_Exits().stmt(body))


def _contains(root: Any, kinds: tuple[type, ...]) -> bool:
    found = []
    tvm_ffi.structural_walk(root, [(kind, found.append) for kind in kinds])
    return bool(found)


def _is_return(node: Any) -> bool:
    return isinstance(node, ir.Evaluate) and intrinsic_name(node.value) == "thread_return"


def _returns(root: Any) -> bool:
    found = []
    tvm_ffi.structural_walk(root, [(ir.Evaluate, lambda node: found.append(1) if _is_return(node) else None)])
    return bool(found)


class _Returns(StmtRewriter):
    """``return`` in terms of ``break`` and ``continue``.

    Attributes:
        in_block: whether the walk is inside of a loop over blocks; loops around that one are the host's.
        depth: how many loops of the block are around.
        ended: the flag that inner loops raise.
    """

    def __init__(self) -> None:
        self.in_block = False
        self.depth = 0
        self.ended: Any = None

    def visit_Evaluate(self, node: Any) -> Any:
        if not _is_return(node):
            return node
        if self.depth == 0:
            return ir.Continue()
        # The flag of the block: each loop on the way out breaks because of it.
        self.ended = self.ended if self.ended is not None else local("ended", (1,), "int32")
        return seq(_set(self.ended, 1), ir.Break())

    def visit_For(self, node: Any) -> Any:
        if BLOCK_LOOP not in node.annotations:
            return self._inner(super().visit_For, node)
        outer, self.in_block, self.ended = self.in_block, True, None
        body = self.stmt(node.body)
        self.in_block = outer
        if self.ended is not None:
            body = seq(ir.AllocBuffer(self.ended), _set(self.ended, 0), body)
        return ir.For(node.loop_var, node.min, node.extent, node.kind, body, annotations=node.annotations, span=node.span)

    def visit_While(self, node: Any) -> Any:
        return self._inner(super().visit_While, node)

    def _inner(self, visit: Callable[[Any], Any], node: Any) -> Any:
        if not _returns(node.body):
            return node
        if not self.in_block:
            return visit(node)
        self.depth += 1
        loop = visit(node)
        self.depth -= 1
        # Each loop on the way out is left by a break of the next one, and the outermost by a continue: the block is over then.
        return seq(loop, ir.IfThenElse(_raised(self.ended), ir.Break() if self.depth else ir.Continue(), None))


class _Flags:
    """The flags of one loop; allocated on first use."""

    def __init__(self) -> None:
        self.broke: Any = None
        self.skipped: Any = None


def _raised(flag: Any) -> Any:
    return ir.BufferLoad(flag, [0]) != 0


def _set(flag: Any, value: int) -> Any:
    return ir.BufferStore(flag, ir.IntImm("int32", value), [0])


class _Exits(StmtRewriter):
    def __init__(self) -> None:
        self.loops: list[_Flags] = []

    def visit_Break(self, node: Any) -> Any:
        flags = self.loops[-1]
        flags.broke = flags.broke if flags.broke is not None else local("broke", (1,), "int32")
        return _set(flags.broke, 1)

    def visit_Continue(self, node: Any) -> Any:
        flags = self.loops[-1]
        flags.skipped = flags.skipped if flags.skipped is not None else local("skipped", (1,), "int32")
        return _set(flags.skipped, 1)

    def visit_SeqStmt(self, node: Any) -> Any:
        return self._sequence(list(node.seq))

    def _sequence(self, statements: list[Any]) -> Any:
        for position, statement in enumerate(statements[:-1]):
            # Everything after the statement goes into one condition, which is built the same way in turn.
            if self.loops and may_exit(statement):
                head = [self.stmt(child) for child in statements[: position + 1]]
                rest = self._sequence(statements[position + 1 :])
                return seq(head, ir.IfThenElse(self._running(_exits_of(statement)), rest, None))
        return seq([self.stmt(child) for child in statements])

    def _running(self, kinds: tuple[bool, bool]) -> Any:
        """The condition that no flag which may just have been raised is up."""
        flags = self.loops[-1]
        up = [_raised(flag) for flag, used in zip((flags.broke, flags.skipped), kinds) if used]
        return ir.Not(up[0] if len(up) == 1 else ir.Or(up[0], up[1]))

    def visit_For(self, node: Any) -> Any:
        flags, body = self._body(node)
        if BLOCK_LOOP in node.annotations:  # blocks run in parallel: each has flags of its own
            body = seq(self._allocations(flags), body)
            return ir.For(node.loop_var, node.min, node.extent, node.kind, body, annotations=node.annotations, span=node.span)
        if flags.broke is None:
            kept = {"annotations": node.annotations, "step": node.step, "span": node.span}
            loop = ir.For(node.loop_var, node.min, node.extent, node.kind, body, **kept)
            return seq(self._allocations(flags), loop)
        # Iterations after a break do nothing: a counted loop stays a counted loop.
        guarded = ir.IfThenElse(ir.Not(_raised(flags.broke)), body, None)
        # Unrolled, each copy of the body would test the flag: what unrolling is to save.
        kind = ir.ForKind.SERIAL if node.kind == ir.ForKind.UNROLLED else node.kind
        loop = ir.For(node.loop_var, node.min, node.extent, kind, guarded, step=node.step, span=node.span)
        return seq(self._allocations(flags), loop)

    def visit_While(self, node: Any) -> Any:
        flags, body = self._body(node)
        condition = node.condition
        if flags.broke is not None:
            condition = ir.And(ir.Not(_raised(flags.broke)), condition)
        return seq(self._allocations(flags), ir.While(condition, body, node.span))

    def _body(self, node: Any) -> tuple[_Flags, Any]:
        self.loops.append(_Flags())
        body = self.stmt(node.body)
        flags = self.loops.pop()
        # "skipped" is for one iteration, "broke" for the whole loop.
        return flags, seq(_set(flags.skipped, 0) if flags.skipped is not None else None, body)

    def _allocations(self, flags: _Flags) -> list[Any]:
        used = [flag for flag in (flags.broke, flags.skipped) if flag is not None]
        return [part for flag in used for part in (ir.AllocBuffer(flag), _set(flag, 0))]


def may_exit(statement: Any) -> bool:
    """Whether ``statement`` may break, or continue, the loop around it."""
    return any(_exits_of(statement))


def _exits_of(statement: Any) -> tuple[bool, bool]:
    """Whether ``statement`` may break, or continue, the loop around it (inner loops keep theirs)."""
    if isinstance(statement, ir.Break):
        return True, False
    if isinstance(statement, ir.Continue):
        return False, True
    children: list[Any] = []
    if isinstance(statement, ir.SeqStmt):
        children = list(statement.seq)
    elif isinstance(statement, ir.IfThenElse):
        children = [statement.then_case] + ([] if statement.else_case is None else [statement.else_case])
    elif isinstance(statement, ir.AttrStmt):
        children = [statement.body]
    found = [_exits_of(child) for child in children]
    return any(broke for broke, _ in found), any(skipped for _, skipped in found)
