"""Scalar expressions of the program as values of a thread.

TVM's own CUDA printer is not used: it cannot print vectors of bool, float8 arithmetic or references into swizzled tiles, and
its prelude costs NVRTC 0.6 s. What an operator becomes is a row of a table here.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tilelang.dtypes import canonical
from tilelang.errors import MisplacedError, UnsupportedError
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.visit import reads_memory, variables, walk_expr
from tilelang.layout.digits import is_power_of_two
from tilelang.target.cuda.intrinsics.table import is_atomic, lower_intrinsic
from tilelang.target.cuda.ir.conversions import converted
from tilelang.target.cuda.ir.values import AddressOf, Binary, Call, Convert, Literal, Number, Select, Type, Unary, Value, Verbatim
from tilelang.tileop.thread import intrinsic_name

if TYPE_CHECKING:
    from tilelang.target.cuda.codegen.emitter import Emitter

_INFIX: Mapping[type, str] = {
    ir.Add: "+", ir.Sub: "-", ir.Mul: "*", ir.Div: "/", ir.Mod: "%", ir.EQ: "==", ir.NE: "!=", ir.LT: "<", ir.LE: "<=",
    ir.GT: ">", ir.GE: ">=", ir.BitwiseAnd: "&", ir.BitwiseOr: "|", ir.BitwiseXor: "^",
    ir.LShift: "<<", ir.RShift: ">>",
}  # fmt: skip

_FLOAT_FUNCTIONS = (
    "exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh erf floor ceil "
    "trunc round nearbyint fabs pow fmod atan2 hypot copysign ldexp nextafter fma"
).split()

_FAST_FUNCTIONS = frozenset("exp exp2 exp10 log log2 log10 sin cos tan pow tanh rsqrt".split())
"""Those that have an approximation ``tl::fast_<name>``."""


def lower_expr(e: Emitter, expr: Any) -> Value:
    """An expression (or a Python number) as a value, with the names, places and facts of a kernel's emitter."""
    if isinstance(expr, int):
        return Number(expr)
    if isinstance(expr, float):
        return Literal(expr, "float64")
    rule = _RULES.get(type(expr))
    if rule is not None:
        return rule(e, expr)
    symbol = _INFIX.get(type(expr))
    if symbol is None:
        raise UnsupportedError(f"{type(expr).__name__} expressions are not supported on CUDA")
    return _infix(e, expr, symbol)


def _infix(e: Emitter, expr: Any, symbol: str) -> Value:
    if _wraps(e, expr):
        return Convert(str(expr.ty), _unsigned(e, expr))
    left, right = _dividend(e, expr.a) if symbol in _DIVISIONS else e.value(expr.a), e.value(expr.b)
    dtype = canonical(str(expr.a.ty))
    if dtype.is_float and dtype.bits <= 8:
        left, right = converted(left, dtype, "float32"), converted(right, dtype, "float32")
        result = Binary(symbol, left, right)
        return result if str(expr.ty) == "bool" else converted(result, "float32", dtype)
    # C++ computes narrow integers as `int`; the result has to wrap to its own type before it is used.
    if dtype.is_integer and dtype.bits < 32 and str(expr.ty) == dtype:
        return converted(Binary(symbol, left, right), "int32", dtype)
    folded = _FOLDED.get(symbol) if dtype == "int32" else None
    return Binary(symbol, left, right) if folded is None else folded(left, right)


def _second_where(e: Emitter, expr: Any, symbol: str, holds: bool) -> Value:
    """An ``and`` or ``or``, whose second operand is evaluated where the first one holds, or does not."""
    with e.conditions.assuming(expr.a, holds):
        second = e.value(expr.b)
    return Binary(symbol, e.value(expr.a), second)


def _choice(e: Emitter, condition: Any, true_value: Any, false_value: Any) -> Value:
    """One of two values, of which only that one is evaluated."""
    with e.conditions.assuming(condition):
        then = e.value(true_value)
    with e.conditions.assuming(condition, holds=False):
        otherwise = e.value(false_value)
    return Select(e.value(condition), then, otherwise)


