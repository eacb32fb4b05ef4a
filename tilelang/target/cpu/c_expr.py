"""Expressions of the C code generator: legal IR expressions as C text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tilelang.errors import UnsupportedOnCpuError
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.floats import is_float
from tilelang.ir.visit import is_choice
from tilelang.target.cpu.c_types import Names, c_type, float_literal, int_literal, short, string_literal, type_of
from tilelang.target.cpu.conditional_loads import DEFINITION, QUALIFIER, is_unrolled, may_be_grouped
from tilelang.target.cpu.contraction import c_product, combines_products
from tilelang.target.cpu.saturate import CONVERSIONS

_INFIX = {
    ir.Add: "+", ir.Sub: "-", ir.Mul: "*", ir.EQ: "==", ir.NE: "!=", ir.LT: "<", ir.LE: "<=", ir.GT: ">",
    ir.GE: ">=", ir.And: "&&", ir.Or: "||", ir.tirx.BitwiseAnd: "&", ir.tirx.BitwiseOr: "|",
    ir.tirx.BitwiseXor: "^", ir.tirx.LShift: "<<",
    ir.tirx.RShift: ">>",
}  # fmt: skip
_WRAPPING = (ir.Add, ir.Sub, ir.Mul, ir.tirx.LShift)
_FUNCTIONS = {
    ir.FloorDiv: "floordiv", ir.FloorMod: "floormod", ir.Div: "truncdiv", ir.Mod: "truncmod", ir.Min: "min", ir.Max: "max",
}  # fmt: skip
_NOT_WITH_ZERO = {ir.Add: "sum", ir.Sub: "difference", ir.Mul: "product"}
_MATH = {
    "tirx.sqrt": "sqrt", "tirx.floor": "floor", "prim.ceil": "ceil", "tirx.trunc": "trunc",
    "tirx.nearbyint": "nearbyint", "tirx.fabs": "fabs",
}  # fmt: skip

# The machine's division stops the process for a zero, and for the least value by -1: the quotients are 0 and the least value.
_GENERIC = {
    "floordiv": "if (b == 0 || b == -1) return b ? -a : 0; {t} q = a / b; return q - (a % b != 0 && (a % b < 0) != (b < 0));",
    "floormod": "if (b == 0 || b == -1) return 0; {t} r = a % b; return r + (r != 0 && (r < 0) != (b < 0) ? b : 0);",
    "truncdiv": "return b == 0 || b == -1 ? (b ? -a : 0) : a / b;",
    "truncmod": "return b == 0 || b == -1 ? 0 : a % b;",
    "min": "return a < b ? a : b;",
    "max": "return a > b ? a : b;",
    "sum": "return a + b;",
    "difference": "return a - b;",
    "product": "return a * b;",
}

_COUNTS = {
    "tirx.popcount": ("popcount", "__builtin_popcountll(a)"),
    "prim.clz": ("clz", "a ? __builtin_clzll(a) - (64 - {bits}) : {bits}"),  # the builtin does not know zero
}
"""Operator on 32 or 64 unsigned bits -> name and value of the function for it."""


class CExpressions:
    """Renders expressions; collects the helpers and vector types that the text needs.

    Attributes:
        names: identifiers of variables.
        places: how an element of a buffer is written: buffer -> ``(indices) -> C lvalue``.
        definitions: helper functions used so far, by name.
        vectors: vector dtypes used so far.
        loops: the loops around what is rendered, the innermost last.
        conditions: how many conditions it depends on, in loops that a compiler does not unroll.
        truncated: the names of integers that may be truncated floats.
    """

    def __init__(self) -> None:
        self.loops: list[Any] = []
        self.conditions = 0
        self.names = Names()
        self.places: dict[Any, Callable[[list[Any]], str]] = {}
        self.definitions: dict[str, str] = {}
        self.vectors: dict[str, None] = {}
        self.truncated: set[Any] = set()

    def type(self, dtype: Any) -> str:
        """The C type of a dtype, noted if it is a vector."""
        text = str(dtype)
        if text in ("", "void"):
            return "void"
        if isinstance(dtype, ir.ir.PointerType):
            return f"{self.type(dtype.element_type)}*"
        name = c_type(text)
        if "x" in name and name not in ("void*",):
            self.vectors[text] = None
        return name

    def __call__(self, node: Any) -> str:
        kind = type(node)
        if combines_products(node) and (product := c_product(str(node.ty))):
            name, text = product
            self.definitions.setdefault(name, text)
            a, b = (f"{name}({self(factors.a)}, {self(factors.b)})" for factors in (node.a, node.b))
            return f"({a} {_INFIX[kind]} {b})"
        if kind in _NOT_WITH_ZERO and _has_zero(node):
            return f"{self.generic(_NOT_WITH_ZERO[kind], type_of(node))}({self(node.a)}, {self(node.b)})"
        if kind in _INFIX:
            text, dtype = f"({self(node.a)} {_INFIX[kind]} {self(node.b)})", type_of(node)
            # C computes narrow integers in 32 bits: what leaves their range must wrap before it is used.
            return (
                f"({c_type(dtype)}){text}"
                if kind in _WRAPPING and dtype.is_integer and dtype.bits < 32 and dtype.lanes == 1
                else text
            )
        if kind is ir.Div and is_float(node.ty):
            return f"({self(node.a)} / {self(node.b)})"
        if kind in _FUNCTIONS:
            return f"{self.generic(_FUNCTIONS[kind], type_of(node))}({self(node.a)}, {self(node.b)})"
        return _EXPRESSIONS[kind](self, node)

    def generic(self, operation: str, dtype: Any) -> str:
        """The name of a small function for one type, defined on first use."""
        name, text = f"tl_{operation}_{short(dtype)}", c_type(dtype)
        if dtype.kind == "uint" and operation.endswith(("div", "mod")):
            body = f"return b ? a {'/' if operation.endswith('div') else '%'} b : 0;"
        else:
            body = _GENERIC[operation].format(t=text)
        self.definitions.setdefault(name, f"static inline {text} {name}({text} a, {text} b) {{ {body} }}")
        return name

    def count(self, operator: str, dtype: Any) -> str:
        """The name of a function that counts bits of an unsigned type, defined on first use."""
        operation, value = _COUNTS[operator]
        name, text = f"tl_{operation}_{short(dtype)}", c_type(dtype)
        body = f"return {value.format(bits=dtype.bits)};"
        self.definitions.setdefault(name, f"static inline {text} {name}({text} a) {{ {body} }}")
        return name

    def bits(self, source: Any, target: Any) -> str:
        """The name of a function that takes the bits of one scalar type for another's."""
        name = f"tl_{short(source)}_as_{short(target)}"
        old, new = c_type(source), c_type(target)
        text = f"static inline {new} {name}({old} a) {{ {new} b; memcpy(&b, &a, sizeof b); return b; }}"
        self.definitions.setdefault(name, text)
        return name

    @contextmanager
    def inside(self, loop: Any) -> Iterator[None]:
        """Notes that what is rendered meanwhile is in a loop."""
        before = self.conditions
        self.conditions = before if is_unrolled(loop) else 0
        self.loops.append(loop)
        yield
        self.loops.pop()
        self.conditions = before

    def element(self, buffer: Any, indices: list[Any]) -> str:
        """The lvalue of a scalar element, or of consecutive ones as a vector."""
        return self.places[buffer](indices)

    # Nodes

    def _var(self, node: Any) -> str:
        return self.names(node)

    def _int(self, node: Any) -> str:
        return int_literal(int(node.value), str(node.ty))

    def _float(self, node: Any) -> str:
        return float_literal(float(node.value), str(node.ty))

    def _string(self, node: Any) -> str:
        return string_literal(str(node.value))

    def _cast(self, node: Any) -> str:
        dtype = type_of(node)
        if dtype.lanes > 1:
            return f"__builtin_convertvector({self(node.value)}, {self.type(dtype)})"
        if dtype.is_float and self.may_be_truncated(node.value):
            return f"{self.converted(type_of(node.value), dtype)}({self(node.value)})"
        return f"({self.type(dtype)}){_operand(self(node.value))}"

    def may_be_truncated(self, node: Any) -> bool:
        """Whether a compiler may find that an integer is a float of which the fraction was cut off."""
        if not type_of(node).is_integer or type_of(node).bits < 32:
            return False
        if isinstance(node, ir.Var):
            return node in self.truncated
        if isinstance(node, ir.Cast):
            return type_of(node.value).is_float or self.may_be_truncated(node.value)
        if isinstance(node, ir.Call):
            return is_choice(node) or isinstance(node.args[0], ir.StringImm) and str(node.args[0].value) in CONVERSIONS
        # What memory holds may have been stored there by the statement before.
        return isinstance(node, (ir.TensorLoad, ir.Select, ir.Let, ir.Max, ir.Min))

    def converted(self, source: Any, target: Any) -> str:
        """The name of a function that makes an integer a float, and of zero no negative zero, defined on first use.

        GCC 12 takes ``(float)(int)x`` for ``truncf(x)``, which is -0.0 for -0.5, if traps are not observed.
        """
        name, integer, real = f"tl_{short(source)}_to_{short(target)}", c_type(source), c_type(target)
        body = f"const {real} b = ({real})a; return b == 0 ? 0 : b;"
        self.definitions.setdefault(name, f"static inline {real} {name}({integer} a) {{ {body} }}")
        return name

    def _load(self, node: Any) -> str:
        indices = list(node.indices)
        place = self.element(node.source, indices)
        single = self.conditions and vector_lanes(indices) == 1
        if not single or not may_be_grouped(indices, self.loops[-1] if self.loops else None):
            return place
        self.definitions.setdefault(QUALIFIER, DEFINITION)
        return f"(*({QUALIFIER} const {self.type(node.source.dtype)}*)&{place})"

    def _choice(self, condition: Any, then: Any, otherwise: Any) -> str:
        text = self(condition)
        self.conditions += 1
        arms = f"{self(then)} : {self(otherwise)}"
        self.conditions -= 1
        return f"({text} ? {arms})"

    def _not(self, node: Any) -> str:
        return f"!{_operand(self(node.a))}"

    def _complement(self, node: Any) -> str:
        return f"({self.type(node.ty)})~{_operand(self(node.a))}"

    def _select(self, node: Any) -> str:
        return self._choice(node.condition, node.true_value, node.false_value)

    def _broadcast(self, node: Any) -> str:
        # Subtracting zero keeps negative zeros.
        return f"({self(node.value)} - ({self.type(node.ty)}){{0}})"

    def _let(self, node: Any) -> str:
        return f"({{ {self.declarations(node)}; }})"

    def declarations(self, node: Any) -> str:
        """A chain of ``let`` as declarations, ending in the value."""
        parts = []
        while isinstance(node, ir.Let):
            value = self(node.value)
            parts.append(f"const {self.type(node.var.ty)} {self.names(node.var)} = {value};")
            node = node.body
        return " ".join([*parts, self(node)])

    def _call(self, node: Any) -> str:
        name = node.op.name
        if name in ("tirx.call_extern", "tirx.call_pure_extern"):
            function, *arguments = node.args
            text = f"{function.value}({', '.join(map(self, arguments))})"
            pointer = isinstance(node.ty, ir.ir.PointerType)
            return f"({self.type(node.ty.element_type)}*){text}" if pointer else text
        if is_choice(node):
            return self._choice(*node.args)
        if name in _MATH:
            suffix = "f" if type_of(node) == "float32" else ""
            return f"{_MATH[name]}{suffix}({self(node.args[0])})"
        if name in _COUNTS:
            return f"{self.count(name, type_of(node))}({self(node.args[0])})"
        found = _CALLS.get(name)
        if found is None:
            raise UnsupportedOnCpuError(f"the operation {name.rpartition('.')[2]}", 'use target="cpu"')
        return found(self, node)

    def _reinterpret(self, node: Any) -> str:
        (value,) = node.args
        if isinstance(node.ty, ir.ir.PointerType):
            return f"({self.type(node.ty.element_type)}*)({self(value)})"
        source, target = type_of(value), type_of(node)
        if target == "handle":
            return f"(void*)(uintptr_t){_operand(self(value))}"
        if target.lanes > 1:
            return f"({self.type(target)}){_operand(self(value))}"
        return f"{self.bits(source, target)}({self(value)})"

    def _address(self, node: Any) -> str:
        load = node.args[0]
        return f"&{self.element(load.source, list(load.indices))}"

    def _pointer(self, node: Any) -> str:
        buffer = node.args[0]
        return f"({self.type(buffer.dtype)}*){self.names(buffer)}"


