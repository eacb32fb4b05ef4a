"""Scalar expressions as CUDA C++ text.

TVM's own CUDA printer is not used: it cannot print vectors of bool, float8 arithmetic or references into swizzled tiles, and
its prelude costs NVRTC 0.6 s. What an operator becomes is a row of a table here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tilelang.dtypes import canonical
from tilelang.errors import CompileError
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.target.cuda.codegen.element_types import c_type, converted, float_literal, integer_literal, value_type
from tilelang.target.cuda.codegen.intrinsics import intrinsic_text
from tilelang.tileop import is_tile_op

if TYPE_CHECKING:
    from tilelang.target.cuda.codegen.emitter import Emitter

_INFIX: Mapping[type, str] = {
    ir.Add: "+", ir.Sub: "-", ir.Mul: "*", ir.Div: "/", ir.Mod: "%", ir.EQ: "==", ir.NE: "!=", ir.LT: "<", ir.LE: "<=",
    ir.GT: ">", ir.GE: ">=", ir.And: "&&", ir.Or: "||", ir.BitwiseAnd: "&", ir.BitwiseOr: "|", ir.BitwiseXor: "^",
    ir.LShift: "<<", ir.RShift: ">>",
}  # fmt: skip

_FLOAT_FUNCTIONS = (
    "exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh erf floor ceil "
    "trunc round nearbyint fabs pow fmod atan2 hypot copysign ldexp nextafter fma"
).split()

_FAST_FUNCTIONS: Mapping[str, str] = {
    "exp": "tl::fast_exp", "exp2": "tl::fast_exp2", "exp10": "tl::fast_exp10", "log": "tl::fast_log", "log2": "tl::fast_log2",
    "log10": "tl::fast_log10", "sin": "tl::fast_sin", "cos": "tl::fast_cos", "tan": "tl::fast_tan", "pow": "tl::fast_pow",
    "tanh": "tl::fast_tanh", "rsqrt": "tl::fast_rsqrt",
}  # fmt: skip


class ExprPrinter:
    """Prints expressions with the names, places and facts of a kernel's emitter."""

    def __init__(self, emitter: Emitter):
        self.e = emitter

    def text(self, expr: Any) -> str:
        """The C++ text of an expression (or of a Python number)."""
        if isinstance(expr, (int, float)):
            return str(expr)
        printer = _PRINTERS.get(type(expr))
        if printer is not None:
            return printer(self, expr)
        symbol = _INFIX.get(type(expr))
        if symbol is None:
            raise CompileError(f"{type(expr).__name__} expressions are not supported on CUDA")
        return self._infix(expr, symbol)

    def _infix(self, expr: Any, symbol: str) -> str:
        left, right = self.text(expr.a), self.text(expr.b)
        dtype = canonical(str(expr.a.ty))
        if dtype.is_float and dtype.bits <= 8:
            left, right = converted(left, dtype, "float32"), converted(right, dtype, "float32")
            return self._narrow(f"({left} {symbol} {right})", expr, dtype)
        if dtype.is_integer and dtype.bits < 32 and str(expr.ty) == dtype:
            return converted(f"({left} {symbol} {right})", "int32", dtype)
        return f"({left} {symbol} {right})"

    def _narrow(self, text: str, expr: Any, dtype: str) -> str:
        return text if str(expr.ty) == "bool" else converted(text, "float32", dtype)

    def _var(self, expr: Any) -> str:
        try:
            return self.e.var_text[expr]
        except KeyError:
            raise CompileError(f"{expr.name} is not defined in this kernel") from None

    def _int(self, expr: Any) -> str:
        return integer_literal(int(expr.value), canonical(str(expr.ty)))

    def _float(self, expr: Any) -> str:
        return float_literal(float(expr.value), canonical(str(expr.ty)))

    def _cast(self, expr: Any) -> str:
        return converted(self.text(expr.value), canonical(str(expr.value.ty)), canonical(str(expr.ty)))

    def _load(self, expr: Any) -> str:
        return self.e.places.element(expr.source, list(expr.indices))

    def _not(self, expr: Any) -> str:
        return f"!{self.text(expr.a)}"

    def _select(self, expr: Any) -> str:
        return f"({self.text(expr.condition)} ? {self.text(expr.true_value)} : {self.text(expr.false_value)})"

    def _let(self, expr: Any) -> str:
        self.e.var_text[expr.var] = f"({self.text(expr.value)})"
        return self.text(expr.body)

    def _floor_div(self, expr: Any) -> str:
        divisor = as_int(expr.b)
        if isinstance(divisor, int) and divisor > 0 and not divisor & (divisor - 1):
            left = self.text(expr.a)
            return f"({left} >> {divisor.bit_length() - 1})" if divisor > 1 else left
        return self._divided(expr, "/") if self._truncates(expr) else self._function("floor_div", expr)

    def _floor_mod(self, expr: Any) -> str:
        divisor = as_int(expr.b)
        if isinstance(divisor, int) and divisor > 0 and not divisor & (divisor - 1):
            return f"({self.text(expr.a)} & {divisor - 1})"
        return self._divided(expr, "%") if self._truncates(expr) else self._function("floor_mod", expr)

    def _truncates(self, expr: Any) -> bool:
        """Whether rounding down is rounding towards zero: no operand is negative."""
        unsigned = str(expr.ty).startswith("uint")
        return unsigned or (self.e.facts.non_negative(expr.a) and self.e.facts.non_negative(expr.b))

    def _divided(self, expr: Any, symbol: str) -> str:
        """A division that truncates, of integers or floats; an integer that may be zero gives zero."""
        if canonical(str(expr.ty)).is_float or self.e.facts.bounds(expr.b)[0] > 0:
            return self._infix(expr, symbol)
        return self._function("trunc_div" if symbol == "/" else "trunc_mod", expr)

    def _shifted(self, expr: Any) -> str:
        """A shift; by the width of the type or more (or by a negative number), all bits leave."""
        low, high = self.e.facts.bounds(expr.b)
        if low >= 0 and high < canonical(str(expr.ty)).bits:
            return self._infix(expr, _INFIX[type(expr)])
        return self._function("shift_left" if isinstance(expr, ir.LShift) else "shift_right", expr)

    def _function(self, name: str, expr: Any) -> str:
        """An operation of two integers by its function of ``common.h``."""
        dtype = canonical(str(expr.ty))
        text = f"tl::{name}<{value_type(dtype)}>({self.text(expr.a)}, {self.text(expr.b)})"
        return converted(text, "int32", dtype) if dtype.bits < 8 else text

    def _extremum(self, expr: Any) -> str:
        word = "max" if isinstance(expr, ir.Max) else "min"
        dtype = canonical(str(expr.ty))
        left, right = self.text(expr.a), self.text(expr.b)
        return extremum(word, left, right, dtype)

    def _call(self, expr: Any) -> str:
        name = expr.op.name if isinstance(expr.op, ir.Op) else ""
        special = _CALLS.get(_plain(name))
        if special is not None:
            return special(self, expr)
        function = _plain(name)
        if function in _FLOAT_FUNCTIONS:
            return self._math(function, expr)
        found = intrinsic_text(self.e, expr)
        if found is None and is_tile_op(expr):
            raise CompileError(
                f"T.{name.removeprefix('tl.')} inside T.Parallel: its iterations are shared out among the threads already",
                hint="use T.serial, or move it out of the loop",
            )
        if found is None:
            raise CompileError(f"{name} is not supported on CUDA")
        return found

    def _math(self, function: str, expr: Any) -> str:
        dtype = canonical(str(expr.ty))
        arguments = [self.text(arg) for arg in expr.args]
        if dtype == "float64" and function == "rsqrt":
            return f"(1.0 / sqrt({arguments[0]}))"
        if dtype == "float64":
            return f"{function}({', '.join(arguments)})"
        arguments = [converted(text, canonical(str(arg.ty)), "float32") for text, arg in zip(arguments, expr.args)]
        known = _FAST_FUNCTIONS.get(function) if self.e.fast_math else None
        name = known or _single_name(function)
        return converted(f"{name}({', '.join(arguments)})", "float32", dtype)

    def _if_then_else(self, expr: Any) -> str:
        condition, then, otherwise = (self.text(arg) for arg in expr.args)
        return f"({condition} ? {then} : {otherwise})"

    def _classify(self, expr: Any) -> str:
        argument = expr.args[0]
        text = self.text(argument)
        if str(argument.ty) not in ("float32", "float64"):
            text = converted(text, canonical(str(argument.ty)), "float32")
        return f"{_plain(expr.op.name)}({text})"

    def _bitwise_not(self, expr: Any) -> str:
        dtype, text = canonical(str(expr.ty)), f"(~{self.text(expr.a)})"
        return converted(text, "int32", dtype) if dtype.bits < 32 else f"{c_type(dtype)}{text}"

    def _reinterpret(self, expr: Any) -> str:
        return f"tl::bit_cast<{c_type(str(expr.ty))}>({self.text(expr.args[0])})"

    def _sigmoid(self, expr: Any) -> str:
        dtype = canonical(str(expr.ty))
        if dtype == "float64":
            return f"(1.0 / (1.0 + exp(-{self.text(expr.args[0])})))"
        argument = converted(self.text(expr.args[0]), dtype, "float32")
        exponential = "tl::fast_exp" if self.e.fast_math else "expf"
        return converted(f"(1.0f / (1.0f + {exponential}(-{argument})))", "float32", dtype)

    def _extern(self, expr: Any) -> str:
        name, *arguments = expr.args
        return f"{name.value}({', '.join(self.argument(arg) for arg in arguments)})"

    def argument(self, expr: Any) -> str:
        """An argument of an external function: strings bare, everything else an expression."""
        return str(expr.value) if isinstance(expr, ir.StringImm) else self.text(expr)

    def _address(self, expr: Any) -> str:
        target = expr.args[0]
        return f"(&{self.e.places.place(target.source, list(target.indices))})"

    def _access_ptr(self, expr: Any) -> str:
        _, data, offset, *_ = expr.args
        buffer = data.args[0] if isinstance(data, ir.Call) else data
        return f"(&{self.e.places.place(buffer, [offset])})"

    def _buffer_data(self, expr: Any) -> str:
        buffer = expr.args[0]
        return f"(&{self.e.places.place(buffer, [ir.IntImm('int32', 0)] * len(buffer.shape))})"

    def _popcount(self, expr: Any) -> str:
        bits, value = self._own_bits(expr.args[0])
        return f"{c_type(str(expr.ty))}({'__popcll' if bits == 64 else '__popc'}({value}))"

    def _leading_zeros(self, expr: Any) -> str:
        bits, value = self._own_bits(expr.args[0])
        count = f"{'__clzll' if bits == 64 else '__clz'}({value})"
        return count if bits >= 32 else f"({count} - {32 - bits})"

    def _own_bits(self, expr: Any) -> tuple[int, str]:
        """How many bits an integer has, and its text without the copies of its sign that a wider register holds."""
        bits, text = canonical(str(expr.ty)).bits, self.text(expr)
        return bits, text if bits >= 32 else f"({text} & {(1 << bits) - 1})"


