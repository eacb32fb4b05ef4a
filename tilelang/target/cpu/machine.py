"""Step ``lower_machine``: lowers to the subset that LLVM code generation accepts, without TVM's simplifying passes.

Before: the legal program with its plain entry. After: buffers have one axis and the types of memory; divisions truncate;
mathematical operators are LLVM's intrinsics; a comparison for inequality holds where an operand is NaN.

TVM's own passes for this (``FlattenBuffer``, ``LowerIntrin``) use an analyzer that takes floats for real numbers, gets decreasing
indices such as ``(2 - i) % 8`` wrong and fails for some conditions. This step only has to know which indices may be negative.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tilelang.dtypes import canonical, vector
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.ir.floats import is_float
from tilelang.ir.interval import Interval, interval_of, overflows
from tilelang.ir.visit import rebuilt
from tilelang.target.cpu import formats, helpers, views
from tilelang.target.cpu.contraction import combines_products
from tilelang.target.cpu.division import divided
from tilelang.target.cpu.lets import LetLowering
from tilelang.target.cpu.low_bits import is_low_mask, low_bits, narrowed, stays_below
from tilelang.target.cpu.program import CpuProgram
from tilelang.target.cpu.rewriter import StmtRewriter
from tilelang.target.cpu.views import overlapping

_INTRINSICS = {
    "tirx.sqrt": "llvm.sqrt",
    "tirx.floor": "llvm.floor",
    "prim.ceil": "llvm.ceil",
    "tirx.trunc": "llvm.trunc",
    "tirx.nearbyint": "llvm.nearbyint",
    "tirx.fabs": "llvm.fabs",
    "tirx.fma": "llvm.fma",
    "tirx.popcount": "llvm.ctpop",
}
"""TVM's operator -> LLVM's intrinsic of the same meaning."""

_WRAPPING = {ir.Add: "add", ir.Sub: "sub", ir.Mul: "mul"}
"""Operations that wrap around -> LLVM's instruction."""

_MEMORY = {**formats.STORAGE, "bool": "int8"}
"""Element type -> what lies in memory where that differs."""


def lower_machine(program: CpuProgram, context: Any) -> CpuProgram:
    """The program for LLVM."""
    machine = _Machine(overlapping(program.func.body))
    func = program.func.with_body(LetLowering().stmt(machine.stmt(program.func.body)))
    return replace(program, func=func, helpers=tuple(dict.fromkeys((*program.helpers, *machine.helpers))))


