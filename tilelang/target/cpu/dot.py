"""Dot products along K: the type of the elements of packed panels, and how one step multiplies and adds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilelang.dtypes import DType, canonical, vector
from tilelang.ir import nodes as ir
from tilelang.target.cpu import helpers
from tilelang.target.cpu.emit import cast
from tilelang.target.cpu.tile_code import INSTRUCTIONS, ROUND, WORDS

STEPS = 256
"""Steps of a deep product: a panel of B as wide as two registers of 64 bytes takes 32 KiB of the first-level cache then."""

_TILE_STEPS = 128
"""The same by tiles: a panel of 16 KiB leaves room for the rows of A that pass it."""


@dataclass(frozen=True, slots=True)
class DotProduct:
    """How the dot products of a row of A and a column of B are computed: by plain arithmetic, or by an instruction.

    Attributes:
        operand: the element type that panels of A hold.
        panel: the type of one panel element: :attr:`operand`, or an integer that holds several of them.
        accumulator: the type that sums are kept in.
        depth: products summed in one step: 1, 2 or 4.
        helper: the helper function of a step; empty for ``acc + a * b``.
        operand_b: the element type of B's panels where it is another one.
        tile: the instruction of AMX that multiplies tiles; empty where registers are multiplied.
        bias: what is added to B's elements in the panels when their sign bit is flipped; 0 if it is not.
        rounding: the helper that rounds rows of sums in memory to bfloat16; empty where arithmetic has to do it.
    """

    operand: str
    panel: str
    accumulator: str
    depth: int = 1
    helper: str = ""
    operand_b: str = ""
    bias: int = 0
    tile: str = ""
    rounding: str = ""

    @property
    def unit(self) -> int:
        """Elements along K that products are cut by: those of a step, or of a tile's row."""
        return self.depth * (WORDS if self.tile else 1)

    @property
    def most(self) -> int:
        """Elements along K of a product that is not cut into several."""
        return self.depth * (_TILE_STEPS if self.tile else STEPS)

    def panel_vector(self, lanes: int) -> str:
        """The type of a register of panel elements."""
        return vector(self.panel, lanes)

    def pack(self, element: Callable[[int], Any]) -> Any:
        """One panel element of A from the operands of one step."""
        return self._joined(element, self.operand, 0)

    def pack_b(self, element: Callable[[int], Any]) -> Any:
        """One panel element of B."""
        return self._joined(element, self.operand_b or self.operand, 0x80 if self.bias else 0)

    def _joined(self, element: Callable[[int], Any], operand: str, flipped: int) -> Any:
        if self.depth == 1:
            return cast(element(0), operand)
        width = 32 // self.depth
        joined: Any = None
        for d in range(self.depth):
            value, raw = cast(element(d), operand), f"uint{width}"
            integer = canonical(operand).is_integer
            bits = ir.Cast(raw, value) if integer else ir.Call(ir.Op.get("tirx.reinterpret"), [value], ret_ty=raw)
            # The instructions number the elements of a word from its low bits.
            part = ir.Cast(self.panel, bits ^ ir.IntImm(raw, flipped) if flipped else bits)
            joined = part if joined is None else joined | (part << ir.IntImm(self.panel, width * d))
        return joined

    def multiply_add(self, accumulator: Any, a: Any, b: Any, lanes: int) -> Any:
        """``accumulator`` plus the products of one step.

        Args:
            accumulator: the sums, of the accumulator type, one a lane.
            a, b: panel elements of both operands, one a lane.
            lanes: how many there are.
        """
        if not self.helper:
            return accumulator + a * b
        if f"{self.helper}_{lanes}" not in helpers.HELPERS:
            return self._separately(accumulator, a, b, lanes)
        call = [ir.StringImm(f"{self.helper}_{lanes}"), accumulator, a, b]
        return ir.Call(ir.Op.get("tirx.call_pure_extern"), call, ret_ty=vector(self.accumulator, lanes))

    def _separately(self, accumulator: Any, a: Any, b: Any, lanes: int) -> Any:
        """The products of one step in plain arithmetic, for register widths without an instruction."""
        for d in range(self.depth):
            accumulator = accumulator + self._part(a, self.operand, d, lanes) * self._part(b, self._signedness_b, d, lanes)
        return accumulator

    @property
    def _signedness_b(self) -> str:
        """The type that B's panels are read as: that of B's elements, or of the other sign once the sign bit is flipped."""
        operand = self.operand_b or self.operand
        return {"int8": "uint8", "uint8": "int8"}[operand] if self.bias else operand

    def _part(self, value: Any, operand: str, d: int, lanes: int) -> Any:
        """One of the elements that a panel element holds, as wide as the accumulator."""
        width = 32 // self.depth

        def shift(bits: int, dtype: str) -> Any:
            amount = ir.IntImm(dtype, bits)
            return ir.Broadcast(amount, lanes) if lanes > 1 else amount

        # To the top of the word and back down: the shift down then extends the sign, or brings zeros.
        top = value << shift(32 - width * (d + 1), "uint32")
        if operand.startswith("uint"):
            top = top >> shift(32 - width, "uint32")
        if not canonical(operand).is_integer:
            kept = ir.IntImm("uint32", 2**32 - 2 ** (32 - width))
            top = top & (ir.Broadcast(kept, lanes) if lanes > 1 else kept)
        whole = ir.Call(ir.Op.get("tirx.reinterpret"), [top], ret_ty=vector(self.accumulator, lanes))
        return whole >> shift(32 - width, "int32") if operand.startswith("int") else whole