def _wraps(e: Emitter, expr: Any) -> bool:
    """Whether a sum, difference or product may be outside of its type, and is to wrap around then.

    A signed overflow has no meaning in C++, and NVRTC makes use of that: ``x * x < 0`` is false to it.
    """
    if type(expr) not in _ARITHMETIC or str(expr.ty) not in _UNSIGNED or e.is_counting:
        return False
    # Bounds at the very limits of the type count as outside: facts have them for values that nothing is known of.
    low, high = e.facts.bounds(expr)
    limit = 2 ** (canonical(str(expr.ty)).bits - 1)
    return (low <= 1 - limit or high >= limit - 1) and not _is_position(e, expr)


def _is_position(e: Emitter, expr: Any) -> bool:
    """Whether an expression is a position in tensors of dynamic sizes: nothing bounds it but that such elements are there."""
    if not e.sizes or reads_memory(expr):
        return False
    return all(var in e.sizes or e.facts.bounds(var)[0] > -(2**31) for var in variables(expr))


def _unsigned(e: Emitter, expr: Any) -> Value:
    """A signed integer in the unsigned type of its width, whose arithmetic wraps around."""
    dtype = str(expr.ty)
    if isinstance(expr, ir.IntImm):
        return Literal(int(expr.value) % 2 ** canonical(dtype).bits, _UNSIGNED[dtype])
    if _wraps(e, expr):
        return Binary(_INFIX[type(expr)], _unsigned(e, expr.a), _unsigned(e, expr.b))
    return Convert(_UNSIGNED[dtype], e.value(expr))


def _bounds(e: Emitter, expr: Any) -> tuple[float, float]:
    """The least and largest value; of arithmetic that may wrap around, facts give those of the mathematical value only."""
    return (-math.inf, math.inf) if any(_wraps(e, node) for node in walk_expr(expr)) else e.facts.bounds(expr)


_ARITHMETIC = (ir.Add, ir.Sub, ir.Mul)
_UNSIGNED = {"int32": "uint32", "int64": "uint64"}
_HALVES = ("float16", "bfloat16")

_FOLDED = {"+": operator.add, "*": operator.mul}
"""Operators whose constant operands are folded."""


def _var(e: Emitter, expr: Any) -> Value:
    try:
        return e.names.values[expr]
    except KeyError:
        raise MisplacedError(f"{expr.name} is not defined in this kernel") from None


def _int(e: Emitter, expr: Any) -> Value:
    dtype, value = str(expr.ty), int(expr.value)
    # C++ reads -2147483648 as the negative of a number that is no int. Threads hold elements of four bits as ints; the bytes that
    # such types are in memory would compare -4 as 252.
    return Number(value) if dtype in ("int32", "int4", "uint4") and value > -(2**31) else Literal(value, dtype)


def _float(e: Emitter, expr: Any) -> Value:
    dtype, value = str(expr.ty), float(expr.value)
    if canonical(dtype).bits == 4:  # a code, not a value, is what C++ knows
        return converted(Literal(value, "float32"), "float32", dtype)
    return Literal(value, dtype)


def _let(e: Emitter, expr: Any) -> Value:
    e.names.values[expr.var] = e.value(expr.value)
    return e.value(expr.body)


def _cast(e: Emitter, expr: Any) -> Value:
    value, dtype = expr.value, str(expr.ty)
    # A device computes floats of 16 bits in their own type, so that one as a float32 is what it was (``language/casts.py``).
    if type(value) is ir.Cast and str(value.ty) == "float32" and str(value.value.ty) == dtype and dtype in _HALVES:
        kept = value.value
        # Of a plain product and a sum the assembler makes one operation, which would not round the product.
        return Call("__hmul_rn", (e.value(kept.a), e.value(kept.b))) if type(kept) is ir.Mul else e.value(kept)
    return converted(e.value(value), str(value.ty), dtype)


def _floor_div(e: Emitter, expr: Any) -> Value:
    divisor = as_int(expr.b)
    if isinstance(divisor, int) and divisor > 0 and is_power_of_two(divisor):
        # An arithmetic shift rounds down, also for negative numbers: -1 >> 2 is -1, as is the floor of -1/4.
        return _right_shift(e, expr.a, divisor.bit_length() - 1) if divisor > 1 else e.value(expr.a)
    return _divided(e, expr, "/") if _truncates(e, expr) else _function(e, "floor_div", expr)


