"""Tile operators: one file a family, named like the operator's in :mod:`tilelang.tileop`."""

from __future__ import annotations

from typing import Any

from tilelang.errors import UnsupportedError
from tilelang.interpreter.compiler import Compiler, Step
from tilelang.interpreter.operators import atomic, copy, debug, gemm, hint, reduce, warp_group  # noqa: F401  (each registers its rules)
from tilelang.interpreter.operators.table import RULES
from tilelang.interpreter.state import Lanes
from tilelang.tileop.base import decode


def step(c: Compiler, call: Any, span: Any) -> Step:
    """The step of a tile operator's call.

    Args:
        c: the compiler.
        call: the call, which holds the operator's record.
        span: of the statement.

    Raises:
        UnsupportedError: no rule knows it.
    """
    record = decode(call)
    if type(record) not in RULES:
        raise UnsupportedError(f"the interpreter does not know the tile operator {record.op_name}")
    effect = RULES[type(record)](c, record)

    def run(x: Lanes) -> bool:
        x.begin(span)
        effect(x)
        x.synchronise()
        return False

    return Step(run)