def choose_dot_product(a: str, b: str, c: str, k: Any, context: Any, loads_bind: bool = False, tiles: bool = True) -> DotProduct:
    """The fastest form for operands and an accumulator of these types.

    Floating-point sums are kept in float32 at least, integer sums in C's type. Where the machine sums products of 8 bits by fours
    or of 16 bits by pairs (AVX512-VNNI), integers are multiplied so: exact, as the sums wrap around like int32.

    Args:
        a, b, c: element types of the operands and of the accumulator.
        k: extent of the summed axis; an expression where it is not known.
        context: the context of the pipeline, for the machine's instructions.
        loads_bind: elements are used so seldom that reading them takes longer than multiplying them.
        tiles: whether tiles of AMX may form the product.
    """
    left, right, target = canonical(a), canonical(b), canonical(c)

    def divides(depth: int) -> bool:
        return isinstance(k, int) and k % depth == 0

    by_tiles = _by_tiles(left, right, target, context.vectors) if tiles and not loads_bind else None
    # A block begins with a step, so there has to be one.
    if by_tiles is not None and k != 0 and divides(by_tiles.depth):
        return by_tiles
    # The instruction sums pairs along K, so K has to be even: an odd rest would need a form of its own.
    # A slow one still saves the instructions that widen its operands.
    pairs = context.vectors.bf16_dot and (loads_bind or not context.vectors.slow_bf16_dot)
    if left == right == "bfloat16" and divides(2) and pairs:
        return DotProduct("bfloat16", "uint32", "float32", 2, "tl_dot_bf16")
    unit = context.vectors
    bytes_by_fours = divides(4) and left.is_integer and right.is_integer and left.bits <= 8 and right.bits <= 8
    if target == "int32" and unit.like_dot and bytes_by_fours and left.kind == right.kind:
        return DotProduct(_signedness(left), "uint32", "int32", 4, "tl_dot_s8s8" if left.kind == "int" else "tl_dot_u8u8")
    if target == "int32" and unit.int_dot:
        if bytes_by_fours:
            return _by_fours(_signedness(left), _signedness(right))
        # vpdpwssd multiplies signed 16-bit numbers: unsigned ones need a bit more than they have.
        if divides(2) and _fits_int16(left) and _fits_int16(right):
            return DotProduct("int16", "uint32", "int32", 2, "tl_dot_int16")
    if left.is_float:
        dtype = "float64" if "float64" in (left, target) else "float32"
        return DotProduct(dtype, dtype, dtype)
    # All else in C's own type, in which sums wrap around as they should.
    return DotProduct(str(target), str(target), str(target))


def _by_tiles(a: DType, b: DType, c: DType, unit: Any) -> DotProduct | None:
    """Products by the tiles of AMX; None where the machine has none for these types."""
    if a == b == "bfloat16" and "bfloat16" in unit.tiles and c != "float64":
        instruction = INSTRUCTIONS["bfloat16", "bfloat16"]
        return DotProduct("bfloat16", "uint32", "float32", 2, tile=instruction, rounding=ROUND if unit.bf16_dot else "")
    if not (a.is_integer and b.is_integer and a.bits <= 8 and b.bits <= 8 and c == "int32" and "int8" in unit.tiles):
        return None
    pair = _signedness(a), _signedness(b)
    return DotProduct(pair[0], "uint32", "int32", 4, operand_b=pair[1], tile=INSTRUCTIONS[pair])


