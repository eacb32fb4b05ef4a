"""The context of the CPU pipeline's steps: the compilation's options and the machine's vector unit."""

from __future__ import annotations

from dataclasses import dataclass

from tilelang.assumptions import Assumption
from tilelang.target.host import SLOW_BF16_DOT
from tilelang.target.info import TargetInfo
from tilelang.target.request import CompileRequest

_SAFE_MEMORY_OFF = "tl.disable_safe_memory_legalize"


@dataclass(frozen=True, slots=True)
class VectorUnit:
    """The vector registers that generated code may use.

    Attributes:
        bits: width of one register.
        registers: how many there are.
        bf16_dot: pairs of bfloat16 products are summed into float32 lanes by one instruction (AVX512-BF16).
        slow_bf16_dot: that instruction is slower than multiply-adds of float32.
        int_dot: pairs of 16-bit and fours of 8-bit products are summed into int32 lanes by one instruction (AVX512-VNNI).
        tiles: the types whose products are formed by tiles of AMX: "bfloat16", "int8" (signed or not).
        like_dot: fours of products of 8-bit numbers that are both signed, or both unsigned, are (Arm's dot product extension).
    """

    bits: int
    registers: int
    bf16_dot: bool = False
    int_dot: bool = False
    like_dot: bool = False
    slow_bf16_dot: bool = False
    tiles: tuple[str, ...] = ()

    def lanes(self, dtype_bits: int) -> int:
        """Elements of a type in one register."""
        return self.bits // dtype_bits


_UNITS = (
    # LLVM feature that the target must have -> width, registers; the first that matches
    ("avx512f", 512, 32),
    ("avx2", 256, 16),
    ("avx", 256, 16),
    ("neon", 128, 32),
)

_TILES = (("amx-bf16", "bfloat16"), ("amx-int8", "int8"))
"""LLVM feature -> the type whose products it brings to the tiles."""


def vector_unit(target: TargetInfo) -> VectorUnit:
    """The vector unit of a CPU target; 128 bits wide where nothing better is known."""
    for feature, bits, registers in _UNITS:
        if target.has(feature):
            wide, arm = bits == 512, feature == "neon"
            has = target.has
            return VectorUnit(
                bits,
                registers,
                wide and has("avx512bf16"),
                wide and has("avx512vnni"),
                like_dot=arm and has("dotprod"),
                slow_bf16_dot=has(SLOW_BF16_DOT),
                tiles=tuple(dtype for feature, dtype in _TILES if has("amx-tile") and has(feature)),
            )
    return VectorUnit(128, 16)


@dataclass(frozen=True)
class CpuContext:
    """Facts that no step changes.

    Attributes:
        request: what was asked for.
        name: the program's name.
        vectors: the machine's vector unit.
        assumptions: what the program takes for granted of a call.
        packed: the entry point takes TVM's packed arguments (``tvm_ffi``); otherwise plain C arguments.
    """

    request: CompileRequest
    name: str
    vectors: VectorUnit
    assumptions: tuple[Assumption, ...] = ()

    @property
    def packed(self) -> bool:
        return self.request.backend in ("tvm_ffi", "auto")

    @property
    def guards_accesses(self) -> bool:
        """Whether accesses of tensors outside of their bounds are left out."""
        return not self.request.config(_SAFE_MEMORY_OFF, False)

    @property
    def library_file(self) -> str:
        """The name of the library in the cache entry."""
        return "executable.so" if self.packed else "kernel_lib.so"

    @property
    def emits_c(self) -> bool:
        """Whether C text is generated instead of LLVM IR."""
        return self.request.target.kind == "c"
