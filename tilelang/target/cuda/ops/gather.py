"""Gathers: copies of elements that threads make as the program's ``T.Parallel`` says, asynchronous where they can be."""

from __future__ import annotations

from typing import Any

from tilelang.target.cuda.ir.code import Code
from tilelang.target.cuda.operators import OperatorRule, Transfer, implements
from tilelang.target.cuda.tile.gather import Gather


@implements(Gather)
class GatherRule(OperatorRule):
    """A nest that each thread runs its share of."""

    local = True

    def transfer(self, op: Any) -> Transfer:
        return Transfer(op.src, op.dst, may_run_ahead=True)

    def lower_nest(self, node: Any, generator: Any) -> list[Code]:
        e = generator.emitter
        return generator.nest(node, self.overwritten(node.op), e.options.use_async and node not in e.layouts.per_thread)
