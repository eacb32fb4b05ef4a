"""Step ``check_features``: memory, clusters and products that the target's architecture does not have are errors.

Before and after: the same tile IR. Functions of threads are rows of :mod:`tilelang.target.cuda.intrinsics.table`, which say
themselves what they need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from tilelang.errors import UnsupportedError
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.memory import BARRIER, CLUSTER_BARRIER, TENSOR_MEMORY, is_array
from tilelang.ir.span import location_of
from tilelang.ir.visit import walk
from tilelang.target.cuda.arch import Feature
from tilelang.target.cuda.intrinsics.table import require
from tilelang.target.cuda.ir.cpp_types import byte_count
from tilelang.tileop import record_of

_Need = tuple[Feature, str] | None
"""A feature, and the words of the program that need it."""

_MEMORY: Mapping[str, _Need] = {
    BARRIER: (Feature.MBARRIER, "T.alloc_barrier"),
    CLUSTER_BARRIER: (Feature.CLUSTER, "T.alloc_cluster_barrier"),
    TENSOR_MEMORY: (Feature.TCGEN05, "T.alloc_tmem"),
}
_LOCAL_BYTES = 512 << 10
"""Local memory of a thread at most (CUDA C++ programming guide, "Technical Specifications per Compute Capability")."""

_PRODUCTS: Mapping[str, _Need] = {
    "wgmma": (Feature.WGMMA, "T.wgmma_gemm"),
    "tcgen05": (Feature.TCGEN05, "T.tcgen05_gemm"),
}


def check_features(func: Any, context: Any) -> Any:
    """The program itself.

    Raises:
        UnsupportedError: at the first statement that needs a feature which the target does not have, or more memory of a thread.
    """
    for stmt in walk(func.body):
        if isinstance(stmt, ir.AllocBuffer) and is_array(stmt.buffer):
            _check_size(stmt)
        need = _NEEDS[type(stmt)](stmt) if type(stmt) in _NEEDS else None
        if need is not None:
            require(context.target, *need, stmt.span)
    return func


def _check_size(stmt: Any) -> None:
    """Refuses an array of each thread that no thread has the memory for."""
    buffer, extents = stmt.buffer, [as_int(extent) for extent in stmt.buffer.shape]
    size = byte_count(prod(extents), str(buffer.dtype)) if all(isinstance(extent, int) for extent in extents) else 0
    if size > _LOCAL_BYTES:
        raise UnsupportedError(
            f"{buffer.name} has {size} bytes in each thread, and a thread {_LOCAL_BYTES} bytes of local memory at most",
            location_of(stmt.span),
            hint="share it out over the threads of the block (T.alloc_fragment), or keep it in a tensor",
        )


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
