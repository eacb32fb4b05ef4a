"""Step ``legalize``: every expression becomes arithmetic that LLVM and C both have.

Before: loops over the user's element types, TVM's mathematical operators, scalar intrinsics. After: narrow formats are
integers in memory and float32 in expressions; elementary functions are arithmetic or calls to the C library; intrinsics are
arithmetic or calls to helper functions; all buffers live in the default storage scope. Parameters keep their types: each
narrow one gets an alias of its storage type.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tvm_ffi

from tilelang.dtypes import canonical
from tilelang.errors import TileLangError, UnsupportedOnCpuError
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.memory import ARRAY, is_global
from tilelang.ir.rounding import round_constant
from tilelang.ir.span import location_of
from tilelang.ir.visit import LARGE, is_choice, tree_size
from tilelang.target.cpu import formats, packed
from tilelang.target.cpu.elementary import scale_by_instruction
from tilelang.target.cpu.emit import extern_call, is_no_op, seq
from tilelang.target.cpu.functions import FUNCTIONS, bound, inline, is_nan
from tilelang.target.cpu.helpers import HELPERS
from tilelang.target.cpu.mathops import OPERATORS as MATH
from tilelang.target.cpu.program import CpuProgram
from tilelang.target.cpu.rewriter import StmtRewriter
from tilelang.target.cpu.saturate import for_llvm, to_integer
from tilelang.target.cpu.vectors import AS_VECTOR, vectorized
from tilelang.target.cpu.wide_loops import loop_in_registers


def legalize(program: CpuProgram, context: Any) -> CpuProgram:
    """The program in legal form."""
    func = program.func
    legalizer = Legalizer(context)
    aliases = legalizer.declare_parameters(func.params)
    params, rounded = legalizer.declare_scalars(func.params)
    has_others = bool(legalizer.narrow_vars)
    try:
        body = legalizer.stmt(func.body)
    except TileLangError as error:
        raise error.at(location_of(legalizer.span)) from None
    legal = func.with_body(seq(aliases, rounded, body))
    if has_others:
        legal = ir.PrimFunc(params, legal.body, legal.ret_type, legal.attrs, legal.span)
    return CpuProgram(legal, tuple(legalizer.functions), tuple(legalizer.helpers))


class Legalizer(StmtRewriter):
    """Rewrites statements and expressions; see the module's text."""

    def __init__(self, context: Any):
        self.context = context
        self.buffers: dict[Any, Any] = {}
        self.narrow_vars: dict[Any, Any] = {}
        self.sizes: dict[Any, int] = {}
        self.wide: dict[Any, bool] = {}
        self.span: Any = None
        self.functions: dict[str, None] = {}
        self.helpers: dict[str, None] = {}
        self.wide_calls: dict[str, str] = {}

    # Buffers

    def declare_parameters(self, params: Any) -> list[Any]:
        """The aliases of the parameters that expressions name by other types or in another scope."""
        aliases = []
        for param in params:
            if ir.is_buffer_var(param) and not _is_legal(param):
                alias = self.storage(param)
                pointer = ir.Call(
                    ir.Op.get("tirx.reinterpret"), [ir.buffer_data(param)], ret_ty=ir.pointer_type(str(alias.dtype))
                )
                aliases.append(ir.DeclBuffer(alias, data=pointer))
        return aliases

    def declare_scalars(self, params: Any) -> tuple[list[Any], list[Any]]:
        """The parameters, narrow scalars as float32 and pointers to storage types, and the bindings that round those scalars."""
        passed, rounded = [], []
        for param in params:
            dtype = "" if ir.is_buffer_var(param) else str(param.ty)
            pointed = str(param.ty.element_type) if isinstance(param.ty, ir.ir.PointerType) else ""
            if pointed in formats.STORAGE:
                passed.append(ir.Var(param.name, ir.pointer_type(formats.STORAGE[pointed])))
                self.narrow_vars[param] = passed[-1]
                continue
            if dtype not in formats.STORAGE:
                passed.append(param)
                continue
            passed.append(ir.Var(param.name, _held(dtype)))
            self.narrow_vars[param] = ir.Var(f"{param.name}_{dtype}", _held(dtype))
            rounded.append(ir.Bind(self.narrow_vars[param], self.widen(self.narrow(passed[-1], dtype), dtype)))
        return passed, rounded

    def storage(self, buffer: Any) -> Any:
        """The buffer as it lies in memory: storage type, default scope, legal shape."""
        found = self.buffers.get(buffer)
        if found is None:
            dtype = str(buffer.dtype)
            _refuse_unheld(dtype)
            found = ir.decl_buffer(
                # LLVM has no empty array: a tile without elements gets memory that nothing accesses.
                [ir.IntImm("int32", 1) if as_int(size) == 0 else self.expr(size) for size in packed.memory_shape(buffer)],
                formats.STORAGE.get(dtype, dtype),
                name=buffer.name,
                strides=[self.expr(stride) for stride in packed.memory_strides(buffer) or ()] or None,
                elem_offset=buffer.elem_offset,
                layout=None,
                data_alignment=buffer.data_alignment,
            )
            self.buffers[buffer] = found
        return found

    def visit_AllocBuffer(self, node: Any) -> Any:
        return ir.AllocBuffer(self.storage(node.buffer), node.annotations, node.span)

    def visit_DeclBuffer(self, node: Any) -> Any:
        alias = self.storage(node.buffer)
        data = self.expr(node.data)
        wanted = ir.ir.PointerType(ir.ir.PrimType(str(alias.dtype)))
        if data.ty != wanted:
            data = ir.Call(ir.Op.get("tirx.reinterpret"), [data], ret_ty=wanted)
        return ir.DeclBuffer(alias, data=data, span=node.span)

    # Statements

    def stmt(self, node: Any) -> Any:
        # The place for an error of any expression below it, as expressions have no span of their own.
        if node.span is not None:
            self.span = node.span
        return super().stmt(node)

    def visit_For(self, node: Any) -> Any:
        registers = loop_in_registers(node, self)
        if registers is not None:
            return registers
        legal = super().visit_For(node)
        return vectorized(legal) if AS_VECTOR in node.annotations else legal

    def visit_BufferStore(self, node: Any) -> Any:
        buffer, dtype = self.access(node.buffer), str(node.buffer.dtype)
        indices = self.indices(node.buffer, node.indices)
        value = self.stored(node.value, dtype)
        if dtype not in packed.PACKED:
            return ir.BufferStore(buffer, value, indices, node.span)
        indices, shift = packed.place(indices)
        byte = ir.BufferLoad(buffer, indices)
        if not is_global(node.buffer):
            return ir.BufferStore(buffer, packed.replaced(byte, shift, value), indices, node.span)
        # Two elements share the byte, and another thread may store the other one: its bits must not be written back as they were.
        address = ir.Call(ir.Op.get("tirx.address_of"), [byte], ret_ty="handle")
        call = self.helper("tl_set_nibble", [address, packed.other_bits(shift), value << shift], "int32")
        return ir.Evaluate(call, node.span)

    def stored(self, value: Any, dtype: str) -> Any:
        """The bits to store for ``value`` in an element of ``dtype``; a conversion to the same format is not done twice."""
        if dtype not in formats.STORAGE:
            return self.expr(value)
        if dtype in packed.HELD:
            return packed.code_of(self.expr(value), dtype)
        # `narrow(widen(narrow(x)))` of the cast and the store is `narrow(x)`: one conversion is enough.
        if isinstance(value, ir.Cast) and str(value.ty) == dtype and str(value.value.ty) != dtype:
            return self.narrow(self._to_round(self.expr(value.value)), dtype)
        # A copy moves bits: through float32 it would be the same, but for the payload of a NaN, and slower.
        if isinstance(value, ir.TensorLoad) and str(value.ty) == dtype:
            return self.code(value)
        if isinstance(value, ir.FloatImm):
            return self.constant_bits(float(value.value), dtype)
        if is_choice(value):
            condition, then, otherwise = value.args
            # Each arm by itself, so that one which copies or is a constant needs no conversion.
            arms = self.stored(then, dtype), self.stored(otherwise, dtype)
            return ir.Call(value.op, [self.expr(condition), *arms], ret_ty=formats.STORAGE[dtype])
        return self.narrow(self.expr(value), dtype)

    def constant_bits(self, value: float, dtype: str) -> Any:
        """A constant of a narrow format as the integer that is stored."""
        pattern = formats.bit_pattern(round_constant(value, dtype), dtype)
        return ir.IntImm(formats.STORAGE[dtype], pattern)

    def visit_Bind(self, node: Any) -> Any:
        value = self.expr(node.value)
        if str(node.var.ty) in formats.STORAGE:
            self.narrow_vars[node.var] = ir.Var(node.var.name, _held(str(node.var.ty)))
        var = self.narrow_vars.get(node.var, node.var)
        self.sizes[var] = tree_size(value, self.sizes)
        if self.sizes[var] < LARGE or self.context.emits_c:
            return ir.Bind(var, value, node.span)
        # TVM's code generation puts values in place of variables where it simplifies; what memory holds it does not look at.
        self.sizes[var] = 1
        held = ir.decl_buffer((1,), str(var.ty), var.name, scope=ARRAY, layout=None)
        zero = [ir.IntImm("int32", 0)]
        store = ir.BufferStore(held, value, zero, node.span)
        return seq(ir.AllocBuffer(held), store, ir.Bind(var, ir.BufferLoad(held, zero), node.span))

    def visit_Evaluate(self, node: Any) -> Any:
        if is_no_op(node):
            return node
        return ir.Evaluate(self.expr(node.value), node.span)

    # Conversions

    def call(self, name: str, *arguments: Any) -> Any:
        """A scalar function of :data:`FUNCTIONS`: inline for LLVM, a call for C."""
        if name in self.wide_calls:
            return extern_call(self.wide_calls[name], arguments, FUNCTIONS[name].result)
        if not self.context.emits_c:
            return inline(name, arguments, scale_by_instruction if self.context.vectors.bits == 512 else None)
        self.functions[name] = None
        return extern_call(name, arguments, FUNCTIONS[name].result)

    def helper(self, name: str, arguments: list[Any], result: str, pure: bool = False) -> Any:
        """A call to a helper function that the generated code carries.

        Args:
            name: of the helper function.
            arguments: legalised expressions.
            result: type of the value.
            pure: whether the call may be removed or repeated.
        """
        self.helpers[name] = None
        return extern_call(name, arguments, result, pure)

    def widen(self, value: Any, dtype: str) -> Any:
        """The value that the bits of a narrow format stand for: float32, or a small integer."""
        if dtype in packed.HELD:
            return packed.value_of(value, dtype)
        if dtype == "float16" and not self.context.emits_c:
            return formats.hardware_f16_to_f32(value)
        return self.call(formats.WIDEN[dtype], value)

    def narrow(self, value: Any, dtype: str) -> Any:
        """The bits of a float32 value rounded to a narrow format, or of a small integer."""
        if dtype in packed.HELD:
            return packed.code_of(value, dtype)
        if dtype == "float16" and not self.context.emits_c:
            return formats.hardware_f32_to_f16(value)
        return self.call(formats.NARROW[dtype], value)

    def to_f32(self, value: Any) -> Any:
        """A legalised float32 of any scalar expression (not yet legalised)."""
        return self.converted(self.expr(value), "float32")

    def _to_round(self, value: Any) -> Any:
        """A legalised scalar as the float32 that is rounded to a narrow format."""
        return self.call("tl_f64_to_odd", value) if str(value.ty) == "float64" else self.converted(value, "float32")

    def converted(self, value: Any, target: str) -> Any:
        """A legalised scalar as another type that code generation has."""
        if str(value.ty) == target:
            return value
        return ir.Cast(target, value) if self.context.emits_c else for_llvm(value, target)

    # Expressions

    def access(self, buffer: Any) -> Any:
        """The buffer to index instead of ``buffer``."""
        found = self.buffers.get(buffer)
        if found is not None:
            return found
        return buffer if _is_legal(buffer) else self.storage(buffer)

    def indices(self, buffer: Any, indices: Any) -> list[Any]:
        """Legal indices; of a tensor that may have 2**31 elements or more, in 64 bits, so that the offset does not wrap."""
        legal = [self.expr(index) for index in indices]
        wide = self.wide.get(buffer)
        if wide is None:
            wide = self.wide[buffer] = _may_be_huge(buffer)
        if not wide:
            return legal
        return [index if isinstance(index, ir.Ramp) else ir.Cast("int64", index) for index in legal]

    def expr(self, node: Any) -> Any:
        if isinstance(node, _LEAVES):
            return self._variable(node) if isinstance(node, ir.Var) else self._immediate(node)
        kind = type(node)
        if kind in _BINARY:
            return self._binary(node, kind)
        return _EXPRESSIONS[kind](self, node)

    def _variable(self, node: Any) -> Any:
        return self.access(node) if ir.is_buffer_var(node) else self.narrow_vars.get(node, node)

    def _immediate(self, node: Any) -> Any:
        dtype = str(node.ty)
        if dtype in packed.HELD:
            return ir.IntImm(packed.HELD[dtype], int(node.value))
        if dtype in formats.STORAGE:
            return ir.FloatImm("float32", round_constant(float(node.value), dtype))
        return node

    def _binary(self, node: Any, kind: type) -> Any:
        left, right = self.expr(node.a), self.expr(node.b)
        if str(left.ty) == "bool":
            return _of_bools(left, right, kind)
        if kind in _FLOAT_CARE and str(left.ty).startswith("float"):
            if kind in (ir.Max, ir.Min):
                return _float_extreme(left, right, kind)
            # TVM simplifies `x == x` to true, which it is not for NaN.
            if tvm_ffi.structural_equal(node.a, node.b):
                return is_nan(left) if kind is ir.NE else ir.Not(is_nan(left))
        result = _shifted(left, right, kind) if kind in _SHIFTS else kind(left, right)
        # Sums of int4, say, are computed in int8 and cut to four bits again; operations on bits stay in range.
        leaves_range = str(node.ty) in packed.HELD and kind in _ARITHMETIC
        return packed.wrapped(result, str(node.ty)) if leaves_range else result

    def _cast(self, node: Any) -> Any:
        source, target = str(node.value.ty), str(node.ty)
        _refuse_unheld(target)
        value = self.expr(node.value)
        # C leaves a conversion undefined that does not fit the integer; to_integer saturates it as a GPU does.
        truncates = str(value.ty) in ("float32", "float64") and canonical(target).is_integer
        if target in packed.HELD:
            return packed.wrapped(to_integer(self, value, "int32", node.value) if truncates else value, target)
        if target in formats.STORAGE:
            value = self._to_round(value)
            return value if source == target else self.widen(self.narrow(value, target), target)
        if target == "bool":
            return value if source == "bool" else ir.NE(value, _zero_like(value))
        if truncates:
            return to_integer(self, value, target, node.value)
        return self.converted(value, target)

    def _load(self, node: Any) -> Any:
        dtype = str(node.source.dtype)
        return self.widen(self.code(node), dtype) if dtype in formats.STORAGE else self.place(node)

    def place(self, node: Any) -> Any:
        """The load of the memory element that an element of a buffer lies in."""
        indices = self.indices(node.source, node.indices)
        if str(node.source.dtype) in packed.PACKED:
            indices, _ = packed.place(indices)
        return ir.BufferLoad(self.access(node.source), indices)

    def code(self, node: Any) -> Any:
        """The bits of an element of a narrow type."""
        if str(node.source.dtype) not in packed.PACKED:
            return self.place(node)
        indices, shift = packed.place(self.indices(node.source, node.indices))
        return packed.code_at(ir.BufferLoad(self.access(node.source), indices), shift)

    def _select(self, node: Any) -> Any:
        return ir.Select(self.expr(node.condition), self.expr(node.true_value), self.expr(node.false_value))

    def _not(self, node: Any) -> Any:
        inner = self.expr(node.a)
        if type(inner) in _COMPARISONS and str(inner.a.ty).startswith("float"):
            # Simplification would turn ``not a < b`` into ``a >= b``, which differs where one is NaN.
            return ir.EQ(ir.Cast("int32", inner), ir.IntImm("int32", 0))
        return ir.Not(inner)

    def _complement(self, node: Any) -> Any:
        value, dtype = self.expr(node.a), str(node.ty)
        if dtype == "bool":
            return ir.Not(value)
        result = ir.tirx.BitwiseNot(value)
        return packed.wrapped(result, dtype) if dtype in packed.HELD else result

    def _let(self, node: Any) -> Any:
        value = self.expr(node.value)
        if str(node.var.ty) in formats.STORAGE:
            self.narrow_vars[node.var] = ir.Var(node.var.name, _held(str(node.var.ty)))
        return ir.Let(self.narrow_vars.get(node.var, node.var), value, self.expr(node.body))

    def _ramp(self, node: Any) -> Any:
        return ir.Ramp(self.expr(node.base), self.expr(node.stride), node.lanes)

    def _broadcast(self, node: Any) -> Any:
        return ir.Broadcast(self.expr(node.value), node.lanes)

    def _call(self, node: Any) -> Any:
        name = node.op.name if isinstance(node.op, ir.Op) else ""
        found = MATH.get(name)
        if found is not None:
            return found(self, node)
        if name == "tirx.address_of" and isinstance(node.args[0], ir.TensorLoad):
            return ir.Call(node.op, [self.place(node.args[0])], ret_ty=node.ty)
        arguments = [self.expr(argument) for argument in node.args]
        if name.startswith("tirx.call_") and isinstance(node.args[0], ir.StringImm) and node.args[0].value in HELPERS:
            self.helpers[str(node.args[0].value)] = None
        if is_choice(node):
            return ir.Call(node.op, arguments, ret_ty=arguments[1].ty)
        if isinstance(node.ty, ir.ir.PrimType) and str(node.ty) != "void":
            _refuse_unheld(str(node.ty))
        return ir.Call(node.op, arguments, attrs=node.attrs, ret_ty=node.ty)

    def _same(self, node: Any) -> Any:
        return node


