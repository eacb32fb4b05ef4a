"""Local arrays in nests: an array of ``T.alloc_local`` is each thread's own, while the iterations of a nest are shared out.

What a nest stores at an index that its axes move is there for all that follows only where the threads agree on who has what:

* an array that a nest fills for its own iterations alone is scratch, and stays as it is;
* an array that nests alone use, and that holds the same in every thread, is a fragment: :func:`as_fragments`;
* any other is filled whole by every thread, which then runs all iterations: :func:`private_nests`. Where the values differ
  between threads, as in ``T.copy(A[tx * 8 : tx * 8 + 8], local)``, the nest is the thread's *own*, its stores to memory included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.visit import statement_exprs, walk_expr
from tilelang.ir.visit import walk as walk_statements
from tilelang.target.cuda.nest import READ, Nest, mentions
from tilelang.target.cuda.program import Kernel
from tilelang.target.cuda.staging import accesses_of
from tilelang.target.cuda.tree import (
    FRAGMENT,
    Branch,
    Loop,
    Operator,
    Parallel,
    Repeat,
    Scalar,
    Scope,
    TileTree,
    inside,
    read_tree,
    walk,
)  # fmt: skip
from tilelang.tileop.thread import INTRINSICS, intrinsic_name
from tilelang.transform.substitute import substitute

ARRAY = "local"


def as_fragments(kernel: Kernel) -> Kernel:
    """The kernel with those of its local arrays as fragments that only nests use, alike in all threads."""
    if not any(isinstance(stmt, ir.AllocBuffer) and stmt.buffer.scope() == ARRAY for stmt in walk_statements(kernel.body)):
        return kernel
    found = _Arrays(read_tree(kernel.body), [var for var, _ in kernel.threads]).distributed()
    values = {buffer: _fragment_like(buffer) for buffer in found}
    return replace(kernel, body=substitute(kernel.body, values)) if values else kernel


def _fragment_like(buffer: Any) -> Any:
    return ir.decl_buffer(list(buffer.shape), str(buffer.dtype), buffer.name, scope=FRAGMENT, layout=None)


def private_nests(tree: TileTree, thread_vars: Iterable[Any]) -> dict[Parallel, bool]:
    """The nests of which every thread runs all iterations, and whether they are its own."""
    if not any(buffer.scope() == ARRAY for buffer in tree.allocations):
        return {}
    return _Arrays(tree, thread_vars).private()


class _Arrays:
    """Who fills and who reads the local arrays of a kernel.

    Attributes:
        nests: every nest, with whether all threads of the block run it.
        others: every other node.
        different: variables, arrays and scalars that may differ between threads.
        moving: the variables and scalars of a nest that its axes move.
    """

    def __init__(self, tree: TileTree, thread_vars: Iterable[Any]):
        self.tree = tree
        nodes = list(walk(tree.root))
        self.nests: dict[Parallel, bool] = {node: True for node in nodes if isinstance(node, Parallel)}
        self.others = [node for node in nodes if isinstance(node, (Scalar, Operator, Branch, Loop, Repeat))]
        self.moving = {node: _moved(node.nest) for node in self.nests}
        self.different: set[Any] = set(thread_vars)
        before = -1
        while before != len(self.different):
            before = len(self.different)
            self._visit(tree.root, False)

    # Values that differ between threads --------------------------------------------------------------------------------

    def _visit(self, node: Any, divergent: bool) -> None:
        """Adds to what differs what a node stores; ``divergent`` where only some threads run it."""
        if isinstance(node, Parallel):
            self._visit_nest(node, divergent)
        elif isinstance(node, Scalar):
            self._visit_scalar(node.stmt, divergent)
        elif isinstance(node, Operator):
            self.different.update(buffer for buffer in _operands(node) if self._is_local(buffer))
        elif isinstance(node, Scope):
            divergent = divergent or node.threads is not None
        elif isinstance(node, (Branch, Loop, Repeat)):
            divergent = divergent or self._names_thread(statement_exprs(node.stmt))
            if divergent and isinstance(node, Loop):
                self.different.add(node.stmt.loop_var)
        for child in inside(node):
            self._visit(child, divergent)

    def _visit_nest(self, node: Parallel, divergent: bool) -> None:
        self.nests[node] &= not divergent
        divergent = divergent or self._names_thread(_exprs(node.nest.body))
        for access in node.nest.accesses:
            moves = self._moves(node, access)
            if access.kind != READ and self._is_local(access.buffer) and (divergent or not moves):
                self.different.add(self.tree.root_of(access.buffer))

    def _visit_scalar(self, stmt: Any, divergent: bool) -> None:
        differs = divergent or self._names_thread(_exprs(stmt))
        if isinstance(stmt, ir.Bind) and differs:
            self.different.add(stmt.var)
        elif isinstance(stmt, ir.BufferStore) and differs and self._is_local(stmt.buffer):
            self.different.add(self.tree.root_of(stmt.buffer))
        elif isinstance(stmt, ir.Evaluate):  # foreign code and instructions may store to what they are given
            mentioned = [var for var in walk_expr(stmt.value) if isinstance(var, ir.Var)]
            self.different.update(self.tree.root_of(var) for var in mentioned if self._is_local(var))

    def _names_thread(self, exprs: Iterable[Any], arrays: bool = True) -> bool:
        """Whether a value may differ between threads; without ``arrays``, for another reason than that local memory does."""
        return any(
            self.tree.root_of(part) in self.different and (arrays or not self._is_local(part))
            if isinstance(part, ir.Var)
            else intrinsic_name(part) is not None and INTRINSICS[intrinsic_name(part)].threads
            for expr in exprs
            for part in walk_expr(expr)
        )

    def _moves(self, node: Parallel, access: Any) -> bool:
        return any(mentions(index, self.moving[node]) for index in access.indices)

    @staticmethod
    def _is_local(var: Any) -> bool:
        return ir.is_buffer_var(var) and var.scope() in (ARRAY, "local.var")

    # Arrays ------------------------------------------------------------------------------------------------------------

    @cached_property
    def scratch(self) -> set[Any]:
        """Arrays of which nests read only what the same iteration has stored, and nothing else reads any."""
        found = {buffer for buffer in self.tree.allocations if buffer.scope() == ARRAY}
        found -= {self.tree.root_of(view) for view in self.tree.aliases}
        for node in self.others:
            found -= _read_by(node)
        for node in self.nests:
            found -= {access.buffer for access in node.nest.accesses if not _stored_before(node.nest, access)}
        return found

    def _moving_accesses(self, node: Parallel) -> list[Any]:
        """Accesses of arrays, scratch aside, at an index that the nest's axes move."""
        arrays = (a for a in node.nest.accesses if a.buffer.scope() == ARRAY and a.buffer not in self.scratch)
        return [access for access in arrays if self._moves(node, access)]

    def distributed(self) -> list[Any]:
        """Arrays that are fragments: the iterations of a ``T.Parallel`` fill them, and nests of all threads alone use them."""
        filled = {
            access.buffer
            for node in self.nests
            if node.op is None
            for access in self._moving_accesses(node)
            if access.kind != READ
        }
        for view, source in self.tree.aliases.items():
            filled -= {view, source}
        for node in self.others:
            filled -= _read_by(node) | {access.buffer for access in accesses_of(node)}
        for node, together in self.nests.items():
            filled -= set() if together else {access.buffer for access in node.nest.accesses}
        return [buffer for buffer in self.tree.allocations if buffer in filled - self.different]

    def private(self) -> dict[Parallel, bool]:
        """See :func:`private_nests`."""
        found = {}
        for node in self.nests:
            exprs = list(_exprs(node.nest.body))
            speaks = node.op is not None or self._names_thread(exprs, arrays=False)
            for access in self._moving_accesses(node):
                if access.kind != READ or (speaks and self.tree.root_of(access.buffer) in self.different):
                    found[node] = self._names_thread(exprs)
        return found


