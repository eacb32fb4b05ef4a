"""Matrix products: ``T.gemm``, ``T.gemm_sp`` and their forms for warp groups, in whichever way suits them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_fragment
from tilelang.target.cuda.arch import Feature, arch_of
from tilelang.target.cuda.codegen.emitter import Emitter
from tilelang.target.cuda.ir.code import Code
from tilelang.target.cuda.operators import Asynchronous, OperatorRule, TileDemand, implements
from tilelang.target.cuda.ops.gemm_plan import COMPLETE, FOLLOWS, IN_FLIGHT, Product, is_asynchronous, tiles_fit
from tilelang.target.cuda.ops.gemm_wgmma import plan_by_warp_groups, plan_gemm
from tilelang.target.cuda.tile.tree import Scalar, is_matrix
from tilelang.tileop.gemm import Gemm, GemmSparse
from tilelang.tileop.thread import intrinsic_call


class ProductRule(OperatorRule):
    """``T.gemm``, ``T.gemm_sp`` and their forms for warp groups."""

    in_warps = True
    is_ordered = True

    def overwritten(self, op: Any) -> Any:
        return op.c if op.clear_accum in (True, 1) and op.c.is_whole else None

    def plan(self, node: Any, problem: Any, memory: Mapping[Any, Any]) -> Product:
        from tilelang.target.cuda.ops.gemm_warps import plan_by_warps  # kernels of warp groups have no need of it

        return plan_by_warps(node, problem)

    def demands(self, op: Any, plan: Product) -> Iterable[tuple[Any, Any]]:
        return plan.fragments

    def tiles(self, op: Any, plan: Product) -> Iterable[TileDemand]:
        return plan.tiles(op)

    def misfits(self, op: Any, plan: Product, fragments: Mapping[Any, Any]) -> Iterable[tuple[Any, str]]:
        return plan.misfits(op)

    def read(self, op: Any, span: Any, reader: Any) -> list[Any]:
        """The product on whole matrices: operands and results that are parts of fragments get fragments of their own."""
        before, after = [], []
        for name, region in (("a", op.a), ("b", op.b)):
            if is_fragment(region) and not is_matrix(region):
                part = reader.temporary(region, "part", matrix=True)
                before.append(reader.copy(region, part, span))
                op = op.replace(**{name: part})
        if not is_matrix(op.c):
            wide = reader.temporary(op.c, "accum", matrix=True)
            # The accumulators start with the old values of C. Where they are certainly cleared, nothing of C is read.
            if op.clear_accum not in (True, 1):
                before.append(reader.copy(op.c, wide, span))
            after.append(reader.copy(wide, op.c, span))
            op = op.replace(c=wide)
        # A product that the program waits for later may use its registers until then; the copies need them at once.
        stays = self.is_asynchronous(op) and reader.target is not None and arch_of(reader.target).uses(Feature.WGMMA)
        wait = [Scalar(ir.Evaluate(intrinsic_call("wait_wgmma", 0), span))] if stays and (before or after) else []
        return [*before, reader.operator(op, span), *wait, *after]

    def lower(self, node: Any, generator: Any) -> list[Code]:
        return generator.emitter.layouts.plans[node].lower(node, generator)


@implements(Gemm)
class DenseProduct(ProductRule):
    """``T.gemm``, which warp groups may leave in flight."""

    local = True

    def plan(self, node: Any, problem: Any, memory: Mapping[Any, Any]) -> Product:
        return plan_by_warp_groups(node, problem, memory) or super().plan(node, problem, memory)

    def takes_shared(self, op: Any, buffers: set[Any]) -> bool:
        return op.c.buffer not in buffers

    def is_asynchronous(self, op: Any) -> bool:
        return is_asynchronous(op)

    def at_once(self, op: Any) -> list[Any]:
        if op.wg_wait <= COMPLETE:
            return []
        return [op.replace(kind="gemm", wg_wait=FOLLOWS)] if is_asynchronous(op) else [op]

    def asynchronous(self, op: Any) -> Asynchronous | None:
        if op.wg_wait != 0 or op.kind != "gemm":
            return None
        return Asynchronous(
            started=op.replace(wg_wait=IN_FLIGHT),
            awaited=lambda pending: op.replace(wg_wait=COMPLETE - pending),
            accumulates=op.clear_accum in (False, 0),
            may_stay_in_flight=lambda threads: tiles_fit(op) and plan_gemm(op, threads) is not None,
        )

    def pinned(self, node: Any, emitter: Emitter) -> list[Any]:
        return emitter.layouts.plans[node].pinned(node, emitter)


@implements(GemmSparse)
class SparseProduct(ProductRule):
    """``T.gemm_sp``, by ``mma.sp`` where the tensor cores read the operand as it is."""

    def read(self, op: Any, span: Any, reader: Any) -> list[Any]:
        from tilelang.target.cuda.ops.gemm_sparse import expansion_nest
        from tilelang.target.cuda.ops.gemm_warps import takes_sparse

        if reader.target is not None and takes_sparse(op, reader.threads, reader.target):
            return super().read(op, span, reader)
        dense = reader.shared([as_int(op.m), as_int(op.k)], op.a.dtype, f"{op.a.buffer.name}_dense")
        product = Gemm(dense, op.b, op.c, op.clear_accum, transpose_b=op.transpose_b, policy=op.policy)
        expansion = expansion_nest(op, dense.buffer, span)
        return [reader.parallel(expansion), *super().read(product, span, reader)]
