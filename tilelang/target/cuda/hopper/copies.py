"""Code of what only Hopper has: products by warp groups, and copies by the tensor memory accelerator.

The plans are made in :mod:`wgmma` and :mod:`tma`; here they meet a kernel's names, layouts and scopes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from tilelang.dtypes import canonical
from tilelang.errors import CompileError
from tilelang.ir.region import Region
from tilelang.ir.span import location_of
from tilelang.target.cuda.codegen.emitter import TID, Emitter
from tilelang.target.cuda.hopper import tma, wgmma
from tilelang.target.cuda.hopper.wgmma import COMPLETE, IN_FLIGHT
from tilelang.target.cuda.hopper.wgmma_layout import panel_bytes_of
from tilelang.target.cuda.inference.layouts import ThreadScope
from tilelang.target.cuda.ir.access import READ, Unit
from tilelang.target.cuda.ir.code import Block, BranchCode, Leaf, leaf
from tilelang.target.cuda.ir.instructions import ExpectBytes, WaitBulk
from tilelang.target.cuda.ir.values import Array, Binary, Call, Cast, Pointer, Unary, Value, value_of
from tilelang.tileop.atomic import AtomicTile
from tilelang.tileop.copy import Copy

WARP = 32


@dataclass(eq=False)
class Descriptors:
    """The tensor maps of a kernel, each description once."""

    specs: list[Any] = field(default_factory=list)

    def take(self, plan: tma.TmaPlan) -> tma.TmaPlan:
        """The plan over the kernel's descriptor of that description."""
        return replace(plan, spec=self.take_spec(plan.spec))

    def take_spec(self, spec: Any) -> Any:
        """The kernel's descriptor of a description, whatever its name."""
        for known in self.specs:
            if replace(spec, name=known.name) == known:
                return known
        taken = {known.name for known in self.specs}
        base = name = f"{spec.tensor}_map"
        number = 1
        while name in taken:
            number += 1
            name = f"{base}_{number}"
        self.specs.append(replace(spec, name=name))
        return self.specs[-1]


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


def stays_in_flight(op: Any) -> bool:
    """Whether a product is started only; something later waits for it."""
    return op.wg_wait == IN_FLIGHT or op.kind != "gemm"


def accumulator_fences(emitter: Emitter, nodes: Iterable[Any]) -> list[Any]:
    """What keeps the compiler from reading the accumulators of some products before."""
    found: dict[Any, list[Any]] = {}
    for node in nodes:
        buffer = node.op.c.buffer
        found[buffer] = wgmma.pinned(emitter.layouts.products[node].wgmma, emitter.array(buffer), None)
    return [code for fences in found.values() for code in fences]


def emit_product(emitter: Emitter, node: Any) -> Leaf:
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


def plan_bulk(emitter: Emitter, op: Any, reduction: str | None = None) -> tma.TmaPlan | None:
    """The plan of a copy with the layout that its shared tile got."""
    inner = op.dst if emitter.is_shared(op.dst.buffer) else op.src
    if not emitter.is_shared(inner.buffer) or inner.buffer in emitter.slots:
        return None
    plan = tma.plan_copy(op.src, op.dst, emitter.layouts.memory[inner.buffer], emitter.facts, "", reduction)
    if plan is None:
        return None
    tensor = emitter.root(plan.global_region.buffer)  # a view has the address of the argument that it is a view of
    if all(not tensor.same_as(param) for param in emitter.kernel.func.params):
        return None
    return replace(plan, spec=replace(plan.spec, tensor=str(tensor.name)))


def emit_bulk_copy(emitter: Emitter, descriptors: Descriptors, node: Any, single_thread: bool) -> Leaf:
    """The code of ``T.tma_copy``: started, and completed by the program's own waits.

    Args:
        single_thread: whether one thread runs this already, and the barrier expects the bytes.

    Raises:
        CompileError: the accelerator cannot do this copy.
    """
    op: Copy = node.op
    plan = plan_bulk(emitter, op)
    if plan is None:
        raise CompileError(
            "T.tma_copy: the tensor memory accelerator cannot do this copy", location_of(node.span),
            "it moves whole shared tiles from tensors with a compact innermost axis and strides of 16 bytes; see docs/hopper.md",
        )  # fmt: skip
    plan = descriptors.take(plan)
    tile = emitter.array(plan.shared_region.buffer)
    if not plan.load:
        return leaf(_elected(emitter.scope, tma.stores(plan, tile, emitter.index)))
    if op.barrier is None:
        raise CompileError("T.tma_copy: a load needs a barrier to complete on", location_of(node.span), "pass barrier=")
    barrier = emitter.places.address(op.barrier.buffer, list(op.barrier.mins))
    code = _load_code(emitter, op, plan, tile, barrier)
    return leaf(code if single_thread else _elected(emitter.scope, [ExpectBytes(barrier, plan.bytes), *code]))


def _load_code(emitter: Emitter, op: Copy, plan: tma.TmaPlan, tile: Array, barrier: Value) -> list[Any]:
    alone = tma.loads(plan, tile, barrier, emitter.index, policy=_policy(op))
    mask = op.cluster_mask
    if mask is None:
        return alone
    rank = Call("tl::cluster_rank")
    leads, takes_part = rank.is_("==", (mask & -mask).bit_length() - 1), value_of(mask) >> rank & 1
    multicast = tma.loads(plan, tile, barrier, emitter.index, multicast=mask)
    return [BranchCode(leads, Block(multicast), Block([BranchCode(Unary("!", takes_part), Block(alone))]))]


def _policy(op: Copy) -> str | None:
    return op.eviction_policy if op.eviction_policy not in (None, "evict_normal") else None


def bulk_store(emitter: Emitter, descriptors: Descriptors, node: Any, read_later: bool) -> Leaf | None:
    """The code of a ``T.copy`` or atomic tile from shared to global memory by the accelerator; None where threads must do it.

    Args:
        read_later: whether the kernel reads the tensor, which threads may then do only after the threads' own stores.
    """
    op = node.op
    reduction = tma.reduction_of(op) if isinstance(op, AtomicTile) else None
    if read_later or (isinstance(op, AtomicTile) and reduction is None) or (isinstance(op, Copy) and op.disable_tma):
        return None
    plan = plan_bulk(emitter, op, reduction)
    if plan is None or plan.load:
        return None
    plan = descriptors.take(plan)
    code = tma.stores(plan, emitter.array(plan.shared_region.buffer), emitter.index, reduction)
    if reduction is None and emitter.iterations.repeats(node, plan.global_region):
        code.insert(0, WaitBulk(complete=True))  # stores in flight are not ordered among each other
    return leaf(_elected(emitter.scope, [*code, WaitBulk()]))


def _elected(scope: ThreadScope, code: list[Any]) -> list[Any]:
    """Code that one thread of a scope runs."""
    if scope.count % WARP:
        return [BranchCode(TID.is_("==", scope.first), Block(code))]
    return [BranchCode(elected_in(scope), Block(code))]


def elected_in(scope: ThreadScope) -> Value:
    """Whether this is the one thread that the hardware elects in the first warp of a scope."""
    return Binary("&&", Call("tl::warp_rank").is_("==", scope.first // WARP), Call("tl::elect_one"))
