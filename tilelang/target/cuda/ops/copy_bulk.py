"""Copies by the tensor memory accelerator: the plan of :mod:`~tilelang.target.cuda.hopper.tma` in a kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilelang.errors import CompileError
from tilelang.ir.span import location_of
from tilelang.target.cuda.codegen.emitter import Emitter
from tilelang.target.cuda.codegen.structure import elected
from tilelang.target.cuda.hopper import tma
from tilelang.target.cuda.ir.code import Block, BranchCode, Leaf, leaf
from tilelang.target.cuda.ir.instructions import ExpectBytes, WaitBulk
from tilelang.target.cuda.ir.values import Array, Call, Unary, Value, value_of


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


def emit_bulk_copy(generator: Any, node: Any) -> Leaf:
    """The code of ``T.tma_copy``: started, and completed by the program's own waits.

    Where one thread runs it already, the barrier expects the bytes. Below a condition of the program's own the threads that come
    start it: no other is there to be elected.

    Raises:
        CompileError: the accelerator cannot do this copy.
    """
    emitter, op = generator.emitter, node.op
    plan = plan_bulk(emitter, op)
    if plan is None:
        raise CompileError(
            "T.tma_copy: the tensor memory accelerator cannot do this copy", location_of(node.span),
            "it moves whole shared tiles from tensors with a compact innermost axis and strides of 16 bytes; see docs/hopper.md",
        )  # fmt: skip
    plan = emitter.descriptors.take(plan)
    tile = emitter.array(plan.shared_region.buffer)
    if not plan.load:
        stores = tma.stores(plan, tile, emitter.index)
        return leaf(stores if generator.divergent else elected(emitter.scope, stores))
    if op.barrier is None:
        raise CompileError("T.tma_copy: a load needs a barrier to complete on", location_of(node.span), "pass barrier=")
    barrier = emitter.places.address(op.barrier.buffer, list(op.barrier.mins))
    code = _load_code(emitter, op, plan, tile, barrier)
    if generator.single:
        return leaf(code)
    code = [ExpectBytes(barrier, plan.bytes), *code]
    return leaf(code if generator.divergent else elected(emitter.scope, code))


def _load_code(emitter: Emitter, op: Any, plan: tma.TmaPlan, tile: Array, barrier: Value) -> list[Any]:
    alone = tma.loads(plan, tile, barrier, emitter.index, policy=_policy(op))
    mask = op.cluster_mask
    if mask is None:
        return alone
    rank = Call("tl::cluster_rank")
    leads, takes_part = rank.is_("==", (mask & -mask).bit_length() - 1), value_of(mask) >> rank & 1
    multicast = tma.loads(plan, tile, barrier, emitter.index, multicast=mask)
    return [BranchCode(leads, Block(multicast), Block([BranchCode(Unary("!", takes_part), Block(alone))]))]


def _policy(op: Any) -> str | None:
    return op.eviction_policy if op.eviction_policy not in (None, "evict_normal") else None


def bulk_store(generator: Any, node: Any, reduction: str | None = None) -> Leaf | None:
    """The code of a copy from shared to global memory by the accelerator; None where threads must do it.

    Args:
        reduction: what combines the tile with what is there: ``"add"``, ``"max"`` or ``"min"``.
    """
    emitter, op = generator.emitter, node.op
    if emitter.descriptors is None or not emitter.bulk_stores:
        return None
    if op.dst.scope not in ("global", "") or not emitter.is_shared(op.src.buffer):
        return None
    # What the kernel reads must be visible to all threads, not only complete at its end.
    if op.dst.buffer in generator.read_tensors or emitter.root(op.dst.buffer) in emitter.tracked:
        return None
    plan = plan_bulk(emitter, op, reduction)
    if plan is None or plan.load:
        return None
    plan = emitter.descriptors.take(plan)
    code = tma.stores(plan, emitter.array(plan.shared_region.buffer), emitter.index, reduction)
    if reduction is None and emitter.iterations.repeats(node, plan.global_region):
        code.insert(0, WaitBulk(complete=True))  # stores in flight are not ordered among each other
    return leaf(elected(emitter.scope, [*code, WaitBulk()]))
