"""Packing a transposed operand: blocks of 16 x 16 words are transposed in registers.

A compiler makes gathers of the loop, which take four cycles a word. Here a block takes 16 loads, four rounds of 16 shuffles (of
words, of pairs of words, and twice of quarters of the register), and 16 stores; 32 where words are pairs of bfloat16 that are
stored as float32, the first of each pair in one row and the second in the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.target.cpu import helpers
from tilelang.target.cpu.emit import address_of, extern_call

SIDE = 16
"""Rows and columns of a block, in words of 32 bits."""

_NAMES = {False: "tl_transpose_16x16", True: "tl_transpose_16x16_widened"}
"""Whether words are pairs of bfloat16 that are widened -> the helper function."""

_SHUFFLES = {
    # name -> what is taken of each quarter of both operands (b's words count from 4), or which quarters; the C intrinsic
    "words_low": ((0, 4, 1, 5), "_mm512_unpacklo_epi32({a}, {b})"),
    "words_high": ((2, 6, 3, 7), "_mm512_unpackhi_epi32({a}, {b})"),
    "pairs_low": ((0, 1, 4, 5), "_mm512_unpacklo_epi64({a}, {b})"),
    "pairs_high": ((2, 3, 6, 7), "_mm512_unpackhi_epi64({a}, {b})"),
    "even_quarters": ((0, 2), "_mm512_shuffle_i32x4({a}, {b}, 0x88)"),
    "odd_quarters": ((1, 3), "_mm512_shuffle_i32x4({a}, {b}, 0xdd)"),
}


def transpose(target: Any, columns: int, source: Any, stride: Any, flipped: int = 0, widened: bool = False) -> Any:
    """The statement that stores, transposed, the block whose first word is at ``source``.

    Args:
        target, source: the loads of the first elements.
        columns: words in a row of the target.
        stride: words in a row of the source.
        flipped: bits that change in each word.
        widened: words are pairs of bfloat16, and are stored as two rows of float32.
    """
    places = [address_of(first) for first in (target, source)]
    distance = ir.IntImm("int64", stride) if isinstance(stride, int) else ir.Cast("int64", stride)
    arguments = [places[0], ir.IntImm("int64", columns), places[1], distance, ir.IntImm("uint32", flipped)]
    return ir.Evaluate(extern_call(_NAMES[widened], arguments, "int32", pure=False))


def _rounds() -> list[list[tuple[str, int, int]]]:
    """Of each round, the shuffle that gives each register, and the registers of the round before that it takes."""
    # Each round doubles the length of the runs of one column: words of two rows, of four (pairs), of eight (halves), of all
    # sixteen.
    words = [(name, 2 * i, 2 * i + 1) for i in range(8) for name in ("words_low", "words_high")]
    pairs = [
        (("pairs_low", "pairs_high")[column % 2], 4 * group + column // 2, 4 * group + column // 2 + 2)
        for group in range(4)
        for column in range(4)
    ]

    def quarters(distance: int, groups: list[tuple[int, str]]) -> list[tuple[str, int, int]]:
        return [(name, first + j, first + j + distance) for first, name in groups for j in range(4)]

    halves = quarters(4, [(0, "even_quarters"), (0, "odd_quarters"), (8, "even_quarters"), (8, "odd_quarters")])
    whole = quarters(8, [(0, "even_quarters"), (4, "even_quarters"), (0, "odd_quarters"), (4, "odd_quarters")])
    return [words, pairs, halves, whole]


def _mask(name: str) -> list[int]:
    """The words of both operands that a shuffle takes, b's counted from 16."""
    taken, _ = _SHUFFLES[name]
    if len(taken) == 2:
        return [operand * 16 + quarter * 4 + word for operand in (0, 1) for quarter in taken for word in range(4)]
    return [quarter * 4 + (word if word < 4 else word + 12) for quarter in range(4) for word in taken]


def _body(load: Callable, shuffle: Callable, store: Callable) -> str:
    lines, registers = [load(row) for row in range(SIDE)], [f"r0_{row}" for row in range(SIDE)]
    for number, round_ in enumerate(_rounds(), start=1):
        results = [f"r{number}_{i}" for i in range(SIDE)]
        lines += [shuffle(result, name, registers[a], registers[b]) for result, (name, a, b) in zip(results, round_)]
        registers = results
    return "\n".join([*lines, *(store(row, register) for row, register in enumerate(registers))])


def _llvm(widened: bool) -> str:
    kind = "<16 x i32>"

    def load(row: int) -> str:
        return (
            f"  %so{row} = mul i64 %from, {row}\n  %sp{row} = getelementptr i32, ptr %source, i64 %so{row}\n"
            f"  %l{row} = load {kind}, ptr %sp{row}, align 1\n  %r0_{row} = xor {kind} %l{row}, %flip"
        )

    def shuffle(result: str, name: str, a: str, b: str) -> str:
        mask = ", ".join(f"i32 {word}" for word in _mask(name))
        return f"  %{result} = shufflevector {kind} %{a}, {kind} %{b}, {kind} <{mask}>"

    def put(row: int, register: str) -> str:
        return (
            f"  %to{row} = mul i64 %to, {row}\n  %tp{row} = getelementptr i32, ptr %target, i64 %to{row}\n"
            f"  store {kind} %{register}, ptr %tp{row}, align 4"
        )

    def halves(row: int, register: str) -> str:
        # bfloat16 is the upper half of a float32; the first of a pair is the lower half of its word.
        low, high = f"low{row}", f"high{row}"
        made = f"  %{low} = shl {kind} %{register}, splat (i32 16)\n  %{high} = and {kind} %{register}, splat (i32 -65536)\n"
        return f"{made}{put(2 * row, low)}\n{put(2 * row + 1, high)}"

    store = halves if widened else put

    return f"""
define i32 @{_NAMES[widened]}(ptr %target, i64 %to, ptr %source, i64 %from, i32 %flipped) alwaysinline {{
  %one = insertelement {kind} poison, i32 %flipped, i32 0
  %flip = shufflevector {kind} %one, {kind} poison, {kind} zeroinitializer
{_body(load, shuffle, store)}
  ret i32 0
}}"""


def _c(widened: bool) -> str:
    def load(row: int) -> str:
        return f"  const __m512i r0_{row} = _mm512_xor_si512(_mm512_loadu_si512((const uint32_t*)source + {row} * from), flip);"

    def shuffle(result: str, name: str, a: str, b: str) -> str:
        return f"  const __m512i {result} = {_SHUFFLES[name][1].format(a=a, b=b)};"

    def put(row: int, register: str) -> str:
        return f"  _mm512_storeu_si512((uint32_t*)target + {row} * to, {register});"

    def halves(row: int, register: str) -> str:
        low, high = f"_mm512_slli_epi32({register}, 16)", f"_mm512_and_si512({register}, _mm512_set1_epi32(-65536))"
        return f"{put(2 * row, low)}\n{put(2 * row + 1, high)}"

    store = halves if widened else put

    parameters = "void* target, int64_t to, const void* source, int64_t from, uint32_t flipped"
    return (
        "#include <immintrin.h>\n"
        f"static inline int32_t {_NAMES[widened]}({parameters}) {{\n"
        f"  const __m512i flip = _mm512_set1_epi32((int)flipped);\n{_body(load, shuffle, store)}\n  return 0;\n}}"
    )


for _widened, _name in _NAMES.items():
    helpers.register(_name, _llvm(_widened), _c(_widened))
