"""Integer division for LLVM, defined for every operand: by zero quotient and remainder are 0; the least value by -1 wraps around.

The processor's instruction truncates, and traps in both of these cases. Zero is within every bound that is known for a quotient
or remainder of numbers that are not negative, so a guard that was left out because of such a bound stays right.
"""

from __future__ import annotations

from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.target.cpu import helpers

_FUNCTIONS = {ir.FloorDiv: "floordiv", ir.FloorMod: "floormod", ir.Div: "truncdiv", ir.Mod: "truncmod"}
_PLAIN = {ir.FloorDiv: ir.Div, ir.FloorMod: ir.Mod, ir.Div: ir.Div, ir.Mod: ir.Mod}
_NATURAL = {ir.FloorDiv: "naturaldiv", ir.FloorMod: "naturalmod", ir.Div: "naturaldiv", ir.Mod: "naturalmod"}


def divided(node: Any, natural: bool, used: dict[str, None]) -> Any:
    """A division or remainder of integers.

    Args:
        node: FloorDiv, FloorMod, Div or Mod of lowered operands.
        natural: whether neither operand is ever negative.
        used: where the names of helper functions go.
    """
    divisor, kind, dtype = as_int(node.b), type(node), canonical(str(node.ty))
    if isinstance(divisor, int) and divisor > 0:
        if kind in (ir.FloorDiv, ir.FloorMod) and not divisor & (divisor - 1):
            return _shifted(node.a, divisor, kind is ir.FloorDiv)
        # A positive constant divisor: the machine's instruction can neither trap nor round the wrong way.
        if natural or kind in (ir.Div, ir.Mod):
            return _PLAIN[kind](node.a, node.b)
    sign = "u" if dtype.kind == "uint" else "i"
    name = f"tl_{(_NATURAL if natural else _FUNCTIONS)[kind]}_{sign}{dtype.bits}"
    used[name] = None
    return ir.Call(ir.Op.get("tirx.call_pure_extern"), [ir.StringImm(name), node.a, node.b], ret_ty=node.ty)


def _shifted(a: Any, divisor: int, quotient: bool) -> Any:
    """The division by a power of two, which rounds down by itself."""
    return a >> ir.IntImm(a.ty, divisor.bit_length() - 1) if quotient else a & ir.IntImm(a.ty, divisor - 1)


# Of signed numbers, the divisor is replaced by 1 where the machine would stop; then the remainder is 0 as it should be.
_GUARD = """
  %zero = icmp eq {t} %b, 0
  %minus = icmp eq {t} %b, -1
  %special = or i1 %zero, %minus
  %d = select i1 %special, {t} 1, {t} %b
  %negated = sub {t} 0, %a
  %wrapped = select i1 %zero, {t} 0, {t} %negated
  %q = sdiv {t} %a, %d
  %m = srem {t} %a, %d"""
_FLOOR = """
  %some = icmp ne {t} %m, 0
  %x = xor {t} %m, %d
  %other = icmp slt {t} %x, 0
  %up = and i1 %some, %other"""
_BODIES = {
    "truncdiv": _GUARD + "\n  %r = select i1 %special, {t} %wrapped, {t} %q",
    "truncmod": _GUARD + "\n  %r = add {t} %m, 0",
    "floordiv": _GUARD
    + _FLOOR
    + "\n  %c = sext i1 %up to {t}\n  %floor = add {t} %q, %c\n  %r = select i1 %special, {t} %wrapped, {t} %floor",
    "floormod": _GUARD + _FLOOR + "\n  %c = select i1 %up, {t} %d, {t} 0\n  %r = add {t} %m, %c",
    "naturaldiv": "\n  %zero = icmp eq {t} %b, 0\n  %d = select i1 %zero, {t} 1, {t} %b"
    "\n  %q = {s}div {t} %a, %d\n  %r = select i1 %zero, {t} 0, {t} %q",
    "naturalmod": "\n  %zero = icmp eq {t} %b, 0\n  %d = select i1 %zero, {t} 1, {t} %b\n  %r = {s}rem {t} %a, %d",
}

for _name, _body in _BODIES.items():
    for _sign in "iu" if _name.startswith("natural") else "i":
        for _bits in (8, 16, 32, 64):
            _type = f"i{_bits}"
            helpers.register(
                f"tl_{_name}_{_sign}{_bits}",
                f"define {_type} @tl_{_name}_{_sign}{_bits}({_type} %a, {_type} %b) alwaysinline {{"
                f"{_body.format(t=_type, s='s' if _sign == 'i' else 'u')}\n  ret {_type} %r\n}}",
            )
