"""The tile language, by convention ``import tilelang.language as T``.

Names are resolved when they are first used (PEP 562), so that importing the language does not load the compiler: a process
that finds its kernels in the cache never does.
"""

from __future__ import annotations

import importlib
from typing import Any

from tilelang import dtypes as _dtypes
from tilelang import moved as _moved
from tilelang.frontend.macro import Ref, macro
from tilelang.language.tensors import (
    Buffer,
    FragmentBuffer,
    LocalBuffer,
    Ptr,
    SharedBuffer,
    StridedTensor,
    Tensor,
    contiguous,
    dynamic,
    ptr,
    symbolic,
)
from tilelang.policy import GemmWarpPolicy

_MODULES: dict[str, str] = {
    # module -> the names that it gives
    "tilelang.frontend.program": "prim_func",
    "tilelang.frontend.positions": "linear_index index_to_coordinates",
    "tilelang.language.expressions": "Var PrimExpr",
    "tilelang.language.kernel": (
        "Kernel ClusterKernel import_source func_attr get_thread_binding get_thread_bindings get_block_binding"
        " get_block_bindings get_thread_extent get_thread_extents get_block_extent get_block_extents get_cluster_dims"
        " get_cluster_size get_cluster_id get_cluster_extent get_cluster_ids get_cluster_extents"
        " annotate_pass_configs"
        " annotate_compile_flags KernelLaunchFrame"
    ),
    "tilelang.language.barriers": "create_list_of_mbarrier get_mbarrier",
    "tilelang.language.launch": "env_thread launch_thread thread_binding",
    "tilelang.language.loops": (
        "While serial Serial unroll Unroll vectorized Vectorized Parallel parallel Pipelined Persistent grid"
    ),
    "tilelang.language.memory": (
        "alloc_shared alloc_fragment alloc_local alloc_var alloc_barrier alloc_cluster_barrier alloc_tmem alloc_reducer"
        " alloc_global alloc_buffer allocate"
    ),
    "tilelang.language.tile.copy": "copy async_copy tma_copy transpose c2d_im2col im2col fill clear",
    "tilelang.language.tile.cluster": "copy_cluster tma_gather4 tma_scatter4",
    "tilelang.language.tile.gemm": "gemm wgmma_gemm tcgen05_gemm gemm_sp wgmma_gemm_sp",
    "tilelang.language.tile.reduce": (
        "reduce reduce_sum reduce_max reduce_min reduce_abssum reduce_absmax reduce_bitand reduce_bitor reduce_bitxor cumsum"
        " cummax"
    ),
    "tilelang.language.tile.arg_reduce": "reduce_argmax reduce_argmin",
    "tilelang.language.tile.reducer": "reducer_init reducer_update finalize_reducer",
    "tilelang.language.casts": "cast Cast reinterpret",
    "tilelang.language.math": (
        "exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan atan2 sinh cosh tanh"
        " asinh acosh atanh sigmoid erf abs fabs ceil floor round trunc nearbyint pow power fmod hypot copysign clamp max min"
        " if_then_else where Select isnan isinf isfinite likely And Or Not"
    ),
    "tilelang.language.integers": (
        "__ffs ceildiv align_up floordiv floormod truncdiv truncmod div shift_left shift_right bitwise_and bitwise_or bitwise_xor"
        " bitwise_not popcount clz"
    ),
    "tilelang.language.vectors": (
        "Ramp Broadcast Shuffle extract_lane ldg32 ldg64 ldg128 ldg256 stg32 stg64 stg128 stg256"
        " lds32 lds64 lds128 sts32 sts64 sts128"
    ),
    "tilelang.language.limits": "infinity max_value min_value",
    "tilelang.language.fastmath": (
        "__exp __exp10 __log __log2 __log10 __sin __cos __tan __pow fast_rcp ieee_add ieee_sub ieee_mul ieee_fmaf ieee_frcp"
        " ieee_fsqrt ieee_frsqrt ieee_fdiv fma fmul add2 sub2 mul2 fma2 max2 min2 abs2"
    ),
    "tilelang.language.atomic": ("atomic_add atomic_max atomic_min atomic_or atomic_addx2 atomic_addx4 atomic_load atomic_store"),
    "tilelang.language.intrinsics": (
        "sync_threads tvm_storage_sync sync_warp sync_grid named_barrier_arrive syncthreads_count syncthreads_and syncthreads_or"
        " thread_return"
        " shfl_sync shfl_xor shfl_up shfl_down any_sync all_sync ballot_sync ballot activemask match_any_sync match_all_sync"
        " shuffle_elect get_lane_idx get_warp_idx get_warp_idx_sync get_warp_group_idx warp_reduce_sum warp_reduce_max"
        " warp_reduce_min warp_reduce_bitand warp_reduce_bitor mbarrier_wait_parity mbarrier_arrive mbarrier_expect_tx"
        " mbarrier_arrive_expect_tx barrier_wait barrier_arrive ptx_arrive_cluster_barrier cp_async_barrier_noinc ptx_cp_async"
        " ptx_init_barrier_thread_count ptx_arrive_barrier ptx_arrive_barrier_expect_tx"
        " ptx_commit_group ptx_wait_group fence_proxy_async ptx_fence_barrier_init tma_load tma_store tma_store_arrive"
        " tma_store_wait warpgroup_arrive warpgroup_commit_batch warpgroup_wait wait_wgmma"
        " cluster_arrive cluster_arrive_relaxed cluster_wait cluster_sync block_rank_in_cluster pdl_trigger pdl_sync"
        " __ldg __fns ptx_ldmatrix ptx_stmatrix ptx_mma create_tma_descriptor"
    ),
    "tilelang.language.warp_group": (
        "alloc_descriptor alloc_wgmma_desc initialize_wgmma_descriptor increase_descriptor_offset ptx_wgmma_ss ptx_wgmma_rs"
        " warpgroup_fence_operand"
    ),
    "tilelang.language.foreign": "CUDASourceCodeKernel",
    "tilelang.language.scheduler": "BaseTileScheduler PersistentTileScheduler",
    "tilelang.language.meta": "inline meta_class",
    "tilelang.language.scopes": "ws WarpSpecialize attr let address_of access_ptr call_extern evaluate",
    "tilelang.language.hints": (
        "use_swizzle annotate_layout annotate_safe_value annotate_l2_hit_ratio annotate_restrict_buffers"
        " annotate_min_blocks_per_sm assume set_max_nreg inc_max_nreg dec_max_nreg annotate_producer_reg_dealloc"
        " annotate_consumer_reg_alloc no_set_max_nreg disable_warp_group_reg_alloc"
    ),
    "tilelang.language.thread_reduce": "comm_reducer tvm_thread_allreduce tvm_warp_shuffle",
    "tilelang.language.debug": "print device_assert device_assert_with_msg",
    "tilelang.language.random": "rng_init rng_rand rng_rand_float",
    "tilelang.language.eager": "const empty",
    "tilelang.language.customize": "reshape view make_tensor make_tensor_from_addr dp4a loop_break any_of all_of",
    "tilelang.layout": "Layout Fragment make_swizzled_layout",
    "tilelang.language.script": (
        "If Then Else Assert sblock reads writes sblock_alloc_buffer match_buffer decl_buffer call_intrin call_pure_extern"
        " type_annotation tvm_access_ptr isnullptr target bind meta_var ret continue_loop buffer_store ldexp tvm_warp_shuffle_up"
        " tvm_warp_shuffle_down tvm_warp_activemask"
    ),
    "tilelang.dtypes": "is_float4 is_float4_e2m1fn is_f8f6f4_family get_tvm_dtype",
    "tilelang.cuda.intrinsics": (
        "get_swizzle_layout get_ldmatrix_offset get_mma_micro_size mma_store_index_map make_mma_swizzle_layout"
    ),
    "tilelang.cuda.intrinsics.warp_group": "WGMMADescriptorParams WGMMATensorCoreIntrinEmitter compute_gmma_descriptor",
    "tilelang.cuda.intrinsics.emitter": "TensorCoreIntrinEmitter TensorCoreIntrinEmitterWithLadderTransform",
}

