"""Copies that are one operator: ``T.tma_copy``."""

from __future__ import annotations

from typing import Any

from tilelang.errors import CompileError
from tilelang.target.cuda.ir.code import Code
from tilelang.target.cuda.operators import OperatorRule, implements
from tilelang.tileop.copy import Copy


@implements(Copy)
class BulkCopy(OperatorRule):
    """``T.tma_copy``; every other copy is a nest."""

    collective = False

    def lower(self, node: Any, generator: Any) -> list[Code]:
        if generator.hopper is None:
            raise CompileError("T.tma_copy needs sm_90a", hint="T.copy works everywhere")
        return generator.hopper.bulk_copy(generator, node)