def _is_legal(buffer: Any) -> bool:
    """Whether a buffer can be named as it is."""
    return str(buffer.dtype) not in formats.STORAGE and is_global(buffer)


def _held(dtype: str) -> str:
    """The type of a narrow format's values in expressions."""
    return packed.HELD.get(dtype, "float32")


def _refuse_unheld(dtype: str) -> None:
    """Raises where no register or memory type of a CPU holds values of a type: vectors of narrow formats."""
    found = canonical(dtype)
    if found.lanes > 1 and found.base in formats.STORAGE:
        raise UnsupportedOnCpuError(f"a vector of type {dtype}", "use T.vectorized or T.Parallel over scalars")


def _may_be_huge(buffer: Any) -> bool:
    if not is_global(buffer):
        return False
    sizes = [as_int(size) for size in buffer.shape]
    if list(buffer.strides) or not all(isinstance(size, int) for size in sizes):
        return True
    return math.prod(sizes) >= 2**31


def _zero_like(value: Any) -> Any:
    dtype = str(value.ty)
    return ir.FloatImm(dtype, 0.0) if dtype.startswith("float") else ir.IntImm(dtype, 0)


def _float_extreme(left: Any, right: Any, kind: type) -> Any:
    """The larger or smaller of two floats; where one is NaN, the other (as C's ``fmax`` and CUDA's)."""

    def chosen(a: Any, b: Any) -> Any:
        better = a > b if kind is ir.Max else a < b
        # A comparison with NaN is false and takes b, so only a NaN in b needs a test of its own.
        if isinstance(b, ir.FloatImm):
            return a if math.isnan(b.value) else ir.Select(better, a, b)
        return ir.Select(ir.Or(better, is_nan(b)), a, b)

    return bound(left, lambda a: bound(right, lambda b: chosen(a, b)))


