"""``T.fill`` and ``T.clear``: a nest that stores one value."""

from __future__ import annotations

from typing import Any

from tilelang.target.cuda.ir.code import Code
from tilelang.target.cuda.operators import OperatorRule, implements
from tilelang.target.cuda.tile.build import axes_of, store_at, typed
from tilelang.target.cuda.tile.nest import Nest
from tilelang.tileop.copy import Fill


@implements(Fill)
class FillRule(OperatorRule):
    """A fill is element-wise."""

    def read(self, op: Any, span: Any, reader: Any) -> list[Any]:
        axes, offsets = axes_of([op.dst])
        body = store_at(op.dst, offsets, typed(op.value, op.dst.dtype), span)
        return [reader.parallel(Nest.build(axes, body, span, "T.fill"), op)]

    def overwritten(self, op: Any) -> Any:
        return op.dst if op.dst.is_whole else None

    def lower_nest(self, node: Any, generator: Any) -> list[Code]:
        return generator.nest(node, self.overwritten(node.op))
