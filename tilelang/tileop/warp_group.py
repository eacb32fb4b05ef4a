"""Warp-group products written by hand: ``T.ptx_wgmma_ss`` and ``T.ptx_wgmma_rs``, one instruction each, and the fence around."""

from __future__ import annotations

from typing import Any

from tilelang.dtypes import canonical
from tilelang.errors import OperandError, OptionError
from tilelang.ir.memory import lies_in_registers
from tilelang.ir.region import Region
from tilelang.tileop.base import TileOp, operand, reads, tile_operator, updates


@tile_operator("tl.warpgroup_fence_operand")
class FenceOperand(TileOp):
    """Registers whose accesses stay on their side of the statement; nothing else.

    Attributes:
        registers: an array or a fragment.
        first: the first of them, in elements of each thread.
        count: how many, of 32 bits; 0 for all.
    """

    registers: Region = reads()
    first: Any = operand(default=0)
    count: int = 0

    def register_numbers(self) -> tuple[Any, ...]:
        return (self.first,)


M = 64
"""Rows of every instruction."""


@tile_operator("tl.ptx_wgmma")
class WarpGroupInstruction(TileOp):
    """``C (64, n) += A (64, k) @ B (k, n)`` by a warp group, complete at ``T.warpgroup_wait``.

    Attributes:
        a: the shared tile that ``left`` describes, or the registers of A.
        b: the shared tile that ``right`` describes.
        c: the accumulators.
        left: the descriptor of A, a uint64; None where A is in registers.
        right: the descriptor of B.
        a_register, c_register: the element of each thread where A in registers, and C, begin.
        scale: 0 to overwrite C, 1 to add to it.
        n, k: sizes of the instruction.
        transpose_a, transpose_b: whether the operand's rows run along M or N instead of K.
    """

    a: Region = reads()
    b: Region = reads()
    c: Region = updates()
    left: Any = operand()
    right: Any = operand()
    a_register: Any = operand()
    c_register: Any = operand()
    scale: Any = operand()
    n: int = 0
    k: int = 0
    transpose_a: bool = False
    transpose_b: bool = False

    def check(self) -> None:
        """K is 32 bytes, descriptors are of shared tiles, and everything else is in registers."""
        bits = canonical(self.a.dtype).bits
        if self.k * bits != 256:
            raise OptionError(f"{self.spelling}: k is {256 // bits} for {self.a.dtype}, got {self.k}")
        held = [("C", self.c)] if self.left is not None else [("A", self.a), ("C", self.c)]
        for name, region in held:
            if not lies_in_registers(region):
                raise OperandError(f"{self.spelling}: {name} is in registers, {region.buffer.name} is in {region.scope}")

    def register_numbers(self) -> tuple[Any, ...]:
        return (self.a_register, self.c_register)

    @property
    def spelling(self) -> str:
        """The function that makes it."""
        return "T.ptx_wgmma_rs" if self.left is None else "T.ptx_wgmma_ss"
