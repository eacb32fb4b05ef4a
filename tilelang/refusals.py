"""Public names of the tile language's reference package that have no meaning here, and why.

Such a name can be imported; using it is an error that names it. :data:`REFUSED` is the table, docs/compatibility.md shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilelang.errors import UnsupportedError

VENDOR = "it is for devices of another vendor; kernels are compiled for CPUs and CUDA"
SM_100 = "it is of sm_100 and later, for which nothing is generated yet"
OLD = "it is of architectures before sm_80"
BY_HAND = "fragments and descriptors of tensor cores are laid out by the compiler: use T.gemm, T.wgmma_gemm, or T.ptx_mma"
PARTIALS = "partial results of a reducer are laid out by the compiler: leave its layout out, it changes no result"
BARRIERS = "barriers are made ready by T.alloc_barrier(arrivals), used by T.mbarrier_*, and filled by T.tma_copy"
PASSES = "it is a part of that package's compiler; `tilelang.lower` and the steps of a target's pipeline.py are this one's"
TVM = "it builds TVM's own programs; programs of this language have T.Kernel, tensors and tile operators"
SEARCH = "it is a part of that package's search; tilelang.carver's templates recommend configurations"
FORMATS = "there is no such element type"
SCHEDULES = "warp specialisation is decided by the compiler, or written with T.ws"
TOOLCHAIN = "kernels are compiled by NVRTC or nvcc inside of this package, see docs/cuda-toolchain.md"
WINDOWS = "it is for Windows; this package compiles on Linux"
INSTALLATION = "it describes that package's installation"
LOADING = "it is how that package stores or loads kernels; kernels are in the cache, see docs/cache.md"

_WIDTHS = ("", "x2", "x4", "x8", "x16", "x32", "x64")


def _formats(*bases: str) -> str:
    return " ".join(f"{base}{width}" for base in bases for width in _WIDTHS)


REFUSED: Mapping[str, Mapping[str, str]] = {
    # module -> reason -> names
    "tilelang": {
        VENDOR: "register_hip_postproc",
        INSTALLATION: "build_date get_runtime_library_dirs prepend_dll_search_path runtime_library_dirs",
    },
    "tilelang.language": {
        SM_100: (
            "TCGEN05DescriptorParams TCGEN05TensorCoreIntrinEmitter TensorCoreIntrinEmitterSM120 alloc_tcgen05_instr_desc"
            " alloc_tcgen05_instruction_desc alloc_tcgen05_smem_desc clc_get_first_ctaid_x clc_get_first_ctaid_y"
            " clc_get_first_ctaid_z clc_is_canceled clc_try_cancel clc_try_cancel_multicast compute_umma_descriptor"
            " deallocate_tmem float4_e2m1_unpacked gemm_blockscaled initialize_tcgen05_descriptor is_float4_e2m1_unpacked"
            " make_blockscaled_gemm_layout mma_gemm_blockscaled ptx_mma_block_scale ptx_tcgen05_mma_blockscaled_ss"
            " ptx_tcgen05_mma_ss ptx_tcgen05_mma_ts tcgen05_after_thread_sync tcgen05_before_thread_sync tcgen05_cp_warpx4"
            " tcgen05_gemm_blockscaled tcgen05_gemm_sp tcgen05_mma tcgen05_mma_arrive tcgen05_mma_blockscaled"
            " tcgen05_sf_warp_transpose tma_gather4_bytes tma_load_2sm"
        ),
        OLD: "ptx_mma_sm70 tvm_bmma_sync tvm_fill_fragment tvm_load_matrix_sync tvm_mma_sync tvm_store_matrix_sync",
        BY_HAND: (
            "SparseTensorCoreIntrinEmitter WGSparseTensorCoreIntrinEmitter mma_fill mma_store ptx_mma_sp"
            " ptx_wgmma_sp_rs ptx_wgmma_sp_ss validate_gemm_ab_dtypes"
        ),
        PARTIALS: "PartialFragment",
        BARRIERS: "create_barriers ptx_cp_async_barrier ptx_cp_async_bulk ptx_wait_barrier",
        SCHEDULES: (
            "ProducerLoad WSID WSInstr WSOpRef WSPipeline WSRole WSSchedule WSScope WSSync WSSyncKind"
            " WarpSpecializeFrame annotate_ws_pipeline_depth annotate_ws_schedule ws_op"
        ),
        TVM: (
            "CallEffectKind CommReducer Reduce TVMBackendAllocWorkspace TVMBackendFreeWorkspace"
            " anylist_getitem anylist_resetitem anylist_setitem_call_cpacked anylist_setitem_call_packed arg axis"
            " block_name_suffix_context buffer_decl buffer_var call_cpacked call_cpacked_lowered call_kernel call_llvm_intrin"
            " call_llvm_pure_intrin call_packed call_packed_lowered func_name func_ret get_active_lane_mask"
            " get_let_value handle_add_byte_offset has_let_value ignore_loop_partition index_map init iter_var"
            " llvm_lookup_intrinsic_id lookup_param nextafter void"
            " q_multiply_shift q_multiply_shift_per_axis sblock_attr"
            " start_profile_intrinsic end_profile_intrinsic tvm_call_cpacked tvm_call_cpacked_lowered tvm_call_packed"
            " tvm_call_packed_lowered tvm_stack_alloca tvm_stack_make_array tvm_stack_make_shape tvm_struct_get tvm_struct_set"
            " tvm_thread_invariant tvm_throw_last_error tvm_tuple undef var vectorcombine vectorhigh vectorlow vscale"
        ),
        FORMATS: _formats("float6_e2m3fn", "float6_e3m2fn", "float8_e3m4", "float8_e4m3b11fnuz"),
    },
    "tilelang.autotuner.param": {
        LOADING: "BEST_CONFIG_PATH CachedTextSource CompileArgs FUNCTION_PATH LATENCY_PATH OUT_IDX_PATH dump_kernel_params"
        " load_kernel_params"
    },
    "tilelang.carver": {
        VENDOR: "CDNA RDNA",
        SEARCH: (
            "BlockInfo DefaultPolicy Edge FlashAttentionTemplate IterInfo OutputNode PrimFuncNode TensorCorePolicy"
            " collect_block_iter_vars_used_in_access_region collect_vars_used_in_prim_expr detect_dominant_read get_block"
            " get_output_blocks is_broadcast_epilogue normalize_prim_func try_inline try_inline_contiguous_spatial"
        ),
    },
    "tilelang.contrib": {TOOLCHAIN: "compile_cuda", VENDOR: "compile_ascend compile_hip"},
    "tilelang.contrib.cc": {TVM: "cross_compiler"},
    "tilelang.contrib.nvcc": {
        TOOLCHAIN: (
            "CUTLASS_INCLUDE_DIR TILELANG_TEMPLATE_PATH compile_cuda default_compile_options format_target_code_for_gencode"
            " get_cplus_compiler get_cuda_library_dirs get_nvcc_subprocess_env get_ptx_from_source get_sass_from_source"
            " get_cuda_version get_nvcc_compiler get_target_arch_and_code get_target_code_list have_cudagraph"
        ),
    },
    "tilelang.cuda.intrinsics": {
        SM_100: "TensorCoreIntrinEmitterSM120",
    },
    "tilelang.dtypes": {SM_100: "is_float4_e2m1_unpacked", BY_HAND: "validate_gemm_ab_dtypes"},
    "tilelang.engine": {VENDOR: "register_hip_postproc", PASSES: "is_device_call"},
    "tilelang.engine.callback": {
        VENDOR: ("register_hip_postproc register_hip_postproc_callback register_metal_postproc register_metal_postproc_callback"),
    },
    "tilelang.engine.param": {LOADING: "dump_kernel_params load_kernel_params"},
    "tilelang.layout": {
        VENDOR: (
            "FractalLayoutInfo make_ascend_compact_nz_layout make_ascend_l0c_layout make_ascend_major_k_layout"
            " make_ascend_major_mn_layout make_ascend_nz_layout make_ascend_sf_layout try_extract_fractal_layout"
        ),
        SM_100: "make_tcgen05mma_swizzled_layout",
        OLD: "make_volta_swizzled_layout",
        BY_HAND: "make_cutlass_metadata_layout make_strided_slice",
        PARTIALS: "PartialFragment make_fully_replicated_partial_fragment",
    },
    "tilelang.profiler": {PASSES: "BaseKernelAdapter"},
    "tilelang.profiler.bench": {VENDOR: "IS_NPU"},
    "tilelang.tools": {SEARCH: "ARCH_CONFIGS"},
    "tilelang.transform": {
        PASSES: (
            "AddWrapperForSingleBufStore AnnotateDeviceRegions AnnotateReadOnlyParams CanonicalizeLegacyReducer"
            " ConfigIndexBitwidth DEFAULT_SIMT_THREADS DecoupleTypeCast FlattenBuffer HoistBroadcastValues"
            " HoistGlobalBufferAllocations HoistNonRestrictParams IfStmtBinding InjectAssumes InjectSoftwarePipeline"
            " LayoutInference LegalizeNegativeIndex LegalizeSafeMemoryAccess LegalizeVectorizedLoop LetInline LoopUnswitching"
            " LowerAccessPtr LowerDeviceKernelLaunch LowerIntrin LowerOpaqueBlock LowerThreadAllreduce LowerTileOp MakePackedAPI"
            " MaterializeKernelLaunch MergeIfStmt MergeSharedMemoryAllocations PipelinePlanning"
            " PlanAndUpdateBufferAllocationLocation ReducerPlanAndMaterialize Simplify SplitHostDevice StorageRewrite ThreadSync"
            " UnrollLoop VectorizeLoop VerifyBufferInit VerifyParallelLoop VerifyReducerConsumed VerifyReducerEpoch"
            " get_pass_context"
        ),
    },
    "tilelang.utils.device": {VENDOR: "IS_MPS IS_NPU"},
    "tilelang.utils": {
        PASSES: "retrive_ptr_from_buffer_region side_effect",
        INSTALLATION: "build_date",
    },
}


class Refused:
    """A name that can be imported and not used: a call, an attribute, an item or the text of it (of a dtype) is the error."""

    def __init__(self, name: str, reason: str):
        self.name, self.reason = name, reason

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise UnsupportedError(f"{self.name} is not available: {self.reason}")

    __call__ = __getitem__ = __enter__ = __iter__ = __str__ = _refuse

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python, pickle and inspect ask any object for
            raise AttributeError(name)
        self._refuse()

    def __repr__(self) -> str:
        return f"<{self.name}, not available>"


def refused(module: str, name: str) -> Refused | None:
    """What a refused name of a module is; None for any other name."""
    for reason, names in REFUSED.get(module, {}).items():
        if name in names.split():
            return Refused(f"{'T' if module == 'tilelang.language' else module}.{name}", reason)
    return None