def _plain(name: str) -> str:
    """A TVM operator's name without its dialect; ``tl.*`` names stay whole."""
    dialect, _, rest = name.partition(".")
    return rest if dialect in ("tirx", "prim") else name


def extremum(word: str, left: str, right: str, dtype: str) -> str:
    """The larger (``word`` is ``"max"``) or smaller of two values; of a number and NaN, the number."""
    kind = canonical(dtype)
    if kind == "float32":
        return f"f{word}f({left}, {right})"
    if kind.is_float and kind.bits == 8:
        single = (converted(left, kind, "float32"), converted(right, kind, "float32"))
        return converted(f"f{word}f({', '.join(single)})", "float32", kind)
    if kind.is_float:
        return f"tl::{word}_number({left}, {right})"
    return f"({left} {'>' if word == 'max' else '<'} {right} ? {left} : {right})"


def _single_name(function: str) -> str:
    return function if function.endswith("f") and function != "erf" else function + "f"


_PRINTERS: Mapping[type, Callable[[ExprPrinter, Any], str]] = {
    ir.Var: ExprPrinter._var,
    ir.IntImm: ExprPrinter._int,
    ir.FloatImm: ExprPrinter._float,
    ir.Cast: ExprPrinter._cast,
    ir.TensorLoad: ExprPrinter._load,
    ir.Not: ExprPrinter._not,
    ir.BitwiseNot: ExprPrinter._bitwise_not,
    ir.Select: ExprPrinter._select,
    ir.Let: ExprPrinter._let,
    ir.Div: lambda printer, expr: printer._divided(expr, "/"),
    ir.Mod: lambda printer, expr: printer._divided(expr, "%"),
    ir.LShift: ExprPrinter._shifted,
    ir.RShift: ExprPrinter._shifted,
    ir.FloorDiv: ExprPrinter._floor_div,
    ir.FloorMod: ExprPrinter._floor_mod,
    ir.Max: ExprPrinter._extremum,
    ir.Min: ExprPrinter._extremum,
    ir.Call: ExprPrinter._call,
}

_CALLS: Mapping[str, Callable[[ExprPrinter, Any], str]] = {
    "if_then_else": ExprPrinter._if_then_else,
    "isnan": ExprPrinter._classify,
    "isinf": ExprPrinter._classify,
    "isfinite": ExprPrinter._classify,
    "reinterpret": ExprPrinter._reinterpret,
    "sigmoid": ExprPrinter._sigmoid,
    "popcount": ExprPrinter._popcount,
    "clz": ExprPrinter._leading_zeros,
    "call_extern": ExprPrinter._extern,
    "call_pure_extern": ExprPrinter._extern,
    "address_of": ExprPrinter._address,
    "tvm_access_ptr": ExprPrinter._access_ptr,
    "buffer_data": ExprPrinter._buffer_data,
}