class _Machine(StmtRewriter):
    """Rewrites statements; knows which variables are never negative, and the ranges of loops.

    Attributes:
        overlapping: the buffers (by hash) that are accessed under another name, too.
    """

    def __init__(self, overlapping: frozenset[int]) -> None:
        self.overlapping = overlapping
        self.flat: dict[Any, Any] = {}
        self.natural: set[Any] = set()
        self.ranges: dict[Any, Interval] = {}
        self.helpers: dict[str, None] = {}
        self.counting = False  # whether an index or a loop bound is rewritten
        self.handlers = {
            ir.Var: self._variable,
            ir.TensorLoad: self._load,
            ir.Call: self._call,
            ir.Let: self._let,
            ir.Add: self._add,
            ir.Sub: self._sub,
            ir.Mul: self._arithmetic,
            ir.NE: self._unequal,
            ir.BitwiseAnd: self._masked,
            ir.Cast: self._cast,
            ir.FloorDiv: self._divided,
            ir.FloorMod: self._divided,
            ir.Div: self._divided,
            ir.Mod: self._divided,
        }

    # Statements

    def visit_For(self, node: Any) -> Any:
        if node.step is None and self._is_natural(node.min):
            self.natural.add(node.loop_var)
            first, last = interval_of(node.min, self.ranges)[0], interval_of(node.min + node.extent - 1, self.ranges)[1]
            self.ranges[node.loop_var] = first, last
        low, extent, step = (None if bound is None else self.count(bound) for bound in (node.min, node.extent, node.step))
        body = self.stmt(node.body)
        return ir.For(node.loop_var, low, extent, node.kind, body, annotations=node.annotations, step=step, span=node.span)

    def visit_Bind(self, node: Any) -> Any:
        self._know(node.var, node.value)
        return super().visit_Bind(node)

    def _know(self, var: Any, value: Any) -> None:
        """Of a variable, what is known of its value."""
        if self._is_natural(value):
            self.natural.add(var)
        if str(value.ty).startswith(("int", "uint")):
            self.ranges[var] = interval_of(value, self.ranges)

    def visit_AllocBuffer(self, node: Any) -> Any:
        return ir.AllocBuffer(self.buffer(node.buffer), node.annotations, node.span)

    def visit_DeclBuffer(self, node: Any) -> Any:
        flat = self.buffer(node.buffer)
        data, pointer = self.expr(node.data), ir.pointer_type(str(flat.dtype))
        if data.ty != pointer:
            data = ir.Call(ir.Op.get("tirx.reinterpret"), [data], ret_ty=pointer)
        return ir.DeclBuffer(flat, data=data, span=node.span)

    def visit_BufferStore(self, node: Any) -> Any:
        flat, value = self.buffer(node.buffer), self.expr(node.value)
        if str(node.buffer.dtype) == "bool":
            value = ir.Cast("int8", value)
        offset = self.offset(node.buffer, node.indices)
        if hash(node.buffer) in self.overlapping:
            name, address = self._helper(views.store, value.ty), _address(flat, offset)
            return ir.Evaluate(ir.Call(ir.Op.get("tirx.call_extern"), [name, address, value], ret_ty="int32"), node.span)
        return ir.BufferStore(flat, value, [offset], node.span)

    # Buffers

    def buffer(self, buffer: Any) -> Any:
        """The buffer of one axis that stands for ``buffer``."""
        found = self.flat.get(buffer)
        if found is None:
            sizes = [self.count(size) for size in buffer.shape]
            dtype = str(buffer.dtype)
            found = self.flat[buffer] = ir.decl_buffer(
                [math.prod(sizes[1:], start=sizes[0]) if sizes else 1],
                _MEMORY.get(dtype, dtype),
                name=buffer.name,
                layout=None,
                data_alignment=buffer.data_alignment,
            )
        return found

    def offset(self, buffer: Any, indices: Any) -> Any:
        """The index into the buffer of one axis; consecutive elements stay a ramp."""
        *outer, last = [_signed(self.count(index)) for index in indices] or [ir.IntImm("int32", 0)]
        ramp = last if isinstance(last, ir.Ramp) else None
        parts = [*outer, last if ramp is None else ramp.base]
        sizes, strides = [self.count(size) for size in buffer.shape], [self.count(stride) for stride in buffer.strides]
        if strides:
            total = sum((_times(part, stride) for part, stride in zip(parts[1:], strides[1:])), _times(parts[0], strides[0]))
        else:
            total = parts[0]
            for part, size in zip(parts[1:], sizes[1:]):
                # Horner's rule: ((i * size1 + j) * size2 + k).
                total = _times(total, size) + part
        return total if ramp is None else ir.Ramp(total, ramp.stride, ramp.lanes)

    # Expressions

    def count(self, node: Any) -> Any:
        """An index, a size or a bound of a loop, which never overflows: so compilers may compute it in more bits."""
        outer, self.counting = self.counting, True
        counted = self.expr(node)
        self.counting = outer
        return counted

    def expr(self, node: Any) -> Any:
        handler = self.handlers.get(type(node))
        return rebuilt(node, self.expr) if handler is None else handler(node)

    def _variable(self, node: Any) -> Any:
        return self.buffer(node) if ir.is_buffer_var(node) else node

    def _load(self, node: Any) -> Any:
        flat, offset = self.buffer(node.source), self.offset(node.source, node.indices)
        load = ir.BufferLoad(flat, [offset])
        if hash(node.source) in self.overlapping:
            arguments = [self._helper(views.load, load.ty), _address(flat, offset)]
            load = ir.Call(ir.Op.get("tirx.call_extern"), arguments, ret_ty=load.ty)
        return ir.NE(load, ir.IntImm("int8", 0)) if str(node.source.dtype) == "bool" else load

    def _helper(self, of: Callable[[str], str], dtype: Any) -> Any:
        """The name of a helper function for a type, which the program then carries."""
        name = of(str(dtype))
        self.helpers[name] = None
        return ir.StringImm(name)

    def _call(self, node: Any) -> Any:
        name = node.op.name if isinstance(node.op, ir.Op) else ""
        if name == "tirx.address_of" and isinstance(node.args[0], ir.TensorLoad):
            load = node.args[0]
            place = ir.BufferLoad(self.buffer(load.source), [self.offset(load.source, load.indices)])
            return ir.Call(node.op, [place], ret_ty=node.ty)
        node = rebuilt(node, self.expr)
        if name in _INTRINSICS:
            return _intrinsic(node.ty, _INTRINSICS[name], *node.args)
        if name == "prim.clz":
            return _intrinsic(node.ty, "llvm.ctlz", *node.args, ir.IntImm("bool", 0))
        return node

    def _masked(self, node: Any) -> Any:
        node = rebuilt(node, self.expr)
        return low_bits(node.a, as_int(node.b), self.helpers) if is_low_mask(node.b) else node

    def _cast(self, node: Any) -> Any:
        return narrowed(node, self.expr(node.value), self.helpers)

    def _let(self, node: Any) -> Any:
        self._know(node.var, node.value)
        return rebuilt(node, self.expr)

    def _add(self, node: Any) -> Any:
        """A sum; of a product, a multiply-add with one rounding if the processor has the instruction, as on GPUs."""
        if combines_products(node):
            return self._of_rounded(node)
        node = rebuilt(node, self.expr)
        # llvm.fmuladd is one rounding where the processor has the instruction, and a product and a sum where not.
        for product, other in ((node.b, node.a), (node.a, node.b)):
            if isinstance(product, ir.Mul) and is_float(node.ty):
                return _intrinsic(node.ty, "llvm.fmuladd", product.a, product.b, other)
        return self._wrapping(node)

    def _sub(self, node: Any) -> Any:
        return self._of_rounded(node) if combines_products(node) else self._arithmetic(node)

    def _of_rounded(self, node: Any) -> Any:
        """A sum of products that are rounded first: a fence keeps the instruction selector from contracting them with it."""
        node = rebuilt(node, self.expr)
        return type(node)(*(_intrinsic(node.ty, "llvm.arithmetic.fence", product) for product in (node.a, node.b)))

    def _arithmetic(self, node: Any) -> Any:
        return self._wrapping(rebuilt(node, self.expr))

    def _wrapping(self, node: Any) -> Any:
        """Arithmetic that wraps around; TVM tells LLVM that wide integers never do, which is true for indices only."""
        dtype = canonical(str(node.ty))
        if dtype.lanes > 1 or not dtype.is_integer or dtype.bits < 32 or self.counting and dtype.kind == "int":
            return node
        name = f"tl_{_WRAPPING[type(node)]}_i{dtype.bits}"
        self.helpers[name] = None
        return ir.Call(ir.Op.get("tirx.call_pure_extern"), [ir.StringImm(name), node.a, node.b], ret_ty=node.ty)

    def _unequal(self, node: Any) -> Any:
        """``!=`` as the negation of ``==``: TVM emits LLVM's ordered comparison for it, which is false if an operand is NaN."""
        floats = is_float(node.a.ty)
        node = rebuilt(node, self.expr)
        return ir.Not(ir.EQ(node.a, node.b)) if floats else node

    def _divided(self, node: Any) -> Any:
        if is_float(node.ty):
            return rebuilt(node, self.expr)
        divisor = as_int(node.b)
        if isinstance(node, ir.FloorMod) and isinstance(divisor, int) and is_low_mask(divisor - 1):
            # Modulo a power of two is a mask, of negative numbers too (in two's complement, where the remainder rounds down).
            a = self.expr(node.a)
            return a if stays_below(node.a, divisor, self.ranges) else low_bits(a, divisor - 1, self.helpers)
        natural = self._is_natural(node.a) and self._is_natural(node.b)
        return divided(rebuilt(node, self.expr), natural, self.helpers)

    def _is_natural(self, node: Any) -> bool:
        """Whether an integer expression is certainly not negative, as long as positions in tensors do not overflow."""
        if str(node.ty).startswith("uint"):
            return True
        if isinstance(node, ir.Var):
            return node in self.natural
        if isinstance(node, ir.IntImm):
            return int(node.value) >= 0
        if isinstance(node, ir.Mul) and any(isinstance(side, ir.IntImm) and side.value > 0xFFFF for side in (node.a, node.b)):
            return False  # a hash, whose products do overflow
        if isinstance(node, (ir.Add, ir.Mul)) and overflows(node, self.ranges):
            return False
        if isinstance(node, (ir.Add, ir.Mul, ir.FloorDiv, ir.Min)):
            return self._is_natural(node.a) and self._is_natural(node.b)
        # The remainder of a floor division has the sign of the divisor.
        if isinstance(node, ir.FloorMod):
            return self._is_natural(node.b)
        if isinstance(node, ir.Max):
            return self._is_natural(node.a) or self._is_natural(node.b)
        if isinstance(node, ir.Cast):
            return _widens(node) and self._is_natural(node.value)
        return False


