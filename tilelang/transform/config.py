"""Pass configurations: names that a user may set with ``pass_configs={...}``.

Each is a row of a table with what it does, and the targets that act on it; the rest are accepted so that programs written
for other compilers of this language run unchanged, and change nothing here because the property that they switch is always
on or has no counterpart.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

_ACTIVE: Mapping[str, tuple[str, str]] = {
    # member -> (name, what it does)
    "TL_DISABLE_WARP_SPECIALIZED": ("tl.disable_warp_specialized", "sm_90a: no producer and consumer warp groups"),
    "TL_DISABLE_TMA_LOWER": ("tl.disable_tma_lower", "sm_90a: copies by threads instead of the tensor memory accelerator"),
    "TL_DISABLE_WGMMA": ("tl.disable_wgmma", "sm_90a: mma.sync instead of warp-group products"),
    "TL_ENABLE_FAST_MATH": ("tl.enable_fast_math", "approximate division, square roots and transcendental functions"),
    "TL_DISABLE_SAFE_MEMORY_ACCESS": ("tl.disable_safe_memory_legalize", "no guards around element accesses of tensors"),
    "TL_DISABLE_SHARED_MEMORY_REUSE": ("tl.disable_shared_memory_reuse", "every shared tile has memory of its own"),
    "TL_DISABLE_THREAD_STORAGE_SYNC": ("tl.disable_thread_storage_sync", "no automatic barriers"),
    "TL_ENABLE_ASYNC_COPY": ("tl.enable_async_copy", "cp.async for pipelined copies (on by default)"),
    "TL_PTXAS_REGISTER_USAGE_LEVEL": ("tl.ptxas_register_usage_level", "ptxas --register-usage-level, 0 to 10"),
    "TL_DEVICE_COMPILE_FLAGS": ("tl.device_compile_flags", "more flags for the device compiler"),
    "TL_EMIT_LINE_DIRECTIVES": ("tl.emit_line_directives", "#line directives of the user's source in device code"),
    "TL_ENABLE_DUMP_IR": ("tl.enable_dump_ir", "keep the IR after each pass"),
    "TL_DUMP_IR": ("tl.dump_ir", "keep the IR after each pass in the cache entry"),
    "TL_PTXAS_VERBOSE": ("tl.enable_ptxas_verbose_output", "keep ptxas -v output in the compile log"),
    "TIR_DISABLE_VECTORIZE": ("tirx.disable_vectorize", "no vector instructions for element loops"),
    "TIR_DISABLE_CSE": ("tirx.disable_cse_tir", "no common subexpression elimination"),
    "TIR_NOALIAS": ("tirx.noalias", "tensors do not overlap (on by default)"),
    "CUDA_COMPILER": ("tl.cuda_compiler", "nvrtc or nvcc"),
}

_ACCEPTED = """
    tl.Simplify tl.disable_buffer_init_check tl.disable_data_race_check tl.disable_prelower_semantic_check
    tl.enable_auto_schedule tl.enable_auto_warp_specialization tl.config_index_bitwidth tl.enable_reducer_plan_verbose
    tl.layout_cost_model tl.reducer_force_baseline tl.disable_vectorize_256 tl.enable_fp32x2_reduction tl.enable_lower_ldgstg
    tl.enable_lower_ldgstg_predicated tl.enable_vectorize_planner_verbose tl.debug_merge_shared_memory_allocations
    tl.enable_aggressive_shared_memory_merge tl.disable_shuffle_elect tl.disable_loop_unswitching
    tl.loop_unswitching_allow_non_trivial_else tl.if_stmt_binding_inline_replayable_binds tl.force_let_inline
    tl.ast_print_enable tl.layout_visualization_enable tl.layout_visualization_formats tl.storage_rewrite_detect_inplace
    tl.disable_dynamic_tail_split tl.dynamic_alignment tl.disable_fast_math tl.disable_out_of_bound_warning tl.dump_ir_path
    tl.pass_profile tl.pass_profile_threshold_ms tir.enable_equiv_terms_in_cse_tir tir.disable_cse_tir tirx.Simplify tir.Simplify
    tirx.disable_storage_rewrite tir.disable_storage_rewrite tir.disable_vectorize tirx.use_async_copy tir.use_async_copy
    tirx.enable_debug tir.enable_debug tirx.merge_static_smem tir.merge_static_smem tirx.add_lower_pass tir.add_lower_pass
    tir.noalias cuda.kernels_output_dir