_HOME: dict[str, str] = {name: module for module, names in _MODULES.items() for name in names.split()}

_ALIASES: dict[str, str] = {
    # name of older programs, or of TVM -> name here
    "AnyDType": "dtype", "DataType": "dtype", "JITFunc": "PrimFunc", "break_loop": "loop_break",
    "broadcast": "Broadcast", "buffer": "Buffer", "cdiv": "ceildiv", "gemm_v1": "gemm", "gemm_v2": "gemm",
    "ramp": "Ramp", "SizeVar": "Var", "wgmma_mma": "wgmma_gemm",
}  # fmt: skip

_NODES = frozenset(
    "Add BufferLoad Call Div EQ FloatImm FloorDiv FloorMod GE GT IntImm IterVar LE LT Let Max Min Mod Mul NE PrimFunc Range"
    " StringImm Sub".split()
)
"""Classes of TVM's expressions, for ``isinstance``."""

dtype = _dtypes.DType


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    elif name in _dtypes.all_names:
        value = _dtypes.all_names[name]
    elif name in _NODES:
        value = getattr(importlib.import_module("tilelang.ir.nodes"), name)
    elif name in _ALIASES:
        original = _ALIASES[name]
        value = globals()[original] if original in globals() else __getattr__(original)
    else:
        value = _moved.submodule(__name__, name) or _elsewhere(name)
    globals()[name] = value
    return value


def _elsewhere(name: str) -> Any:
    """A name that only the reference package has, which raises an error when it is used; any other name raises at once."""
    from tilelang.language.triton_names import INSTEAD
    from tilelang.refusals import refused
    from tilelang.unknown import unknown_attribute

    if name in INSTEAD:
        raise AttributeError(f"tilelang.language has no {name!r}: {INSTEAD[name]}", name=name, obj=None)
    value = refused(__name__, name)
    if value is None:
        raise unknown_attribute(f"tilelang.language has no {name!r}", name, __all__, cutoff=0.7)
    return value


__all__ = [
    "Buffer", "FragmentBuffer", "GemmWarpPolicy", "LocalBuffer", "Ptr", "Ref", "SharedBuffer", "StridedTensor", "Tensor",
    "contiguous", "dtype", "dynamic", "macro", "ptr", "symbolic", *_HOME, *_dtypes.all_names,
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