def _by_fours(a: str, b: str) -> DotProduct:
    """Products of 8 bits: the instruction multiplies unsigned by signed ones, so B's sign bit is flipped where both are the same.

    Flipping the bit adds 128 to signed elements of B, and subtracts 128 from unsigned ones (read as signed). So each sum is too
    large or too small by 128 times the sum of A's row, which is corrected at the end.
    """
    bias = 0 if a != b else (128 if b == "int8" else -128)
    return DotProduct(a, "uint32", "int32", 4, "tl_dot_u8s8" if a == "uint8" else "tl_dot_s8u8", operand_b=b, bias=bias)


def _signedness(dtype: DType) -> str:
    """The type of 8 bits that holds values of a narrow integer."""
    return "int8" if dtype.kind == "int" else "uint8"


def _fits_int16(dtype: DType) -> bool:
    return dtype.is_integer and dtype.bits + (dtype.kind == "uint") <= 16


def _int8_llvm(lanes: int, order: str) -> str:
    words, instruction = f"<{lanes} x i32>", f"@llvm.x86.avx512.vpdpbusd.{lanes * 32}"
    first, second = ("%a", "%b") if order == "u8s8" else ("%b", "%a")
    return f"""
declare {words} {instruction}({words}, {words}, {words})
define {words} @tl_dot_{order}_{lanes}({words} %sum, {words} %a, {words} %b) alwaysinline {{
  %r = call {words} {instruction}({words} %sum, {words} {first}, {words} {second})
  ret {words} %r
}}"""


def _like_llvm(name: str, instruction: str) -> str:
    function = f"@llvm.aarch64.neon.{instruction}.v4i32.v16i8"
    return f"""
declare <4 x i32> {function}(<4 x i32>, <16 x i8>, <16 x i8>)
define <4 x i32> @{name}(<4 x i32> %sum, <4 x i32> %a, <4 x i32> %b) alwaysinline {{
  %x = bitcast <4 x i32> %a to <16 x i8>
  %y = bitcast <4 x i32> %b to <16 x i8>
  %r = call <4 x i32> {function}(<4 x i32> %sum, <16 x i8> %x, <16 x i8> %y)
  ret <4 x i32> %r
}}"""


def _like_c(name: str, sign: str) -> str:
    kind = "uint" if sign == "u" else "int"
    return (
        "#include <arm_neon.h>\n"
        f"static inline i32x4 {name}(i32x4 sum, u32x4 a, u32x4 b) {{\n"
        f"  return (i32x4)vdotq_{sign}32(({kind}32x4_t)sum, ({kind}8x16_t)a, ({kind}8x16_t)b);\n}}"
    )


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


def _int8_c(lanes: int, order: str) -> str:
    prefix, integers = _REGISTER_NAMES[lanes][0], {4: "__m128i", 8: "__m256i", 16: "__m512i"}[lanes]
    first, second = ("a", "b") if order == "u8s8" else ("b", "a")
    return (
        "#include <immintrin.h>\n"
        f"static inline i32x{lanes} tl_dot_{order}_{lanes}(i32x{lanes} sum, u32x{lanes} a, u32x{lanes} b) {{\n"
        f"  return (i32x{lanes}){prefix}dpbusd_epi32(({integers})sum, ({integers}){first}, ({integers}){second});\n}}"
    )


for _lanes in _REGISTER_NAMES:
    for _order in ("u8s8", "s8u8"):
        helpers.register(f"tl_dot_{_order}_{_lanes}", _int8_llvm(_lanes, _order), _int8_c(_lanes, _order))
    helpers.register(f"tl_dot_int16_{_lanes}", _int16_llvm(_lanes), _int16_c(_lanes))
    helpers.register(f"tl_dot_bf16_{_lanes}", _bf16_llvm(_lanes), _bf16_c(_lanes))
for _sign in "su":
    _name = f"tl_dot_{_sign}8{_sign}8_4"
    helpers.register(_name, _like_llvm(_name, f"{_sign}dot"), _like_c(_name, _sign))