def _of_bools(left: Any, right: Any, kind: type) -> Any:
    """An operation on two bools: neither LLVM code generation nor C has one type for all of them."""
    if kind in (ir.And, ir.Or):
        return kind(left, right)
    result = kind(ir.Cast("int32", left), ir.Cast("int32", right))
    return result if kind in _COMPARISONS else ir.NE(result, ir.IntImm("int32", 0))


def _shifted(left: Any, right: Any, kind: type) -> Any:
    """A shift; by the width of the type or more (or by a negative number), all bits leave, as on a GPU."""
    dtype = canonical(str(left.ty))
    signed = f"int{canonical(str(right.ty)).bits}"

    def by(amount: Any) -> Any:
        # A single comparison of unsigned numbers would do, but TVM's analyzer stops at the differences that it makes of them.
        number = amount if str(right.ty) == signed else ir.Cast(signed, amount)
        inside = ir.And(number >= ir.IntImm(signed, 0), number < ir.IntImm(signed, dtype.bits))
        if kind is ir.tirx.RShift and dtype.kind == "int":
            return kind(left, ir.Select(inside, amount, ir.IntImm(right.ty, dtype.bits - 1)))
        return ir.Select(inside, kind(left, amount), ir.IntImm(left.ty, 0))

    if isinstance(right, ir.IntImm) and 0 <= int(right.value) < dtype.bits or dtype.lanes > 1:
        return kind(left, right)
    return bound(right, by)


