"""Texts of the IR: the canonical one of a program, and how sizes and regions are written in messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilelang.ir import nodes as ir

_INFIX = {
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "FloorDiv": "//",
    "FloorMod": "%",
    "Div": "/",
    "Mod": "%",
    "LT": "<",
    "LE": "<=",
    "GT": ">",
    "GE": ">=",
    "EQ": "==",
    "NE": "!=",
    "And": "and",
    "Or": "or",
}


def program_text(func: Any) -> str:
    """TVM's script of ``func``, from which its kernel key is made and which ``program.txt`` shows.

    It is the same in every process, and has no spans, so a program that moves to another line keeps its key. What the printer has
    no short form for, such as strings of several lines, is in the metadata after the program.
    """
    return func.script(show_meta=True)


def expr_text(expr: Any) -> str:
    """``expr`` as the user would write it; TVM's own printer warns about variables that the expression does not define."""
    if isinstance(expr, (ir.IntImm, ir.FloatImm)):
        return str(expr.value)
    if isinstance(expr, ir.Var):
        return str(expr.name)
    name = type(expr).__name__
    if name in _INFIX:
        return f"({expr_text(expr.a)} {_INFIX[name]} {expr_text(expr.b)})"
    if name == "Not":
        return f"(not {expr_text(expr.a)})"
    if name in ("Max", "Min"):
        return f"{name.lower()}({expr_text(expr.a)}, {expr_text(expr.b)})"
    if isinstance(expr, ir.TensorLoad):
        return f"{expr.source.name}[{', '.join(map(expr_text, expr.indices))}]"
    if isinstance(expr, ir.Cast):
        return f"{expr.ty}({expr_text(expr.value)})"
    return str(expr) if isinstance(expr, (int, float, str)) else f"<{name}>"


def condition_text(expr: Any) -> str:
    """A condition as the user would write it, without parentheses around it."""
    text = expr_text(expr)
    return text[1:-1] if isinstance(expr, ir.Not) or type(expr).__name__ in _INFIX else text


def unmet_text(assume: Any, part: Any) -> str:
    """What is wrong where a part of what a ``T.assume``, or an ``assert`` before a kernel, says does not hold.

    Args:
        assume: the call; that of an ``assert`` has a text besides the condition.
        part: of the condition.
    """
    if len(assume.args) == 1:
        return f"T.assume({condition_text(part)}) does not hold"
    return f"{assume.args[1].value}: {condition_text(part)} does not hold".removeprefix(": ")


def shape_text(extents: Iterable[Any]) -> str:
    """``(128, m)``, ``(m,)``."""
    parts = [expr_text(extent) for extent in extents]
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
