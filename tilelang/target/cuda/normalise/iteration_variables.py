"""Variables and arrays that iterations of a ``T.Parallel`` store to, where threads share the iterations out.

What an iteration leaves in one is every thread's afterwards: it goes through shared memory, unless every thread runs all
iterations itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.memory import SHARED
from tilelang.target.cuda.analysis.uniformity import Uniformity
from tilelang.target.cuda.normalise.thread_groups import kernel_tree
from tilelang.target.cuda.tile.program import Kernel
from tilelang.target.cuda.tile.rename import buffer_like
from tilelang.target.cuda.tile.tree import Parallel, walk
from tilelang.tileop.thread import intrinsic_call
from tilelang.transform.iteration_variables import with_own_variables
from tilelang.transform.substitute import substitute


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
