"""Remainders by powers of two, in a form that LLVM's loop vectoriser does not misread.

LLVM 22 reads ``(i + 2) & 63`` as the six-bit number ``i + 2``, and its loop vectoriser assumes, without a check at run time, that
this never wraps around: loads and stores leave the row. So the mask, or the width of a narrowing cast, is hidden from LLVM, which
then uses gathers.
"""

from __future__ import annotations

from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.interval import Interval, interval_of
from tilelang.ir.visit import walk_expr
from tilelang.target.cpu import helpers


def low_bits(value: Any, mask: int, used: dict[str, None]) -> Any:
    """``value & mask``, where ``mask`` is a power of two less one; ``used`` gets the names of helper functions.

    Args:
        value: an integer.
        mask: a power of two less one.
        used: where the names of helper functions go.
    """
    dtype = canonical(str(value.ty))
    if dtype.lanes > 1:
        return value & ir.IntImm(value.ty, mask)
    name = f"tl_low_bits_i{dtype.bits}"
    used[name] = None
    arguments = [ir.StringImm(name), value, ir.IntImm(value.ty, mask)]
    return ir.Call(ir.Op.get("tirx.call_pure_extern"), arguments, ret_ty=value.ty)


def is_low_mask(value: Any) -> bool:
    """Whether an operand is a constant power of two less one."""
    number = as_int(value)
    return isinstance(number, int) and number > 0 and not number & (number + 1)


def stays_below(value: Any, bound: int, ranges: dict[Any, Interval]) -> bool:
    """Whether an integer is certainly one of the numbers from 0 to ``bound`` - 1.

    Args:
        value: an integer expression.
        bound: exclusive.
        ranges: intervals of the variables.
    """
    low, high = interval_of(value, ranges)
    return low is not None and high is not None and 0 <= low and high < bound


def narrowed(node: Any, value: Any, used: dict[str, None]) -> Any:
    """A cast of an integer that is computed (of one that is loaded nothing is known anyway) to a narrower integer.

    Args:
        node: the cast.
        value: its operand, legalised.
        used: where the names of helper functions go.
    """
    source, target = canonical(str(value.ty)), canonical(str(node.ty))
    computed = source.is_integer and target.is_integer and 1 < target.bits < source.bits and source.lanes == 1
    if computed and not any(isinstance(part, ir.TensorLoad) for part in walk_expr(node.value)):
        value = low_bits(value, (1 << target.bits) - 1, used)
    return ir.Cast(node.ty, value)


for _bits in (8, 16, 32, 64):
    _type = f"i{_bits}"
    helpers.register(
        f"tl_low_bits_{_type}",
        f"define {_type} @tl_low_bits_{_type}({_type} %a, {_type} %mask) alwaysinline {{\n"
        # An empty assembly text that returns its operand: it costs no instruction, and LLVM knows nothing of its result.
        f'  %hidden = call {_type} asm "", "=r,0"({_type} %mask) nounwind memory(none)\n'
        f"  %r = and {_type} %a, %hidden\n  ret {_type} %r\n}}",
    )
