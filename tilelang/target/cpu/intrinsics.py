"""The scalar intrinsics of :mod:`tilelang.tileop.thread` that mean something on a CPU: one table.

Statements that change a buffer element are rewritten while tiles are lowered
(:data:`~tilelang.target.cpu.lower.STATEMENTS`), expressions while types are legalised (:data:`EXPRESSIONS`, joined with TVM's
mathematical operators).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.target.cpu import rounding
from tilelang.target.cpu.atomic import atomic_load, atomic_store, atomic_update, consecutive_update
from tilelang.target.cpu.lower import STATEMENTS
from tilelang.target.cpu.mathops import OPERATORS, clamp, propagating
from tilelang.tileop.thread import packed_halves


def _dp4a(node: Any) -> Any:
    """``c += a[0] * b[0] + … + a[3] * b[3]``."""
    a, b, c = node.args

    def element(load: Any, lane: int) -> Any:
        *outer, last = load.indices
        return ir.Cast("int32", ir.BufferLoad(load.source, [*outer, last + lane]))

    total = ir.BufferLoad(c.source, list(c.indices))
    for lane in range(4):
        total = total + element(a, lane) * element(b, lane)
    return ir.BufferStore(c.source, total, list(c.indices))


STATEMENTS.update(
    {
        "tl.dp4a": _dp4a,
        "tl.atomic_addx2": lambda node: consecutive_update(2, node),
        "tl.atomic_addx4": lambda node: consecutive_update(4, node),
    }
)


def _reciprocal(legalizer: Any, x: Any) -> Any:
    return ir.FloatImm(x.ty, 1.0) / x


def _plain(build: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    return lambda legalizer, node: build(legalizer, *[legalizer.expr(argument) for argument in node.args])


EXPRESSIONS: dict[str, Callable[[Any, Any], Any]] = {
    **{f"tl.atomic_{op}": atomic_update(op) for op in ("add", "max", "min", "or")},
    "tl.atomic_load": atomic_load,
    "tl.atomic_store": atomic_store,
    "tl.ldg": lambda legalizer, node: legalizer.expr(node.args[0]),
    **{f"tl.fast_{name}": OPERATORS[f"tirx.{name}"] for name in ("exp", "exp10", "log", "log10", "sin", "cos", "tan", "pow")},
    "tl.fast_log2": OPERATORS["prim.log2"],
    "tl.fast_rcp": _plain(_reciprocal),
    "tl.fma": OPERATORS["tirx.fma"],
    "tl.clamp": clamp,
    "tl.pack_b16": lambda legalizer, node: legalizer.expr(packed_halves(node)),
    "tl.max_nan": propagating(operator.lt),
    "tl.min_nan": propagating(operator.gt),
    **{f"tl.ieee_{name}": rounding.operation(name) for name in ("add", "sub", "mul", "div", "rcp", "fma", "sqrt")},
    "tl.ieee_rsqrt": rounding.reciprocal_root,
}  # fmt: skip
"""Intrinsic -> how its value is computed."""

OPERATORS.update(EXPRESSIONS)
