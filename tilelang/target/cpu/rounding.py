"""``T.ieee_*``: one operation, rounded as asked, that nothing contracts or approximates.

Each is a helper function. For the directed modes it sets the processor's rounding mode around the operation; volatile accesses
keep a compiler from moving the operation out of there. Overflow, underflow and subnormal results are then the processor's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.target.cpu import helpers

_MODES = {
    # mode -> the number of LLVM's llvm.set.rounding, the name in C; None: the mode that is always set
    "rn": None,
    "rz": (0, "FE_TOWARDZERO"),
    "ru": (2, "FE_UPWARD"),
    "rd": (3, "FE_DOWNWARD"),
}
_OPERATIONS = {
    # operation -> operands, LLVM instruction over %0 %1 %2, C expression; {t} is the type, {s} the suffix of its functions
    "add": (2, "fadd {t} %0, %1", "x0 + x1"),
    "sub": (2, "fsub {t} %0, %1", "x0 - x1"),
    "mul": (2, "fmul {t} %0, %1", "x0 * x1"),
    "div": (2, "fdiv {t} %0, %1", "x0 / x1"),
    "rcp": (1, "fdiv {t} 1.0, %0", "1 / x0"),
    "sqrt": (1, "call {t} @llvm.sqrt.{s}({t} %0)", "sqrt{c}(x0)"),
    "fma": (3, "call {t} @llvm.fma.{s}({t} %0, {t} %1, {t} %2)", "fma{c}(x0, x1, x2)"),
}
_TYPES = {"float32": ("float", "f32", "f"), "float64": ("double", "f64", "")}
"""Type -> its name in LLVM and C, the suffix of LLVM's intrinsics, the suffix of C's functions."""


def operation(name: str) -> Callable[[Any, Any], Any]:
    """The legalisation of ``tl.ieee_<name>``."""

    def entry(legalizer: Any, node: Any) -> Any:
        mode = str(node.attrs["rounding"]) if node.attrs is not None and "rounding" in node.attrs else "rn"
        dtype = str(node.ty)
        return legalizer.helper(_name(name, mode, dtype), [legalizer.expr(argument) for argument in node.args], dtype, pure=True)

    return entry


def reciprocal_root(legalizer: Any, node: Any) -> Any:
    """``1 / sqrt(x)`` to nearest: of a float32 by way of float64, whose two roundings are far finer."""
    x = legalizer.expr(node.args[0])
    wide = x if str(x.ty) == "float64" else ir.Cast("float64", x)
    root = ir.Div(ir.FloatImm("float64", 1.0), ir.Call(ir.Op.get("tirx.sqrt"), [wide], ret_ty="float64"))
    return root if str(x.ty) == "float64" else ir.Cast(str(x.ty), root)


def _name(operation: str, mode: str, dtype: str) -> str:
    return f"tl_ieee_{operation}_{mode}_{dtype}"


def _llvm(operation: str, mode: str, dtype: str) -> str:
    count, instruction, _ = _OPERATIONS[operation]
    kind, suffix, _ = _TYPES[dtype]
    instruction = instruction.format(t=kind, s=suffix)
    for position in range(count):
        instruction = instruction.replace(f"%{position}", f"%x{position}")
    parameters = ", ".join(f"{kind} %a{position}" for position in range(count))
    declared = f"declare {kind} @llvm.{operation}.{suffix}({', '.join([kind] * count)})\n" if "@llvm" in instruction else ""
    head = f"define {kind} @{_name(operation, mode, dtype)}({parameters}) alwaysinline {{\n"
    if _MODES[mode] is None:  # inlined, so fences keep the instruction selector from contracting it with its neighbours
        fence = f"call {kind} @llvm.arithmetic.fence.{suffix}({kind}"
        lines = [*(f"  %x{i} = {fence} %a{i})" for i in range(count)), f"  %y = {instruction}", f"  %r = {fence} %y)"]
        declared += f"declare {kind} @llvm.arithmetic.fence.{suffix}({kind})\n"
        return declared + head + "\n".join(lines) + f"\n  ret {kind} %r\n}}"
    number, _ = _MODES[mode]
    lines = [f"  %p{i} = alloca {kind}\n  store {kind} %a{i}, ptr %p{i}" for i in range(count)]
    lines += [f"  %p = alloca {kind}", "  %old = call i32 @llvm.get.rounding()", f"  call void @llvm.set.rounding(i32 {number})"]
    lines += [f"  %x{i} = load volatile {kind}, ptr %p{i}" for i in range(count)]
    lines += [f"  %y = {instruction}", f"  store volatile {kind} %y, ptr %p", "  call void @llvm.set.rounding(i32 %old)"]
    lines += [f"  %r = load {kind}, ptr %p", f"  ret {kind} %r", "}"]
    declared += "declare i32 @llvm.get.rounding()\ndeclare void @llvm.set.rounding(i32)\n"
    # A function of its own: inlined, other arithmetic could be moved between the two changes of the mode.
    return declared + head.replace("alwaysinline", "noinline") + "\n".join(lines)


def _c(operation: str, mode: str, dtype: str) -> str:
    count, _, expression = _OPERATIONS[operation]
    kind, _, suffix = _TYPES[dtype]
    expression = expression.format(c=suffix)
    parameters = ", ".join(f"{kind} a{position}" for position in range(count))
    operands = " ".join(f"volatile {kind} x{position} = a{position};" for position in range(count))
    head = f"static __attribute__((noinline)) {kind} {_name(operation, mode, dtype)}({parameters}) {{\n  {operands}\n"
    if _MODES[mode] is None:
        return f"{head}  return {expression};\n}}"
    _, name = _MODES[mode]
    return (
        f"#include <fenv.h>\n{head}  const int old = fegetround();\n  fesetround({name});\n"
        f"  volatile {kind} y = {expression};\n  fesetround(old);\n  return y;\n}}"
    )


for _operation in _OPERATIONS:
    for _mode in _MODES:
        for _dtype in _TYPES:
            helpers.register(_name(_operation, _mode, _dtype), _llvm(_operation, _mode, _dtype), _c(_operation, _mode, _dtype))
