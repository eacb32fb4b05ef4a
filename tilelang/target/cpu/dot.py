"""The ways of forming products: in what type operands lie in their panels, and how one step multiplies and adds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilelang.dtypes import DType, canonical, vector
from tilelang.ir import nodes as ir
from tilelang.target.cpu import helpers
from tilelang.target.cpu.emit import cast


@dataclass(frozen=True, slots=True)
class Way:
    """How products are formed.

    Attributes:
        operand: the element type that panels hold.
        panel: the type of one panel element: :attr:`operand`, or an integer that holds a pair of them.
        accumulator: the type that sums are kept in.
        depth: products summed in one step, 1 or 2.
        helper: the helper function of a step; empty for ``acc + a * b``.
    """

    operand: str
    panel: str
    accumulator: str
    depth: int = 1
    helper: str = ""

    def panel_vector(self, lanes: int) -> str:
        """The type of a register of panel elements."""
        return vector(self.panel, lanes)

    def pack(self, element: Callable[[int], Any]) -> Any:
        """One panel element from the operands of one step."""
        if self.depth == 1:
            return cast(element(0), self.operand)
        low, high = (self._half(element(d)) for d in (0, 1))
        return low | (high << ir.IntImm(self.panel, 16))

    def _half(self, value: Any) -> Any:
        value = cast(value, self.operand)
        integer = canonical(self.operand).is_integer
        bits = ir.Cast("uint16", value) if integer else ir.Call(ir.Op.get("tirx.reinterpret"), [value], ret_ty="uint16")
        wide = ir.Cast("uint32", bits)
        return wide if self.panel == "uint32" else ir.Cast(self.panel, wide)

    def multiply_add(self, accumulator: Any, a: Any, b: Any, lanes: int) -> Any:
        """``accumulator`` plus the products of one step."""
        if not self.helper:
            return accumulator + a * b
        if f"{self.helper}_{lanes}" not in helpers.HELPERS:
            return self._pairwise(accumulator, a, b, lanes)
        call = [ir.StringImm(f"{self.helper}_{lanes}"), accumulator, a, b]
        return ir.Call(ir.Op.get("tirx.call_pure_extern"), call, ret_ty=vector(self.accumulator, lanes))

    def _pairwise(self, accumulator: Any, a: Any, b: Any, lanes: int) -> Any:
        """The products of a pair in plain arithmetic, for register widths without an instruction."""

        down = ir.IntImm("int32", 16)
        down = ir.Broadcast(down, lanes) if lanes > 1 else down

        def wide(value: Any, high: bool) -> Any:
            shift = ir.IntImm("uint32", 16)
            shift = ir.Broadcast(shift, lanes) if lanes > 1 else shift
            bits = ((value >> shift) if high else value) << shift
            whole = ir.Call(ir.Op.get("tirx.reinterpret"), [bits], ret_ty=vector(self.accumulator, lanes))
            return whole if self.accumulator == "float32" else whole >> down

        return accumulator + wide(a, False) * wide(b, False) + wide(a, True) * wide(b, True)


def choose_way(a: str, b: str, c: str, k: Any, context: Any) -> Way:
    """The way for operands and accumulator of these types.

    Floating-point sums are kept in float32 at least, integer sums in C's type. Integers of 8 bits and less, signed or not, are
    multiplied as pairs of 16 bits where the machine sums these (AVX512-VNNI): exact, as the sums wrap around like int32.
    """
    left, target = canonical(a), canonical(c)
    even = isinstance(k, int) and k % 2 == 0
    if left == canonical(b) == "bfloat16" and even and context.vectors.bf16_dot:
        return Way("bfloat16", "uint32", "float32", 2, "tl_dot_bf16")
    if _fits_int16(left) and _fits_int16(canonical(b)) and target == "int32" and even and context.vectors.int16_dot:
        return Way("int16", "uint32", "int32", 2, "tl_dot_int16")
    if left.is_float:
        dtype = "float64" if "float64" in (left, target) else "float32"
        return Way(dtype, dtype, dtype)
    return Way(str(target), str(target), str(target))


def _fits_int16(dtype: DType) -> bool:
    return dtype.is_integer and dtype.bits + (dtype.kind == "uint") <= 16


def _int16_llvm(lanes: int) -> str:
    words, instruction = f"<{lanes} x i32>", f"@llvm.x86.avx512.vpdpwssd.{lanes * 32}"
    return f"""
declare {words} {instruction}({words}, {words}, {words})
define {words} @tl_dot_int16_{lanes}({words} %sum, {words} %a, {words} %b) alwaysinline {{
  %r = call {words} {instruction}({words} %sum, {words} %a, {words} %b)
  ret {words} %r
}}"""


def _bf16_llvm(lanes: int) -> str:
    sums, words, pairs = f"<{lanes} x float>", f"<{lanes} x i32>", f"<{2 * lanes} x bfloat>"
    instruction = f"@llvm.x86.avx512bf16.dpbf16ps.{lanes * 32}"
    return f"""
declare {sums} {instruction}({sums}, {pairs}, {pairs})
define {sums} @tl_dot_bf16_{lanes}({sums} %sum, {words} %a, {words} %b) alwaysinline {{
  %x = bitcast {words} %a to {pairs}
  %y = bitcast {words} %b to {pairs}
  %r = call {sums} {instruction}({sums} %sum, {pairs} %x, {pairs} %y)
  ret {sums} %r
}}"""


_REGISTER_NAMES = {4: ("_mm_", "__m128", "__m128bh"), 8: ("_mm256_", "__m256", "__m256bh"), 16: ("_mm512_", "__m512", "__m512bh")}


def _bf16_c(lanes: int) -> str:
    prefix, floats, pairs = _REGISTER_NAMES[lanes]
    return (
        "#include <immintrin.h>\n"
        f"static inline f32x{lanes} tl_dot_bf16_{lanes}(f32x{lanes} sum, u32x{lanes} a, u32x{lanes} b) {{\n"
        f"  return (f32x{lanes}){prefix}dpbf16_ps(({floats})sum, ({pairs})a, ({pairs})b);\n}}"
    )


def _int16_c(lanes: int) -> str:
    prefix, integers = _REGISTER_NAMES[lanes][0], {4: "__m128i", 8: "__m256i", 16: "__m512i"}[lanes]
    return (
        "#include <immintrin.h>\n"
        f"static inline i32x{lanes} tl_dot_int16_{lanes}(i32x{lanes} sum, u32x{lanes} a, u32x{lanes} b) {{\n"
        f"  return (i32x{lanes}){prefix}dpwssd_epi32(({integers})sum, ({integers})a, ({integers})b);\n}}"
    )


for _lanes in _REGISTER_NAMES:
    helpers.register(f"tl_dot_int16_{_lanes}", _int16_llvm(_lanes), _int16_c(_lanes))
    helpers.register(f"tl_dot_bf16_{_lanes}", _bf16_llvm(_lanes), _bf16_c(_lanes))
