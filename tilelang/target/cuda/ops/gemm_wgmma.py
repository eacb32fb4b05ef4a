"""Products by warp groups: the plan of :mod:`~tilelang.target.cuda.hopper.wgmma` with a kernel's names, layouts and scopes."""

from __future__ import annotations

from typing import Any

from tilelang.dtypes import canonical
from tilelang.errors import CompileError
from tilelang.ir.region import Region
from tilelang.ir.span import location_of
from tilelang.target.cuda.codegen.emitter import Emitter
from tilelang.target.cuda.hopper import wgmma
from tilelang.target.cuda.hopper.wgmma import COMPLETE, IN_FLIGHT
from tilelang.target.cuda.hopper.wgmma_layout import panel_bytes_of
from tilelang.target.cuda.ir.access import READ, Unit
from tilelang.target.cuda.ir.code import Leaf, leaf
from tilelang.target.cuda.ir.values import Cast, Pointer, Value


def can_multiply(emitter: Emitter, node: Any) -> bool:
    """Whether a product that was planned for warp groups can be done so with the layouts that its operands got."""
    op = node.op
    for region in (op.a, op.b):
        if emitter.is_shared(region.buffer):
            operand = _operand(emitter, region, op)
            if panel_bytes_of(operand.layout, operand.bits) is None:
                return False
            if not wgmma.tile_is_aligned(operand, emitter.facts.divisible):
                return False
    return True


def emit_warp_group_product(emitter: Emitter, node: Any) -> Leaf:
    """The code of a product by warp groups."""
    op, plan = node.op, emitter.layouts.products[node].wgmma
    if op.wg_wait <= COMPLETE:
        return leaf(wgmma.complete(plan, emitter.array(op.c.buffer), COMPLETE - op.wg_wait))
    if not can_multiply(emitter, node):
        raise CompileError(
            f"T.gemm: the layout of {op.a.buffer.name} or {op.b.buffer.name} is not one that warp group instructions read",
            location_of(node.span), "leave the layout to the compiler, or set TL_DISABLE_WGMMA",
        )  # fmt: skip
    left = emitter.array(op.a.buffer) if plan.a_layout is not None else _operand(emitter, op.a, op)
    product = wgmma.multiply(
        plan, left, _operand(emitter, op.b, op), emitter.array(op.c.buffer), lower=emitter.index,
        clear=_clear(emitter, op.clear_accum), wait=op.wg_wait != IN_FLIGHT and op.kind == "gemm",
        first_group=emitter.scope.first // wgmma.WARP_GROUP,
    )  # fmt: skip
    return leaf([product])


def _clear(emitter: Emitter, clear: Any) -> bool | Value:
    return bool(clear) if isinstance(clear, (bool, int)) else emitter.value(clear)


def _operand(emitter: Emitter, region: Region, op: Any) -> wgmma.SharedOperand:
    along_k = not op.transpose_a if region is op.a else bool(op.transpose_b)
    buffer, bits = region.buffer, canonical(region.dtype).bits
    pointer: Value = Cast(Pointer(emitter.array(buffer), kind=READ, unit=Unit.TENSOR_CORE), "byte", constant=True)
    if buffer in emitter.slots:
        pointer = pointer + emitter.slots[buffer][0] * (emitter.places.slot_elements(buffer) * bits // 8)
    return wgmma.SharedOperand(pointer, emitter.layouts.memory[buffer], region, bits, along_k)