def _floor_mod(e: Emitter, expr: Any) -> Value:
    divisor = as_int(expr.b)
    if isinstance(divisor, int) and divisor > 0 and is_power_of_two(divisor):
        # In two's complement the low bits are the remainder of a division that rounds down: -1 & 3 is 3.
        return e.value(expr.a) & divisor - 1
    lowest = -(2 ** (canonical(str(expr.ty)).bits - 2))  # from here on the negative of a number is one of the type
    if isinstance(divisor, int) and lowest <= divisor < 0 and _bounds(e, expr.a)[0] >= lowest:
        # NVRTC 13.5 confuses elements of an array whose index is a product of such a remainder and a negative number.
        zero, positive = ir.IntImm(expr.ty, 0), ir.IntImm(expr.ty, -divisor)
        return Unary("-", e.value(ir.FloorMod(ir.Sub(zero, expr.a), positive)))
    return _divided(e, expr, "%") if _truncates(e, expr) else _function(e, "floor_mod", expr)


def _truncates(e: Emitter, expr: Any) -> bool:
    """Whether rounding down is rounding towards zero: no operand is negative."""
    unsigned = str(expr.ty).startswith("uint")
    return unsigned or all(_bounds(e, side)[0] >= 0 for side in (expr.a, expr.b))


def _divided(e: Emitter, expr: Any, symbol: str) -> Value:
    """A division that truncates, of integers or floats; an integer that may be zero gives zero."""
    if canonical(str(expr.ty)).is_float or _bounds(e, expr.b)[0] > 0:
        return _infix(e, expr, symbol)
    return _function(e, "trunc_div" if symbol == "/" else "trunc_mod", expr)


def _shifted(e: Emitter, expr: Any) -> Value:
    """A shift; by the width of the type or more (or by a negative number), all bits leave."""
    low, high = _bounds(e, expr.b)
    if low == high and isinstance(expr, ir.RShift) and 0 < low < canonical(str(expr.ty)).bits:
        return _right_shift(e, expr.a, int(low))
    if low >= 0 and high < canonical(str(expr.ty)).bits:
        return _infix(e, expr, _INFIX[type(expr)])
    return _function(e, "shift_left" if isinstance(expr, ir.LShift) else "shift_right", expr)


def _function(e: Emitter, name: str, expr: Any) -> Value:
    """An operation of two integers by its function of ``common.h``."""
    dtype = canonical(str(expr.ty))
    kind = "int32" if dtype.base in ("int4", "uint4") else dtype
    result = Call(f"tl::{name}", (e.value(expr.a), e.value(expr.b)), (Type(kind),))
    return converted(result, "int32", dtype) if dtype.bits < 8 else result


def extremum(word: str, left: Value, right: Value, dtype: str) -> Value:
    """The larger (``word`` is ``"max"``) or smaller of two values; of a number and NaN, the number."""
    kind = canonical(dtype)
    if kind == "float32":
        return Call(f"f{word}f", (left, right))
    if kind.is_float and kind.bits <= 8:
        single = (converted(left, kind, "float32"), converted(right, kind, "float32"))
        return converted(Call(f"f{word}f", single), "float32", kind)
    if kind.is_float:
        return Call(f"tl::{word}_number", (left, right))
    # No `left > right ? left : right`: it writes each operand twice, and a nest of ten a thousand times.
    return Call(f"tl::{word}_number", (left, right), (Type("int32" if kind.bits < 8 else kind),))


# Divisions of masked numbers -----------------------------------------------------------------------------------------

# NVRTC 13.5 takes x for (x & 127) >> 1, and for (x & 127) / 3, in unrolled loops inside of each other, where it finds that the
# mask takes nothing away. A mask after the shift is right, and so is a number of which it knows nothing.

_DIVISIONS = frozenset({"/", "%", ">>"})


def _right_shift(e: Emitter, expr: Any, count: int) -> Value:
    """An integer by 2 to the power of ``count``, rounded down."""
    whole, mask = _masked(expr)
    if whole is not None and not _has_mask(whole):
        return (e.value(whole) >> count) & (mask >> count)
    return _dividend(e, expr) >> count


