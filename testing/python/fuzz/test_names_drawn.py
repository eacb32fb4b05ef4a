"""Every name of the language is drawn by the random programs, or stands here with what checks it in place of them."""

from __future__ import annotations

import re
from pathlib import Path

import testing.fuzz
import tilelang.language as T
from testing.fuzz.generator import draw_program
from tilelang.dtypes import all_names

SEEDS = 800
NOT_DRAWN = {
    "results are rounded, and targets differ in the last bits: tests of the functions, with tolerances": (
        "exp exp10 log log2 log10 log1p rsqrt sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh sigmoid erf pow"
        " power hypot div __exp __exp10 __log __log2 __log10 __sin __cos __tan __pow fast_rcp ieee_frcp ieee_fsqrt ieee_frsqrt"
        " ieee_fdiv"
    ),
    "declarations and arguments: tests of the front end and of calls": (
        "Buffer FragmentBuffer LocalBuffer SharedBuffer const contiguous dtype empty symbolic Var"
        " PrimExpr let import_source func_attr annotate_pass_configs annotate_compile_flags alloc_buffer"
    ),
    "ask for an index or a size that programs here have a name for": (
        "get_thread_bindings get_block_bindings get_thread_extents"
        " get_block_extents get_cluster_dims get_cluster_size get_cluster_id get_cluster_extent get_cluster_ids"
        " get_cluster_extents KernelLaunchFrame thread_binding env_thread launch_thread index_to_coordinates"
    ),
    "which thread goes on, or what it is told, is not defined for a program drawn at random: test_threads.py": (
        "activemask shuffle_elect __fns pdl_trigger pdl_sync"
    ),
    "one protocol of several calls, of which most orders have no meaning: hand-written programs of Hopper": (
        "alloc_cluster_barrier mbarrier_expect_tx mbarrier_arrive_expect_tx barrier_wait"
        " ptx_init_barrier_thread_count ptx_arrive_barrier ptx_arrive_barrier_expect_tx"
        " ptx_arrive_cluster_barrier ptx_cp_async fence_proxy_async ptx_fence_barrier_init tma_load"
        " tma_store warpgroup_arrive warpgroup_commit_batch warpgroup_wait warpgroup_fence_operand cluster_arrive"
        " alloc_descriptor alloc_wgmma_desc initialize_wgmma_descriptor increase_descriptor_offset ptx_wgmma_ss ptx_wgmma_rs"
        " cluster_arrive_relaxed cluster_wait create_tma_descriptor WarpSpecialize inc_max_nreg dec_max_nreg"
        " annotate_consumer_reg_alloc"
    ),
    "fragments of instructions, whose lanes the program places itself: test_thread_programs.py": (
        "ptx_ldmatrix ptx_stmatrix ptx_mma get_swizzle_layout get_ldmatrix_offset get_mma_micro_size mma_store_index_map"
        " make_mma_swizzle_layout TensorCoreIntrinEmitter TensorCoreIntrinEmitterWithLadderTransform"
        " WGMMATensorCoreIntrinEmitter WGMMADescriptorParams compute_gmma_descriptor"
    ),
    "of sm_100 alone, and refused": "alloc_tmem tcgen05_gemm tma_gather4 tma_scatter4",
    "another spelling of what is drawn, as in scripts of TVM and in older programs": (
        "wgmma_gemm_sp"
        " parallel Vectorized tvm_storage_sync If Then Else Assert sblock reads writes sblock_alloc_buffer match_buffer"
        " decl_buffer call_intrin type_annotation tvm_access_ptr isnullptr target bind meta_var ret buffer_store tvm_warp_shuffle"
        " tvm_warp_shuffle_up tvm_warp_shuffle_down tvm_warp_activemask comm_reducer tvm_thread_allreduce"
        " create_list_of_mbarrier get_mbarrier"
    ),
    "foreign code, addresses and attributes: tests of their own": (
        "CUDASourceCodeKernel call_extern call_pure_extern address_of access_ptr evaluate attr __ldg ldg256 stg256"
    ),
    "of the compiler, not of kernels": "is_float4 is_float4_e2m1fn is_f8f6f4_family get_tvm_dtype",
    "output, the end of a kernel, numbers that are not small": "print device_assert_with_msg rng_init rng_rand rng_rand_float",
    "classes of the program: test_scheduler.py": "BaseTileScheduler meta_class inline",
    "another name of what is drawn": "im2col allocate make_tensor_from_addr Ptr",
}


def drawn() -> set[str]:
    """Names in programs, and those that stand whole in the text of the rules (each of which is drawn)."""
    texts = [path.read_text() for path in Path(testing.fuzz.__file__).parent.rglob("*.py")]
    texts += [str(draw_program(seed)) for seed in range(SEEDS)]
    return {name for text in texts for name in re.findall(r"\bT\.([A-Za-z_]\w*)", text)}


def test_every_name_is_drawn_or_has_a_reason():
    excused = [name for names in NOT_DRAWN.values() for name in names.split()]
    assert len(excused) == len(set(excused))
    everything = set(T.__all__) - all_names.keys()
    found = drawn()
    assert sorted(set(excused) - everything) == [], "no names of the language"
    assert sorted(set(excused) & found) == [], "these are drawn"
    assert sorted(everything - found - set(excused)) == [], "these are neither drawn nor excused"
