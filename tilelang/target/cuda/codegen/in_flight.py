"""Products that warp groups have started and that a later statement waits for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilelang.target.cuda.codegen.emitter import Emitter
from tilelang.target.cuda.hopper import wgmma
from tilelang.target.cuda.hopper.wgmma import IN_FLIGHT
from tilelang.target.cuda.ir.code import Code, leaf
from tilelang.target.cuda.ir.instructions import WaitProducts


class ProductsInFlight:
    """The products of one kernel that have been started, in program order."""

    def __init__(self, emitter: Emitter):
        self.e = emitter
        self._started: list[Any] = []

    def start(self, node: Any) -> None:
        """Notes a product; one that is complete at its end is none of these."""
        if stays_in_flight(node.op):
            self._started.append(node)

    def wait(self, pending: int) -> list[Code]:
        """The program's own wait: the accumulators of the products that are complete then are valid after it.

        With none pending those are all, also the ones that a loop started in its iteration before.
        """
        layouts, scope = self.e.layouts, self.e.scope
        products = [node for node, plan in layouts.products.items() if plan.wgmma is not None and stays_in_flight(node.op)]
        done = products if pending == 0 else self._started[:-pending]
        return [leaf([WaitProducts(pending), *self._pinned(node for node in done if layouts.scopes[node] == scope)])]

    def _pinned(self, nodes: Iterable[Any]) -> list[Any]:
        """What keeps the compiler from reading the accumulators of some products before."""
        found: dict[Any, list[Any]] = {}
        for node in nodes:
            buffer = node.op.c.buffer
            found[buffer] = wgmma.pinned(self.e.layouts.products[node].wgmma, self.e.array(buffer), None)
        return [code for fences in found.values() for code in fences]


def stays_in_flight(op: Any) -> bool:
    """Whether a product is started only; something later waits for it."""
    return op.wg_wait == IN_FLIGHT or op.kind != "gemm"