def _has_zero(node: Any) -> bool:
    """Whether an operand of an operation on floats is the constant zero.

    GCC takes ``0.0f - (float)i``, and ``(float)i * 0.0f - (float)i`` of an unsigned ``i``, for ``-(float)i``, which is the
    other zero where ``i`` is 0. It does so in an expression as written, not in the body of a function that it expands.
    """
    return any(isinstance(operand, ir.FloatImm) and not operand.value for operand in (node.a, node.b))


def _operand(text: str) -> str:
    return text if text.isidentifier() or text.startswith("(") and _closes_last(text) else f"({text})"


def _closes_last(text: str) -> bool:
    depth = 0
    for position, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return position == len(text) - 1
    return False


def vector_lanes(indices: Sequence[Any]) -> int:
    """How many consecutive elements the indices of an element name; a tensor without axes has none."""
    return as_int(indices[-1].lanes) if indices and isinstance(indices[-1], ir.Ramp) else 1


_EXPRESSIONS: dict[type, Callable[[CExpressions, Any], str]] = {
    ir.Var: CExpressions._var,
    ir.IntImm: CExpressions._int,
    ir.FloatImm: CExpressions._float,
    ir.StringImm: CExpressions._string,
    ir.Cast: CExpressions._cast,
    ir.TensorLoad: CExpressions._load,
    ir.Not: CExpressions._not,
    ir.tirx.BitwiseNot: CExpressions._complement,
    ir.Select: CExpressions._select,
    ir.Broadcast: CExpressions._broadcast,
    ir.Let: CExpressions._let,
    ir.Call: CExpressions._call,
}
_CALLS: dict[str, Callable[[CExpressions, Any], str]] = {
    "tirx.reinterpret": CExpressions._reinterpret,
    "tirx.address_of": CExpressions._address,
    "tirx.buffer_data": CExpressions._pointer,
    "tirx.bitwise_not": lambda expressions, node: f"~{_operand(expressions(node.args[0]))}",
}
