"""Operators that have been started and that a later statement waits for: products of warp groups."""

from __future__ import annotations

from typing import Any

from tilelang.target.cuda.codegen.emitter import Emitter
from tilelang.target.cuda.ir.code import Code, leaf
from tilelang.target.cuda.ir.instructions import WaitProducts
from tilelang.target.cuda.operators import rule_of


class InFlight:
    """The asynchronous operators of one kernel that have been started, in program order."""

    def __init__(self, emitter: Emitter):
        self.e = emitter
        self._started: list[Any] = []

    def start(self, node: Any) -> None:
        """Notes an operator; one that is complete at its end is none of these."""
        if rule_of(node.op).is_asynchronous(node.op):
            self._started.append(node)

    def wait(self, pending: int) -> list[Code]:
        """The program's own wait: the results of the operators that are complete then are valid after it.

        With none pending those are all, also the ones that a loop started in its iteration before.
        """
        layouts, pins = self.e.layouts, {}
        every = (node for node in layouts.plans if rule_of(node.op).is_asynchronous(node.op))
        for node in self._started[:-pending] if pending else every:
            if layouts.scopes[node] == self.e.scope:
                results = tuple(region.buffer for region, access in node.op.regions() if "w" in access)
                pins[results] = rule_of(node.op).pinned(node, self.e)
        return [leaf([WaitProducts(pending), *(code for pinned in pins.values() for code in pinned)])]