def _moved(nest: Nest) -> set[Any]:
    """The variables of a nest's body, and the local scalars, that follow its axes."""
    found = {axis.var for axis in nest.axes if axis.extent != 1}
    for stmt in walk_statements(nest.body):
        target = None
        if isinstance(stmt, ir.Bind):
            target = stmt.var
        elif isinstance(stmt, ir.For):
            target = stmt.loop_var
        elif isinstance(stmt, ir.BufferStore) and stmt.buffer.scope() == "local.var":
            target = stmt.buffer
        if target is not None and any(mentions(expr, found) for expr in statement_exprs(stmt)):
            found.add(target)
    return found


def _operands(node: Operator) -> set[Any]:
    return {region.buffer for region, _ in node.op.regions()} if hasattr(node.op, "regions") else set()


def _read_by(node: Any) -> set[Any]:
    """Buffers that a node outside of nests may read."""
    if isinstance(node, Operator):
        return _operands(node)
    if isinstance(node, Scalar) and isinstance(node.stmt, ir.BufferStore):
        return {access.buffer for access in accesses_of(node) if access.kind == READ}
    return {part for expr in statement_exprs(node.stmt) for part in walk_expr(expr) if isinstance(part, ir.Var)}


def _stored_before(nest: Nest, access: Any) -> bool:
    """Whether an access is no read, or reads what the iteration has stored."""
    if access.kind != READ:
        return True
    stores = [a for a in nest.accesses if a.buffer is access.buffer or a.buffer.same_as(access.buffer)]
    return any(
        earlier.kind != READ and earlier.step < access.step and (earlier.inner and access.inner or _alike(earlier, access))
        for earlier in stores
    )


def _alike(a: Any, b: Any) -> bool:
    return all(tvm_ffi.structural_equal(left, right) for left, right in zip(a.indices, b.indices))


def _exprs(stmt: Any) -> Iterator[Any]:
    """Every expression that a statement and those inside it evaluate, without the places that they store to."""
    for each in walk_statements(stmt):
        yield from (*each.indices, each.value) if isinstance(each, ir.BufferStore) else statement_exprs(each)
