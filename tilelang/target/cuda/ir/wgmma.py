"""The text of wgmma instructions (PTX manual, "wgmma.mma_async").

One instruction names up to 128 accumulators, there are 32 widths for every pair of types, and a kernel uses one or two of them.
So the wrapper functions are not in a header: those that a kernel calls are written into its source, from their names:

    tl::wgmma_m64n128k16_f32_f16_f16_ss_tb(void* d, uint64_t a, uint64_t b, int scale_d)
    tl::wgmma_m64n64k16_f32_bf16_bf16_rs(void* d, const void* a, uint64_t b, int scale_d)

``d`` are the accumulators of the calling thread, ``a`` and ``b`` descriptors of shared tiles or the registers of A; the product
is added to ``d`` where ``scale_d`` is not zero and replaces it otherwise. ``_ta`` / ``_tb`` say that A or B is M/N-major.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

K_OF = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}
"""Elements of K that one instruction contracts, by operand type."""

ACCUMULATORS = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "e4m3": ("f16", "f32"), "e5m2": ("f16", "f32"),
                "s8": ("s32",), "u8": ("s32",)}  # fmt: skip
"""Accumulator types of an operand type."""

_C_TYPES = {"f32": ("float", "f"), "s32": ("int", "r"), "f16": ("uint32_t", "r")}
_FAMILIES = ({"f16"}, {"bf16"}, {"tf32"}, {"e4m3", "e5m2"}, {"s8", "u8"})
_NAME = re.compile(r"wgmma_m64n(\d+)k(\d+)_(f32|f16|s32)_(\w+?)_(\w+?)_(ss|rs)(_ta)?(_tb)?")


@dataclass(frozen=True, slots=True)
class Wgmma:
    """One wgmma instruction: D (64, n) += A (64, k) @ B (k, n) by a warp group.

    Attributes:
        n: a multiple of 8 up to 256; for integers 8, 24 or a multiple of 16 (PTX manual, "wgmma.mma_async", "Matrix shape").
        accumulator, a, b: PTX type names.
        a_in_registers: A comes from registers instead of shared memory.
        transpose_a, transpose_b: the operand's rows run along M or N instead of K (16-bit types only).
    """

    n: int
    accumulator: str
    a: str
    b: str
    a_in_registers: bool = False
    transpose_a: bool = False
    transpose_b: bool = False

    def __post_init__(self) -> None:
        if not is_valid_n(self.n, self.a):
            raise ValueError(f"wgmma has no form with n={self.n} for {self.a}")
        if not any({self.a, self.b} <= family for family in _FAMILIES) or self.accumulator not in ACCUMULATORS[self.a]:
            raise ValueError(f"wgmma does not multiply {self.a} by {self.b} into {self.accumulator}")
        if (self.transpose_a or self.transpose_b) and K_OF[self.a] != 16:
            raise ValueError(f"wgmma takes {self.a} operands with K innermost only")
        if self.transpose_a and self.a_in_registers:
            raise ValueError("wgmma takes A from registers in one order only")

    @property
    def k(self) -> int:
        """Elements of K."""
        return K_OF[self.a]

    @property
    def accumulator_registers(self) -> int:
        """32-bit registers of D in each thread."""
        # 64 * n elements over the 128 threads of a warp group; two of f16 share a register.
        return self.n // 4 if self.accumulator == "f16" else self.n // 2

    @property
    def name(self) -> str:
        """The device function, without its namespace."""
        source = "rs" if self.a_in_registers else "ss"
        major = ("_ta" if self.transpose_a else "") + ("_tb" if self.transpose_b else "")
        return f"wgmma_m64n{self.n}k{self.k}_{self.accumulator}_{self.a}_{self.b}_{source}{major}"

    def definition(self) -> str:
        """The CUDA text of the function (without its namespace)."""
        # Operands of inline assembly are numbered in the order in which they are listed: the accumulators (read and written), A,
        # B, the scale. PTX takes the scale of D as a predicate, which C++ has no type for, so the text makes one of an integer.
        c_type, constraint = _C_TYPES[self.accumulator]
        count = self.accumulator_registers
        a_count = 4 if self.a_in_registers else 1
        first_a, descriptor_b, scale = count, count + a_count, count + a_count + 1
        (a_text,) = _rows([f"%{first_a + i}" for i in range(a_count)], "{", "", "}") if self.a_in_registers else [f"%{first_a}"]
        a_operands = ", ".join(f'"r"(a[{i}])' for i in range(4)) if self.a_in_registers else '"l"(a)'
        lines = [
            f"TL_DEVICE void {self.name}(void* accumulator, {'const void* left' if self.a_in_registers else 'uint64_t a'}, "
            "uint64_t b, int scale_d) {",
            f"  {c_type}* d = static_cast<{c_type}*>(accumulator);",
            *(["  const uint32_t* a = static_cast<const uint32_t*>(left);"] if self.a_in_registers else []),
            "  asm volatile(",
            '      "{\\n.reg .pred p;\\n"',
            f'      "setp.ne.b32 p, %{scale}, 0;\\n"',
            f'      "wgmma.mma_async.sync.aligned.m64n{self.n}k{self.k}.{self.accumulator}.{self.a}.{self.b}\\n"',
            *(f'      "{row}\\n"' for row in _rows([f"%{i}" for i in range(count)], "{", " ", "},")),
            f'      "{a_text}, %{descriptor_b}, p{self._immediates()};\\n}}\\n"',
            *_rows([f'"+{constraint}"(d[{i}])' for i in range(count)], "      : ", "        ", ""),
            f'      : {a_operands}, "l"(b), "r"(scale_d));',
            "}",
        ]
        return "\n".join(lines) + "\n"

    def _immediates(self) -> str:
        """Scales of A and B, where the type has them, and the major-ness of shared operands, where it can be chosen."""
        if self.accumulator == "s32":
            return ""
        text = ", 1, 1"
        if self.k == 16:
            text += ("" if self.a_in_registers else f", {int(self.transpose_a)}") + f", {int(self.transpose_b)}"
        return text


def is_valid_n(n: int, operand: str) -> bool:
    """Whether an instruction of width ``n`` exists for operands of type ``operand``."""
    if operand in ("s8", "u8"):
        return n in (8, 24) or (n % 16 == 0 and 16 <= n <= 256)
    return n % 8 == 0 and 8 <= n <= 256


def _rows(items: list[str], first: str, other: str, end: str) -> list[str]:
    """A list in rows of eight: what is before the first row and before the others, and behind the last one."""
    rows = [", ".join(items[at : at + 8]) for at in range(0, len(items), 8)]
    return [(first if at == 0 else other) + row + ("," if at < len(rows) - 1 else end) for at, row in enumerate(rows)]


def parse(name: str) -> Wgmma | None:
    """The instruction that a device function's name (without ``tl::``) stands for; None for any other name."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    n, k, accumulator, a, b, source, transpose_a, transpose_b = match.groups()
    instruction = Wgmma(int(n), accumulator, a, b, source == "rs", bool(transpose_a), bool(transpose_b))
    return instruction if instruction.k == int(k) else None


def definitions(names: Iterable[str]) -> str:
    """The functions among ``names`` (without ``tl::``) that are wgmma instructions, defined; empty where there is none."""
    found = [instruction for instruction in map(parse, dict.fromkeys(names)) if instruction is not None]
    if not found:
        return ""
    return "namespace tl {\n" + "\n".join(instruction.definition() for instruction in found) + "}  // namespace tl\n"
