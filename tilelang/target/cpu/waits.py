"""Step ``drop_waits``: a CPU block runs its statements in order, so what waits for threads or copies has nothing to wait for.

Before: a program that names no thread. After: the same without barriers of the block, commits, waits and fences.
"""

from __future__ import annotations

from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.visit import any_statement
from tilelang.target.cpu.emit import no_op
from tilelang.target.cpu.rewriter import StmtRewriter
from tilelang.tileop.thread import intrinsic_name

WAITS = frozenset(
    "sync_threads sync_warp ptx_commit_group ptx_wait_group fence_proxy_async tma_store_arrive tma_store_wait"
    " warpgroup_arrive warpgroup_commit_batch warpgroup_wait wait_wgmma pdl_trigger pdl_sync".split()
)
"""Intrinsics that order what threads, copies, products and launches do, and compute nothing."""


def drop_waits(func: Any, context: Any) -> Any:
    """The program without them."""
    return func.with_body(_Removal().stmt(func.body)) if any_statement(func.body, _waits) else func


def _waits(stmt: Any) -> bool:
    return isinstance(stmt, ir.Evaluate) and intrinsic_name(stmt.value) in WAITS


class _Removal(StmtRewriter):
    def visit_Evaluate(self, node: Any) -> Any:
        return no_op() if _waits(node) else node
