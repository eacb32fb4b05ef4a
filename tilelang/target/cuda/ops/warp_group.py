"""``T.ptx_wgmma_ss`` and ``T.ptx_wgmma_rs`` as code: one instruction, whose descriptors and registers are the program's.

The program says where elements lie, so their layouts are not inferred: each tile has one that it annotates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilelang.dtypes import canonical
from tilelang.errors import DivergenceError, LayoutError
from tilelang.ir.access import READ
from tilelang.ir.memory import is_array
from tilelang.target.cuda.arch import WARP_GROUP, Feature
from tilelang.target.cuda.codegen.emitter import Emitter
from tilelang.target.cuda.intrinsics.table import require
from tilelang.target.cuda.ir.access import Access, Agent
from tilelang.target.cuda.ir.code import Code, leaf
from tilelang.target.cuda.ir.cpp_types import ptx_operand, ptx_type
from tilelang.target.cuda.ir.instructions import PinRegisters, WarpGroupMultiply
from tilelang.target.cuda.ir.values import Cast
from tilelang.target.cuda.ir.wgmma import Wgmma
from tilelang.target.cuda.operators import OperatorRule, implements
from tilelang.tileop.warp_group import FenceOperand, WarpGroupInstruction


@implements(WarpGroupInstruction)
class WarpGroupInstructionRule(OperatorRule):
    """One ``wgmma`` instruction; the program itself provides operands, fences and waits."""

    in_warps = True

    def is_asynchronous(self, op: Any) -> bool:
        return True

    def plan(self, node: Any, problem: Any, memory: Mapping[Any, Any]) -> Wgmma:
        return _instruction(node.op)

    def pinned(self, node: Any, emitter: Emitter) -> list[Any]:
        return [_pinned(emitter, node.op.c.buffer)]

    def lower(self, node: Any, generator: Any) -> list[Code]:
        e, op = generator.emitter, node.op
        require(e.target, Feature.WGMMA, op.spelling)
        if len(e.threads) % WARP_GROUP:
            raise DivergenceError(f"{op.spelling} is run by whole warp groups, here are {len(e.threads)} threads")
        _require_layouts(e, op)
        generator.in_flight.start(node)
        left = e.array(op.a.buffer).to(e.index(op.a_register)) if op.left is None else e.value(op.left)
        accumulator = e.array(op.c.buffer).to(e.index(op.c_register))
        code = leaf([WarpGroupMultiply(e.layouts.plans[node], accumulator, left, e.value(op.right), e.value(op.scale))])
        tiles = {e.storage(region.buffer) for region in (op.a, op.b)} - {None}
        code.accesses += tuple(Access(tile, READ, Agent.TENSOR_CORE) for tile in tiles)
        return [code]


@implements(FenceOperand)
class FenceRule(OperatorRule):
    """``T.warpgroup_fence_operand``."""

    cooperative = collective = False

    def lower(self, node: Any, generator: Any) -> list[Code]:
        op, e = node.op, generator.emitter
        return [leaf([_pinned(e, op.registers.buffer, e.index(op.first), op.count)])]


def _pinned(e: Emitter, buffer: Any, first: Any = 0, count: int = 0) -> PinRegisters:
    """Keeps accesses of 32-bit registers on their side; 0 are all of the array or fragment."""
    bits, pointer = canonical(str(buffer.dtype)).bits, e.array(buffer).to(first)
    return PinRegisters(count or e.layouts.held(buffer) * bits // 32, pointer if bits == 32 else Cast(pointer, "word"))


def _instruction(op: WarpGroupInstruction) -> Wgmma:
    left, right = ptx_operand(op.a.dtype), ptx_operand(op.b.dtype)
    try:
        return Wgmma(op.n, ptx_type(op.c.dtype), left, right, op.left is None, op.transpose_a, op.transpose_b)
    except ValueError as error:
        raise LayoutError(f"{op.spelling}: {error}") from None


def _require_layouts(e: Emitter, op: WarpGroupInstruction) -> None:
    """Raises where tiles lie elsewhere than the program's descriptors and offsets know."""
    annotated = {e.root(buffer): layout for buffer, layout, _ in e.tree.hints.layouts}
    for region in (op.a, op.b, op.c):
        root = e.root(region.buffer)
        if not is_array(region) and (root not in annotated or e.layouts.place_of(root) != annotated[root]):
            hint = f"T.annotate_layout({{{root.name}: ...}}), with a layout that descriptors have"
            raise LayoutError(f"{op.spelling}: the program does not fix the layout of {root.name}", hint=hint)
