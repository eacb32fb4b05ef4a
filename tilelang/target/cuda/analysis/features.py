"""Step ``check_features``: memory, clusters and products that the target's architecture does not have are errors.

Before and after: the same tile IR. Functions of threads are rows of :mod:`tilelang.target.cuda.intrinsics.table`, which say
themselves what they need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.memory import BARRIER, CLUSTER_BARRIER, TENSOR_MEMORY
from tilelang.ir.visit import walk
from tilelang.target.cuda.arch import Feature
from tilelang.target.cuda.intrinsics.table import require
from tilelang.tileop import record_of

_Need = tuple[Feature, str] | None
"""A feature, and the words of the program that need it."""

_MEMORY: Mapping[str, _Need] = {
    BARRIER: (Feature.MBARRIER, "T.alloc_barrier"),
    CLUSTER_BARRIER: (Feature.CLUSTER, "T.alloc_cluster_barrier"),
    TENSOR_MEMORY: (Feature.TCGEN05, "T.alloc_tmem"),
}
_PRODUCTS: Mapping[str, _Need] = {
    "wgmma": (Feature.WGMMA, "T.wgmma_gemm"),
    "tcgen05": (Feature.TCGEN05, "T.tcgen05_gemm"),
}


def check_features(func: Any, context: Any) -> Any:
    """The program itself.

    Raises:
        UnsupportedError: at the first statement that needs a feature which the target does not have.
    """
    for stmt in walk(func.body):
        need = _NEEDS[type(stmt)](stmt) if type(stmt) in _NEEDS else None
        if need is not None:
            require(context.target, *need, stmt.span)
    return func


def _axis(stmt: Any) -> _Need:
    axis = stmt.attr_key == "thread_extent" and str(stmt.node.thread_tag).startswith("clusterCtaIdx")
    return (Feature.CLUSTER, "T.Kernel(cluster_dims=)") if axis and as_int(stmt.value) != 1 else None


def _operator(stmt: Any) -> _Need:
    kind = getattr(record_of(stmt), "kind", None)
    return _PRODUCTS.get(kind) if isinstance(kind, str) else None


_NEEDS: Mapping[type, Callable[[Any], _Need]] = {
    ir.AllocBuffer: lambda stmt: _MEMORY.get(stmt.buffer.scope()),
    ir.AttrStmt: _axis,
    ir.Evaluate: _operator,
}
"""Kind of statement -> what it needs."""