""".split()

_MEMBERS = {
    "TL_SIMPLIFY": "tl.Simplify",
    "TL_DISABLE_DYNAMIC_TAIL_SPLIT": "tl.disable_dynamic_tail_split",
    "TL_DYNAMIC_ALIGNMENT": "tl.dynamic_alignment",
    "TL_CONFIG_INDEX_BITWIDTH": "tl.config_index_bitwidth",
    "TL_DISABLE_FAST_MATH": "tl.disable_fast_math",
    "TL_DISABLE_DATA_RACE_CHECK": "tl.disable_data_race_check",
    "TL_DISABLE_VECTORIZE_256": "tl.disable_vectorize_256",
    "TL_ENABLE_AGGRESSIVE_SHARED_MEMORY_MERGE": "tl.enable_aggressive_shared_memory_merge",
    "TL_DEBUG_MERGE_SHARED_MEMORY_ALLOCATIONS": "tl.debug_merge_shared_memory_allocations",
    "TL_DISABLE_SHUFFLE_ELECT": "tl.disable_shuffle_elect",
    "TL_DISABLE_LOOP_UNSWITCHING": "tl.disable_loop_unswitching",
    "TL_FORCE_LET_INLINE": "tl.force_let_inline",
    "TL_AST_PRINT_ENABLE": "tl.ast_print_enable",
    "TL_LAYOUT_VISUALIZATION_ENABLE": "tl.layout_visualization_enable",
    "TL_LAYOUT_VISUALIZATION_FORMATS": "tl.layout_visualization_formats",
    "TL_STORAGE_REWRITE_DETECT_INPLACE": "tl.storage_rewrite_detect_inplace",
    "TL_ENABLE_PTXAS_VERBOSE_OUTPUT": "tl.enable_ptxas_verbose_output",
    "TL_ENABLE_LOWER_LDGSTG": "tl.enable_lower_ldgstg",
    "TL_ENABLE_LOWER_LDGSTG_PREDICATED": "tl.enable_lower_ldgstg_predicated",
    "TL_DISABLE_OUT_OF_BOUND_WARNING": "tl.disable_out_of_bound_warning",
    "TL_DUMP_IR_DIR": "tl.dump_ir_path",
    "TIR_ENABLE_EQUIV_TERMS_IN_CSE": "tir.enable_equiv_terms_in_cse_tir",
    "TIR_SIMPLIFY": "tirx.Simplify",
    "TIR_DISABLE_STORAGE_REWRITE": "tirx.disable_storage_rewrite",
    "TIR_USE_ASYNC_COPY": "tirx.use_async_copy",
    "TIR_ENABLE_DEBUG": "tirx.enable_debug",
    "TIR_MERGE_STATIC_SMEM": "tirx.merge_static_smem",
    "TIR_ADD_LOWER_PASS": "tirx.add_lower_pass",
    "CUDA_KERNELS_OUTPUT_DIR": "cuda.kernels_output_dir",
}

PassConfigKey = enum.Enum(
    "PassConfigKey", {**{member: name for member, (name, _) in _ACTIVE.items()}, **_MEMBERS}, module=__name__, type=str
)
PassConfigKey.__doc__ = "Names of pass configurations; a member is equal to its name."


def known_names() -> frozenset[str]:
    """Every name that ``pass_configs`` accepts."""
    return frozenset(name for name, _ in _ACTIVE.values()) | frozenset(_ACCEPTED)


def descriptions() -> Mapping[str, str]:
    """Name -> what it does, of the configurations that change what this compiler does."""
    return dict(_ACTIVE.values())
