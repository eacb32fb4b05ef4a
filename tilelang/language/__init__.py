"""The tile language, by convention ``import tilelang.language as T``.

Names are resolved when they are first used (PEP 562), so that importing the language does not load the compiler: a process
that finds its kernels in the cache never does.
"""

from __future__ import annotations

import importlib
from typing import Any

from tilelang import dtypes as _dtypes
from tilelang.frontend.macro import macro
from tilelang.language.policy import GemmWarpPolicy
from tilelang.language.tensors import (
    Buffer,
    FragmentBuffer,
    LocalBuffer,
    SharedBuffer,
    StridedTensor,
    Tensor,
    const,
    contiguous,
    dynamic,
    empty,
    make_tensor,
    ptr,
    symbolic,
)

_MODULES: dict[str, str] = {
    # module -> the names that it gives
    "tilelang.frontend.program": "prim_func",
    "tilelang.language.kernel": (
        "Kernel ClusterKernel import_source func_attr get_thread_binding get_thread_bindings get_block_binding"
        " get_block_bindings get_thread_extent get_thread_extents get_block_extent get_block_extents get_cluster_dims"
        " get_cluster_size get_cluster_id get_cluster_extent"
    ),
    "tilelang.language.loops": "serial Serial unroll Unroll vectorized Vectorized Parallel Pipelined Persistent grid",
    "tilelang.language.allocate": (
        "alloc_shared alloc_fragment alloc_local alloc_var alloc_barrier alloc_cluster_barrier alloc_tmem alloc_reducer"
        " alloc_global"
    ),
    "tilelang.language.tile.copy": "copy async_copy tma_copy transpose c2d_im2col im2col fill clear",
    "tilelang.language.tile.gemm": "gemm wgmma_gemm tcgen05_gemm gemm_sp",
    "tilelang.language.tile.reduce": (
        "reduce reduce_sum reduce_max reduce_min reduce_abssum reduce_absmax reduce_bitand reduce_bitor reduce_bitxor cumsum"
        " cummax finalize_reducer"
    ),
}

_HOME: dict[str, str] = {name: module for module, names in _MODULES.items() for name in names.split()}

dtype = _dtypes.DType


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    elif name in _dtypes.all_names:
        value = _dtypes.all_names[name]
    else:
        raise AttributeError(f"tilelang.language has no {name!r}")
    globals()[name] = value
    return value


__all__ = [
    "Buffer", "FragmentBuffer", "GemmWarpPolicy", "LocalBuffer", "SharedBuffer", "StridedTensor", "Tensor", "const",
    "contiguous", "dtype", "dynamic", "empty", "macro", "make_tensor", "ptr", "symbolic", *_HOME, *_dtypes.all_names,
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
