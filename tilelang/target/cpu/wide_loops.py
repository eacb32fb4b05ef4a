"""Loops over elementary functions on AVX-512: sixteen iterations at a time.

A loop of independent iterations that calls one of ``wide_functions.py`` becomes one over registers (``vectors.py``) where all of
its body has a form in vectors; what is left over at its end, and any other loop, is made of scalar arithmetic
(``elementary.py``), which LLVM vectorises.
"""

from __future__ import annotations

from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.ir.visit import own_expressions, walk
from tilelang.target.cpu.emit import seq
from tilelang.target.cpu.lower import INDEPENDENT
from tilelang.target.cpu.vectors import WIDE, in_registers, wide_names
from tilelang.target.cpu.wide_functions import LANES
from tilelang.transform.substitute import substitute

_EXPONENTIALS = ("tirx.exp", "tirx.exp2")
_CALLS = (*_EXPONENTIALS, "tirx.erf")


def loop_in_registers(node: Any, legalizer: Any) -> Any | None:
    """The legal form of a loop with elementary functions, a register at a time; None for any other loop.

    Args:
        node: the loop.
        legalizer: legalises statements.
    """
    low, extent = as_int(node.min), as_int(node.extent)
    wide = INDEPENDENT in node.annotations and legalizer.context.vectors.bits == 512 and not legalizer.context.emits_c
    if not wide or low != 0 or not isinstance(extent, int) or extent < LANES or not _calls_functions(node.body):
        return None
    legalizer.wide_calls = WIDE
    body = legalizer.stmt(node.body)
    legalizer.wide_calls = {}
    done = extent // LANES * LANES
    registers = in_registers(ir.For(node.loop_var, node.min, constant(done), node.kind, body, span=node.span), LANES)
    if registers is None:
        return None
    legalizer.helpers.update(dict.fromkeys(wide_names(registers)))
    rest = ir.Var(node.loop_var.name, node.loop_var.ty)
    end = ir.For(rest, constant(0), constant(extent - done), node.kind, substitute(node.body, {node.loop_var: rest + done}))
    return seq(registers, legalizer.stmt(end) if extent > done else None)


def _calls_functions(body: Any) -> bool:
    """Whether straight-line code calls a function that has a form for registers."""
    statements = list(walk(body))
    if any(isinstance(stmt, (ir.For, ir.While)) for stmt in statements):
        return False
    return any(_calls(part, _CALLS) for stmt in statements for part in own_expressions(stmt))


def is_exponential(node: Any) -> bool:
    """Whether an expression is a call of ``exp`` or ``exp2``."""
    return _calls(node, _EXPONENTIALS)


def _calls(node: Any, names: tuple[str, ...]) -> bool:
    return isinstance(node, ir.Call) and isinstance(node.op, ir.Op) and node.op.name in names