_COMPARISONS = (ir.EQ, ir.NE, ir.LT, ir.LE, ir.GT, ir.GE)
_ARITHMETIC = (ir.Add, ir.Sub, ir.Mul, ir.Div, ir.FloorDiv, ir.tirx.LShift)
_SHIFTS = (ir.tirx.LShift, ir.tirx.RShift)
_FLOAT_CARE = (ir.Max, ir.Min, ir.EQ, ir.NE)
_LEAVES = (ir.Var, ir.IntImm, ir.FloatImm, ir.StringImm)
_BINARY = frozenset(
    {
        ir.Add, ir.Sub, ir.Mul, ir.Div, ir.Mod, ir.FloorDiv, ir.FloorMod, ir.Min, ir.Max, ir.EQ, ir.NE, ir.LT, ir.LE, ir.GT,
        ir.GE, ir.And, ir.Or, ir.tirx.BitwiseAnd, ir.tirx.BitwiseOr, ir.tirx.BitwiseXor, ir.tirx.LShift, ir.tirx.RShift,
    }
)  # fmt: skip
_EXPRESSIONS: dict[type, Callable[[Legalizer, Any], Any]] = {
    ir.Cast: Legalizer._cast,
    ir.TensorLoad: Legalizer._load,
    ir.Select: Legalizer._select,
    ir.Not: Legalizer._not,
    ir.tirx.BitwiseNot: Legalizer._complement,
    ir.Let: Legalizer._let,
    ir.Ramp: Legalizer._ramp,
    ir.Broadcast: Legalizer._broadcast,
    ir.Call: Legalizer._call,
    ir.Shuffle: Legalizer._same,
}