def _address(flat: Any, offset: Any) -> Any:
    """The address of an element, or of the first of consecutive ones."""
    first = offset.base if isinstance(offset, ir.Ramp) else offset
    return ir.Call(ir.Op.get("tirx.address_of"), [ir.BufferLoad(flat, [first])], ret_ty="handle")


def _signed(index: Any) -> Any:
    """An index in a signed type of 32 bits or more that holds it: LLVM extends the sign of what an address is computed with."""
    if isinstance(index, ir.Ramp):
        return ir.Ramp(_signed(index.base), _signed(index.stride), index.lanes)
    dtype = canonical(str(index.ty))
    if dtype.kind == "int" and dtype.bits >= 32:
        return index
    return ir.Cast(str(vector("int32" if dtype.bits < 32 else "int64", dtype.lanes)), index)


def _widens(node: Any) -> bool:
    """Whether a cast keeps every value that is not negative."""
    source, target = canonical(str(node.value.ty)), canonical(str(node.ty))
    return source.is_integer and target.is_integer and source.bits < target.bits + (source.kind == target.kind)


def _times(a: Any, b: Any) -> Any:
    """A product of indices in the wider of their types."""
    if isinstance(b, ir.IntImm) and int(b.value) == 1:
        return a
    return constant(a) * constant(b)


def _intrinsic(dtype: Any, name: str, *arguments: Any) -> Any:
    return ir.tirx.call_llvm_pure_intrin(dtype, name, *arguments)


for _type in ("i32", "i64"):
    for _name in _WRAPPING.values():
        helpers.register(
            f"tl_{_name}_{_type}",
            f"define {_type} @tl_{_name}_{_type}({_type} %a, {_type} %b) alwaysinline {{\n"
            f"  %r = {_name} {_type} %a, %b\n  ret {_type} %r\n}}",
        )