def _dividend(e: Emitter, expr: Any) -> Value:
    """An integer that is divided."""
    value, dtype = e.value(expr), canonical(str(expr.ty))
    if not (dtype.is_integer and _has_mask(expr)):
        return value
    return Call("tl::kept", (Convert("int32", value) if dtype.bits < 32 else value,))


def _has_mask(expr: Any) -> bool:
    """Whether a number is computed from the lowest bits of another, which may be all that it has."""
    if reads_memory(expr):
        return False
    parts = (part for part in walk_expr(expr) if isinstance(part, ir.PrimExpr))
    return any(str(part.ty) in ("uint8", "uint16") or _masked(part)[0] is not None for part in parts)


def _masked(expr: Any) -> tuple[Any, int]:
    """(x, mask) of the lowest bits of x; (None, 0) of anything else."""
    number = as_int(expr.b) if isinstance(expr, (ir.BitwiseAnd, ir.FloorMod)) else None
    mask = number - isinstance(expr, ir.FloorMod) if isinstance(number, int) else 0
    return (expr.a, mask) if mask > 0 and is_power_of_two(mask + 1) else (None, 0)


# Calls -----------------------------------------------------------------------------------------------------------------


def _call(e: Emitter, expr: Any) -> Value:
    name = expr.op.name if isinstance(expr.op, ir.Op) else ""
    function = _without_dialect(name)
    special = _CALLS.get(function)
    if special is not None:
        return special(e, expr)
    if function in _FLOAT_FUNCTIONS:
        return _math(e, function, expr)
    found = lower_intrinsic(e, expr)
    if found is None:
        raise UnsupportedError(f"{name} is not supported on CUDA")
    return _old_value(e, expr, found) if is_atomic(expr) else found


def _old_value(e: Emitter, expr: Any, access: Value) -> Value:
    """What an atomic access gives: where its element does not exist nothing happens, and that is zero, or what a load gives."""
    place = expr.args[0]
    exists = e.places.bounds_guard(place.source, list(place.indices)) if isinstance(place, ir.TensorLoad) else None
    if exists is None:
        return access
    if intrinsic_name(expr) == "atomic_load":
        return e.places.or_missing(place.source, access, exists)
    return Select(exists, access, Convert(str(expr.ty), Number(0)))


def _without_dialect(name: str) -> str:
    """A TVM operator's name without its dialect; ``tl.*`` names stay whole."""
    dialect, _, rest = name.partition(".")
    return rest if dialect in ("tirx", "prim") else name


def _math(e: Emitter, function: str, expr: Any) -> Value:
    dtype = canonical(str(expr.ty))
    arguments = tuple(map(e.value, expr.args))
    if dtype == "float64" and function == "rsqrt":
        return Binary("/", Literal(1.0, dtype), Call("sqrt", arguments))
    if dtype == "float64":
        return Call(function, arguments)
    arguments = tuple(converted(value, str(arg.ty), "float32") for value, arg in zip(arguments, expr.args))
    single = function if function.endswith("f") and function != "erf" else function + "f"
    is_fast = e.options.fast_math and function in _FAST_FUNCTIONS
    return converted(Call(f"tl::fast_{function}" if is_fast else single, arguments), "float32", dtype)


def _classify(e: Emitter, expr: Any) -> Value:
    argument = expr.args[0]
    value = e.value(argument)
    if str(argument.ty) not in ("float32", "float64"):
        value = converted(value, str(argument.ty), "float32")
    return Call(_without_dialect(expr.op.name), (value,))


def _bitwise_not(e: Emitter, expr: Any) -> Value:
    dtype, value = canonical(str(expr.ty)), Unary("~", e.value(expr.a))
    return converted(value, "int32", dtype) if dtype.bits < 32 else Convert(dtype, value)


def _sigmoid(e: Emitter, expr: Any) -> Value:
    dtype = canonical(str(expr.ty))
    kind = "float64" if dtype == "float64" else "float32"
    argument = converted(e.value(expr.args[0]), dtype, kind)
    function = "exp" if kind == "float64" else "tl::fast_exp" if e.options.fast_math else "expf"
    one = Literal(1.0, kind)
    return converted(Binary("/", one, one + Call(function, (Unary("-", argument),))), kind, dtype)


