"""What threads store for each other lies in shared memory: variables and arrays of iterations, and fragments of single threads.

What an iteration of a ``T.Parallel`` leaves in a variable or array is every thread's afterwards: it goes through shared memory,
unless every thread runs all iterations itself.

A fragment is one tile of the block, wherever its elements are kept. One whose elements statements outside of ``T.Parallel`` use
is whole in every thread, which does for stores that all threads run alike. A store below a condition that only some threads meet,
or at an index of the thread's own, as in ``if tx == 0: tile[3] = 1.0``, would change the copies of these threads alone. An atomic
operation takes the address of its element, which registers do not have. Such fragments are shared tiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import tvm_ffi

from tilelang.errors import DivergenceError
from tilelang.ir import nodes as ir
from tilelang.ir.access import READ, UPDATE
from tilelang.ir.memory import SHARED, SHARED_FRAGMENT, is_fragment
from tilelang.ir.span import location_of
from tilelang.ir.visit import children, is_parallel, own_expressions, walk_expr
from tilelang.ir.visit import walk as walk_statements
from tilelang.target.cuda.analysis.groups import homes_of, threads_of
from tilelang.target.cuda.analysis.uniformity import Uniformity
from tilelang.target.cuda.intrinsics.table import is_atomic
from tilelang.target.cuda.normalise.thread_groups import grouped_tree, kernel_tree
from tilelang.target.cuda.tile.program import Kernel
from tilelang.target.cuda.tile.rename import buffer_like
from tilelang.target.cuda.tile.tree import Parallel, Scalar, TileTree, walk
from tilelang.tileop import is_tile_op, record_of
from tilelang.tileop.thread import intrinsic_call
from tilelang.transform.iteration_variables import with_own_variables
from tilelang.transform.substitute import substitute

# Variables of iterations ----------------------------------------------------------------------------------------------


def separate_iterations(kernel: Kernel, target: Any) -> Kernel:
    """The kernel in which each iteration has its own of the variables that its ``T.Parallel`` stores to."""
    body, results = with_own_variables(kernel.body)
    if body is kernel.body:
        return kernel
    shared = {var: buffer_like(var, SHARED) for var in results}
    while True:
        found = replace(kernel, body=substitute(body, shared))
        own = _stored_by_each_thread(found, target) if shared else set()
        if own.isdisjoint(shared.values()):
            return replace(found, body=_stored_by_any(found.body, set(shared.values())))
        shared = {var: buffer for var, buffer in shared.items() if buffer not in own}


def _stored_by_any(body: Any, shared: set[Any]) -> Any:
    """Statements in which iterations may leave different values in the same place: they store atomically."""

    def store(stmt: Any) -> Any:
        if stmt.buffer not in shared or isinstance(stmt.value, ir.IntImm):
            return stmt
        place = ir.BufferLoad(stmt.buffer, list(stmt.indices))
        return ir.Evaluate(intrinsic_call("atomic_store", place, stmt.value, attrs={"memory_order": "relaxed"}), stmt.span)

    return tvm_ffi.structural_map(body, [(ir.BufferStore, store)]) if shared else body


def _stored_by_each_thread(kernel: Kernel, target: Any) -> set[Any]:
    """The buffers that are used by nests whose iterations every thread runs all."""
    tree = kernel_tree(kernel, target)
    uniformity = Uniformity(tree, dict(kernel.threads))
    nests = (node.nest for node in walk(tree.root) if isinstance(node, Parallel))
    return {access.buffer for nest in nests if uniformity.nest_varies(nest) for access in nest.accesses}


# Fragments of single threads ------------------------------------------------------------------------------------------


def share_fragments(kernel: Kernel, target: Any) -> Kernel:
    """The kernel with shared tiles in place of the fragments that single threads store to.

    Raises:
        CompileError: groups of threads use such a fragment side by side, and would meet in the one tile.
    """
    if not (_stores_elements(kernel.body) or any(map(_updates_element, walk_statements(kernel.body)))):
        return kernel
    tree = grouped_tree(kernel, target)
    roots = {tree.root_of(buffer) for buffer in _stored_by_some(tree, Uniformity(tree, dict(kernel.threads)))}
    _check_groups(tree, roots, kernel.thread_count)
    views = [view for view in tree.aliases if tree.root_of(view) in roots]
    shared = {buffer: buffer_like(buffer, SHARED_FRAGMENT) for buffer in (*roots, *views)}
    return replace(kernel, body=substitute(kernel.body, shared)) if shared else kernel


def _check_groups(tree: TileTree, roots: set[Any], count: int) -> None:
    threads = threads_of(tree, range(count)) if roots else {}
    crowded = {buffer for buffer, homes in homes_of(threads, tree.root_of).items() if buffer in roots and len(homes) > 1}
    for node in threads:
        for access in node.accesses if isinstance(node, Scalar) else ():
            if tree.root_of(access.buffer) in crowded and access.kind != READ:
                text = (
                    f"single threads store to fragment {access.buffer.name}, of which several groups of threads have a copy each"
                )
                error = DivergenceError(text, hint="allocate a fragment for each group")
                raise error.at(location_of(node.span))


def _stored_by_some(tree: TileTree, uniformity: Uniformity) -> Iterator[Any]:
    """The fragments with an element that only some threads store, or each thread another one, or that is updated atomically."""
    for node in walk(tree.root):
        for access in node.accesses:
            if access.kind == READ or not is_fragment(access.buffer):
                continue
            if access.kind == UPDATE:
                yield access.buffer
            elif isinstance(node, Scalar) and (node in uniformity.divergent or uniformity.varies(access.site.indices)):
                yield access.buffer


def _updates_element(stmt: Any) -> bool:
    """Whether a statement by itself updates an element of a fragment, or a fragment, atomically."""
    op = record_of(stmt)
    if op is not None:
        return op.is_atomic and any("w" in access and is_fragment(region.buffer) for region, access in op.regions())
    atomic = (part for part in own_expressions(stmt) if isinstance(part, ir.Call) and is_atomic(part))
    return any(is_fragment(call.args[0].source) for call in atomic)


def _stores_elements(stmt: Any) -> bool:
    """Whether a statement outside of ``T.Parallel`` may store to an element of a fragment."""
    if isinstance(stmt, ir.BufferStore):
        return is_fragment(stmt.buffer)
    if isinstance(stmt, ir.Evaluate):
        elements = (part.source for part in walk_expr(stmt.value) if isinstance(part, ir.TensorLoad))
        return not is_tile_op(stmt.value) and any(map(is_fragment, elements))
    return not is_parallel(stmt) and any(map(_stores_elements, children(stmt)))
