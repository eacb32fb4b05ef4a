"""Local arrays in nests: an array of ``T.alloc_local`` is each thread's own, while the iterations of a nest are shared out.

What a nest stores at an index that its axes move is there for all that follows only where the threads agree on who has what:

* an array that a nest fills for its own iterations alone is scratch, and stays as it is;
* an array that nests alone use, and that holds the same in every thread, is a fragment: :func:`as_fragments`;
* any other is filled whole by every thread, which then runs all iterations: :func:`private_nests`. Where the values differ
  between threads, as in ``T.copy(A[tx * 8 : tx * 8 + 8], local)``, the nest is the thread's *own*, its stores to memory included.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.access import READ
from tilelang.ir.memory import FRAGMENT, is_array
from tilelang.ir.visit import walk as walk_statements
from tilelang.target.cuda.analysis.uniformity import Uniformity, read_by, scratch_of
from tilelang.target.cuda.tile.program import Kernel
from tilelang.target.cuda.tile.tree import Branch, Loop, Operator, Parallel, Repeat, Scalar, accesses_of, read_tree, walk
from tilelang.transform.substitute import substitute


def as_fragments(kernel: Kernel) -> Kernel:
    """The kernel with those of its local arrays as fragments that only nests use, alike in all threads."""
    if not any(isinstance(stmt, ir.AllocBuffer) and is_array(stmt.buffer) for stmt in walk_statements(kernel.body)):
        return kernel
    found = _Arrays(Uniformity(read_tree(kernel.body), dict(kernel.threads))).distributed()
    values = {b: ir.decl_buffer(list(b.shape), str(b.dtype), b.name, scope=FRAGMENT, layout=None) for b in found}
    return replace(kernel, body=substitute(kernel.body, values)) if values else kernel


def private_nests(uniformity: Uniformity) -> dict[Parallel, bool]:
    """The nests whose iterations every thread runs all, and whether their values differ between threads."""
    return _Arrays(uniformity).private()


class _Arrays:
    """Who fills and who reads the local arrays of a kernel.

    Attributes:
        nests: every nest.
        others: every other node.
        uniformity: what the threads agree on.
        scratch: arrays that an iteration uses for itself.
    """

    def __init__(self, uniformity: Uniformity):
        self.tree = tree = uniformity.tree
        nodes = list(walk(tree.root))
        self.nests = [node for node in nodes if isinstance(node, Parallel)]
        self.others = [node for node in nodes if isinstance(node, (Scalar, Operator, Branch, Loop, Repeat))]
        self.uniformity = uniformity
        self.scratch = scratch_of(tree, is_array)

    # Arrays ------------------------------------------------------------------------------------------------------------

    def _moving_accesses(self, node: Parallel) -> list[Any]:
        """Accesses of arrays, except scratch, at an index that depends on the nest's axes."""
        arrays = (a for a in node.nest.accesses if is_array(a.buffer) and a.buffer not in self.scratch)
        return [access for access in arrays if self.uniformity.moves(node, access)]

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
            filled -= read_by(node) | {access.buffer for access in accesses_of(node)}
        for node in self.nests:
            filled -= {access.buffer for access in node.nest.accesses} if node in self.uniformity.partial else set()
        return [buffer for buffer in self.tree.allocations if buffer in filled - self.uniformity.varying]

    def private(self) -> dict[Parallel, bool]:
        """See :func:`private_nests`."""
        found = {}
        for node in self.nests:
            varies = self.uniformity.nest_varies(node.nest)
            if varies or any(access.kind != READ for access in self._moving_accesses(node)):
                found[node] = varies
        return found