def _extern(e: Emitter, expr: Any) -> Value:
    """The program's own function: a string argument is C++ text, printed verbatim."""
    name, *arguments = expr.args
    given = (Verbatim(str(arg.value)) if isinstance(arg, ir.StringImm) else e.value(arg) for arg in arguments)
    return Call(str(name.value), tuple(given))


def _address_of(e: Emitter, buffer: Any, indices: list[Any]) -> Value:
    return AddressOf(e.places.place(buffer, indices))


def _access_ptr(e: Emitter, expr: Any) -> Value:
    _, data, offset, *_ = expr.args
    return _address_of(e, data.args[0] if isinstance(data, ir.Call) else data, [offset])


def _buffer_data(e: Emitter, expr: Any) -> Value:
    """Where a buffer starts; of a fragment whose layout the program fixes, the thread's own registers."""
    buffer = expr.args[0]
    layout = e.layouts.fragments.get(buffer)
    if layout is None or layout.is_whole:
        return _address_of(e, buffer, [ir.IntImm("int32", 0)] * len(buffer.shape))
    if not any(buffer.same_as(fixed) and layout == wanted for fixed, wanted, _ in e.tree.hints.layouts):
        raise MisplacedError(
            f"{buffer.name}.data: which elements are in a thread's registers is not fixed by the program",
            hint=f"T.annotate_layout({{{buffer.name}: ...}}) fixes it, or copy it to shared memory",
        )
    return e.array(buffer).to(0)


def _popcount(e: Emitter, expr: Any) -> Value:
    bits, value = _own_bits(e, expr.args[0])
    return Convert(str(expr.ty), Call("__popcll" if bits == 64 else "__popc", (value,)))


def _leading_zeros(e: Emitter, expr: Any) -> Value:
    bits, value = _own_bits(e, expr.args[0])
    count = Call("__clzll" if bits == 64 else "__clz", (value,))
    return count if bits >= 32 else count - (32 - bits)


def _own_bits(e: Emitter, expr: Any) -> tuple[int, Value]:
    """How many bits an integer has, and the integer without the copies of its sign that a wider register holds."""
    bits, value = canonical(str(expr.ty)).bits, e.value(expr)
    return bits, value if bits >= 32 else value & (1 << bits) - 1


Rule = Callable[["Emitter", Any], Value]

_RULES: Mapping[type, Rule] = {
    ir.Var: _var,
    ir.IntImm: _int,
    ir.FloatImm: _float,
    ir.Cast: _cast,
    ir.TensorLoad: lambda e, expr: e.places.element(expr.source, list(expr.indices)),
    ir.And: lambda e, expr: _second_where(e, expr, "&&", True),
    ir.Or: lambda e, expr: _second_where(e, expr, "||", False),
    ir.Not: lambda e, expr: Unary("!", e.value(expr.a)),
    ir.BitwiseNot: _bitwise_not,
    ir.Select: lambda e, expr: _choice(e, expr.condition, expr.true_value, expr.false_value),
    ir.Let: _let,
    ir.Div: lambda e, expr: _divided(e, expr, "/"),
    ir.Mod: lambda e, expr: _divided(e, expr, "%"),
    ir.LShift: _shifted,
    ir.RShift: _shifted,
    ir.FloorDiv: _floor_div,
    ir.FloorMod: _floor_mod,
    ir.Max: lambda e, expr: extremum("max", e.value(expr.a), e.value(expr.b), str(expr.ty)),
    ir.Min: lambda e, expr: extremum("min", e.value(expr.a), e.value(expr.b), str(expr.ty)),
    ir.Call: _call,
}

_CALLS: Mapping[str, Rule] = {
    "if_then_else": lambda e, expr: _choice(e, *expr.args),
    "isnan": _classify,
    "isinf": _classify,
    "isfinite": _classify,
    "reinterpret": lambda e, expr: Call("tl::bit_cast", (e.value(expr.args[0]),), (Type(str(expr.ty)),)),
    "sigmoid": _sigmoid,
    "popcount": _popcount,
    "clz": _leading_zeros,
    "call_extern": _extern,
    "call_pure_extern": _extern,
    "address_of": lambda e, expr: _address_of(e, expr.args[0].source, list(expr.args[0].indices)),
    "tvm_access_ptr": _access_ptr,
    "buffer_data": _buffer_data,
}
