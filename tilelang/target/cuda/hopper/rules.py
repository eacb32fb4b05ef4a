"""What sm_90a adds to the generation of a kernel: rules that the generator asks before its own."""

from __future__ import annotations

from typing import Any

from tilelang.target.cuda.hopper.copies import (
    Descriptors,
    accumulator_fences,
    bulk_store,
    elected_in,
    emit_bulk_copy,
    emit_product,
    stays_in_flight,
)
from tilelang.target.cuda.hopper.stmatrix import emit_matrix_store
from tilelang.target.cuda.ir.code import BranchCode, Code, leaf
from tilelang.target.cuda.ir.instructions import WaitProducts
from tilelang.target.cuda.reading.nest import UPDATE, WRITE
from tilelang.target.cuda.reading.tree import Operator, Parallel, walk
from tilelang.tileop.atomic import AtomicTile
from tilelang.tileop.copy import Copy


class HopperRules:
    """The rules of one kernel.

    Attributes:
        bulk_stores: whether copies to global memory may go by the tensor memory accelerator.
        descriptors: the kernel's tensor maps so far.
    """

    def __init__(self, bulk_stores: bool = True):
        self.bulk_stores = bulk_stores
        self.descriptors = Descriptors()
        self._single = False
        self._read: set[Any] | None = None
        self._started: list[Any] = []

    def single_thread(self, generator: Any, node: Any) -> list[Code]:
        """The statements of one thread of the scope."""
        scope = generator.emitter.scope
        self._single = True
        body = generator.block(node.body)
        self._single = False
        return [BranchCode(elected_in(scope), body, divergent=True, threads=(scope.first, 1))]

    def bulk_copy(self, generator: Any, node: Any) -> list[Code]:
        """``T.tma_copy``."""
        return [emit_bulk_copy(generator.emitter, self.descriptors, node, self._single)]

    def product(self, generator: Any, node: Any) -> list[Code]:
        """A product planned for warp groups."""
        if stays_in_flight(node.op):
            self._started.append(node)
        return [emit_product(generator.emitter, node)]

    def wait(self, generator: Any, pending: int) -> list[Code]:
        """The program's own wait for products: the accumulators of those that are complete then are valid after it.

        With none pending those are all, also the ones that a loop started in its iteration before.
        """
        layouts, scope = generator.emitter.layouts, generator.emitter.scope
        products = [node for node, plan in layouts.products.items() if plan.wgmma is not None and stays_in_flight(node.op)]
        done = products if pending == 0 else self._started[:-pending]
        done = [node for node in done if layouts.scopes[node] == scope]
        return [leaf([WaitProducts(pending), *accumulator_fences(generator.emitter, done)])]

    def copy(self, generator: Any, node: Any) -> list[Code] | None:
        """A copy of accumulators to shared memory by matrices, or a copy or atomic tile to global memory by the accelerator.

        None where each thread moves what it holds.
        """
        op, e = node.op, generator.emitter
        stored = emit_matrix_store(e, op)
        if stored is not None:
            return stored
        if not self.bulk_stores or not isinstance(op, (Copy, AtomicTile)) or getattr(op, "kind", "copy") != "copy":
            return None
        if op.dst.scope not in ("global", "") or not e.is_shared(op.src.buffer):
            return None
        ordered = op.dst.buffer in self._read_tensors(e.tree.root) or e.root(op.dst.buffer) in e.tracked
        leaf = bulk_store(e, self.descriptors, node, ordered)
        return None if leaf is None else [leaf]

    def _read_tensors(self, root: Any) -> set[Any]:
        """Tensors that the kernel reads anywhere: their stores must be visible to all threads, not only complete at its end."""
        if self._read is None:
            self._read = set()
            for node in walk(root):
                if isinstance(node, Parallel):
                    own = (WRITE, UPDATE) if isinstance(node.op, AtomicTile) else (WRITE,)
                    self._read |= {access.buffer for access in node.nest.accesses if access.kind not in own}
                elif isinstance(node, Operator):
                    self._read |= {region.buffer for region, access in node.op.regions() if "r" in access}
        return self._read
