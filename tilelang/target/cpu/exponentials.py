"""Loops over exponentials on AVX-512: sixteen at a time, by the two instructions that no scalar expression becomes.

``vscalefps`` multiplies by two to the power of a *float*, of any size, and makes zero and infinity of what infinities leave over
(a NaN times ``2**-inf`` is 0), so that ``2**x`` needs no bounds and no integer: it is a rounding, a subtraction, a polynomial of
six steps and a scaling. LLVM's scaling takes an integer. So a loop of independent iterations that calls ``exp`` or ``exp2``
becomes one over registers (``vectors.py``) where all of its body has a form in vectors; what is left over at its end, and any
other loop, is made of scalar arithmetic (``elementary.py``), which LLVM vectorises.
"""

from __future__ import annotations

from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.ir.visit import statement_exprs, walk, walk_expr
from tilelang.target.cpu import helpers
from tilelang.target.cpu.elementary import EXP, LN2_HIGH, LN2_LOW, LOG2_E, POWER
from tilelang.target.cpu.emit import seq
from tilelang.target.cpu.lower import INDEPENDENT
from tilelang.target.cpu.vectors import WIDE, in_registers
from tilelang.transform.substitute import substitute

_LANES = 16
_KIND = f"<{_LANES} x float>"
_CALLS = ("tirx.exp", "tirx.exp2")


def loop_in_registers(node: Any, legalizer: Any) -> Any | None:
    """The legal form of a loop with exponentials, a register at a time; None for any other loop.

    Args:
        node: the loop.
        legalizer: legalises statements.
    """
    low, extent = as_int(node.min), as_int(node.extent)
    wide = INDEPENDENT in node.annotations and legalizer.context.vectors.bits == 512 and not legalizer.context.emits_c
    if not wide or low != 0 or not isinstance(extent, int) or extent < _LANES or not _has_exponentials(node.body):
        return None
    legalizer.wide_calls = WIDE
    body = legalizer.stmt(node.body)
    legalizer.wide_calls = {}
    done = extent // _LANES * _LANES
    registers = in_registers(ir.For(node.loop_var, node.min, constant(done), node.kind, body, span=node.span), _LANES)
    if registers is None:
        return None
    legalizer.helpers.update(dict.fromkeys(WIDE.values()))
    rest = ir.Var(node.loop_var.name, node.loop_var.ty)
    end = ir.For(rest, constant(0), constant(extent - done), node.kind, substitute(node.body, {node.loop_var: rest + done}))
    return seq(registers, legalizer.stmt(end) if extent > done else None)


def _has_exponentials(body: Any) -> bool:
    """Whether straight-line code calls an exponential function."""
    statements = list(walk(body))
    if any(isinstance(stmt, (ir.For, ir.While)) for stmt in statements):
        return False
    nodes = (node for stmt in statements for expr in statement_exprs(stmt) for node in walk_expr(expr))
    return any(map(is_exponential, nodes))


def is_exponential(node: Any) -> bool:
    """Whether an expression is a call of ``exp`` or ``exp2``."""
    return isinstance(node, ir.Call) and isinstance(node.op, ir.Op) and node.op.name in _CALLS


def _splat(value: float) -> str:
    return helpers.llvm_floats(value, _LANES)


def _fma(result: str, a: str, b: str, c: str) -> str:
    return f"  {result} = call {_KIND} @llvm.fma.v{_LANES}f32({_KIND} {a}, {_KIND} {b}, {_KIND} {c})"


def _polynomial(result: str, x: str, coefficients: tuple[float, ...]) -> list[str]:
    """Lines for the polynomial with the highest coefficient first."""
    lines, value = [], _splat(coefficients[0])
    for step, coefficient in enumerate(coefficients[1:], start=1):
        name = result if step == len(coefficients) - 1 else f"{result}{step}"
        lines.append(_fma(name, value, x, _splat(coefficient)))
        value = name
    return lines


def _bound(result: str, x: str, compare: str, limit: float) -> list[str]:
    """Lines for the smaller or larger of a value and a constant, which keep a NaN."""
    return [
        f"  {result}.is = fcmp {compare} {_KIND} {x}, {_splat(limit)}",
        f"  {result} = select <{_LANES} x i1> {result}.is, {_KIND} {_splat(limit)}, {_KIND} {x}",
    ]


def _function(name: str, lines: list[str]) -> str:
    """A function of ``%x`` from the lines that compute ``%p``, of the remainder, and ``%n``, the power of two."""
    scale = "@llvm.x86.avx512.mask.scalef.ps.512"
    return "\n".join(
        [
            f"declare {_KIND} @llvm.roundeven.v{_LANES}f32({_KIND})",
            f"declare {_KIND} @llvm.fma.v{_LANES}f32({_KIND}, {_KIND}, {_KIND})",
            f"declare {_KIND} {scale}({_KIND}, {_KIND}, {_KIND}, i16, i32)",
            f"define {_KIND} @{name}({_KIND} %x) alwaysinline {{",
            *lines,
            f"  %y = call {_KIND} {scale}({_KIND} %p, {_KIND} %n, {_KIND} zeroinitializer, i16 -1, i32 4)",
            f"  ret {_KIND} %y",
            "}",
        ]
    )


def _rounded(x: str) -> str:
    return f"  %n = call {_KIND} @llvm.roundeven.v{_LANES}f32({_KIND} {x})"


def _exp2() -> list[str]:
    return [_rounded("%x"), f"  %r = fsub {_KIND} %x, %n", *_polynomial("%p", "%r", POWER)]


def _exp() -> list[str]:
    """``n`` times the logarithm of two is subtracted in two parts; arguments are bounded, so that it is exact."""
    return [
        *_bound("%below", "%x", "ogt", 89.0),
        *_bound("%b", "%below", "olt", -104.0),
        f"  %m = fmul {_KIND} %b, {_splat(LOG2_E)}",
        _rounded("%m"),
        _fma("%r1", "%n", _splat(-LN2_HIGH), "%b"),
        _fma("%r", "%n", _splat(-LN2_LOW), "%r1"),
        *_polynomial("%q", "%r", EXP),
        f"  %qr = fmul {_KIND} %q, %r",
        _fma("%s", "%qr", "%r", "%r"),
        f"  %p = fadd {_KIND} %s, {_splat(1.0)}",
    ]


helpers.register("tl_exp_16", _function("tl_exp_16", _exp()))
helpers.register("tl_exp2_16", _function("tl_exp2_16", _exp2()))
