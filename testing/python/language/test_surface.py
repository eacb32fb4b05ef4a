"""The names that programs written for this language use exist, are documented, and load nothing by themselves."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tilelang.language as T
from tilelang import dtypes

SURFACE = """
prim_func macro Kernel ClusterKernel Persistent PersistentTileScheduler get_thread_binding get_block_binding
func_attr attr import_source
call_extern Tensor StridedTensor Buffer ptr make_tensor dynamic symbolic const empty contiguous alloc_shared
alloc_fragment alloc_local alloc_var alloc_barrier alloc_cluster_barrier alloc_tmem alloc_reducer finalize_reducer
alloc_global copy async_copy tma_copy c2d_im2col transpose clear fill reshape view Parallel Pipelined serial Serial
unroll vectorized grid loop_break thread_return gemm GemmWarpPolicy gemm_sp wgmma_gemm tcgen05_gemm dp4a reduce_sum
reduce_max reduce_min reduce_absmax reduce_abssum reduce_bitand reduce_bitor reduce_bitxor cumsum cummax
warp_reduce_sum warp_reduce_max warp_reduce_min warp_reduce_bitand warp_reduce_bitor any_of all_of max min exp2 exp
log2 log sqrt rsqrt sigmoid tanh sin cos erf abs ceil floor round pow clamp if_then_else Select infinity max_value
min_value isnan isinf isfinite ceildiv floordiv floormod truncdiv truncmod shift_left shift_right bitwise_and
bitwise_or bitwise_xor bitwise_not __exp __exp10 __log __log2 __log10 __sin __cos __tan ieee_add ieee_sub ieee_mul
ieee_fmaf ieee_frcp ieee_fsqrt ieee_frsqrt ieee_fdiv fma rng_init rng_rand rng_rand_float cast Cast reinterpret
atomic_add atomic_addx2 atomic_addx4 atomic_max atomic_min atomic_load atomic_store atomic_or use_swizzle
annotate_layout annotate_l2_hit_ratio annotate_safe_value assume annotate_restrict_buffers set_max_nreg inc_max_nreg
dec_max_nreg disable_warp_group_reg_alloc no_set_max_nreg Layout Fragment make_swizzled_layout sync_threads sync_warp
sync_grid shfl_sync shfl_xor shfl_up shfl_down any_sync all_sync ballot_sync ballot activemask syncthreads_count
syncthreads_and syncthreads_or match_any_sync match_all_sync get_lane_idx get_warp_idx get_warp_idx_sync
get_warp_group_idx ws mbarrier_wait_parity mbarrier_arrive barrier_arrive barrier_wait mbarrier_expect_tx
mbarrier_arrive_expect_tx cp_async_barrier_noinc ptx_cp_async ptx_commit_group ptx_wait_group fence_proxy_async
warpgroup_arrive warpgroup_commit_batch warpgroup_wait warpgroup_fence_operand wait_wgmma tma_load tma_store_arrive
tma_store_wait create_tma_descriptor pdl_trigger pdl_sync block_rank_in_cluster print device_assert
device_assert_with_msg float64 float32 tfloat32 float16 bfloat16 float8_e4m3 float8_e4m3fn e4m3_float8 float8_e5m2
float4_e2m1fn int64 int32 int16 int8 int4 uint64 uint32 uint16 uint8 uint1 bool float16x2 int8x4 float32x4
""".split()


@pytest.mark.parametrize("name", SURFACE)
def test_name_exists(name):
    assert getattr(T, name) is not None
    assert name in dir(T)


def test_everything_public_is_documented():
    missing = [name for name in T.__all__ if callable(getattr(T, name)) and not inspect.getdoc(getattr(T, name))]
    assert not missing


def test_no_text_of_what_is_public_shows_an_address():
    values = {name: getattr(T, name) for name in T.__all__}
    assert not [name for name, value in values.items() if not inspect.isroutine(value) and re.search(" at 0x", repr(value))]


def test_importing_the_decorator_loads_neither_torch_nor_tvm():
    code = "import sys, tilelang.jit; assert not {'torch', 'tvm'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_everything_public_is_in_the_guide():
    guide = set(re.findall(r"\w+", (Path(__file__).parents[3] / "docs" / "language.md").read_text()))
    assert not [name for name in T.__all__ if name not in guide and name not in dtypes.all_names]


def test_unknown_name():
    with pytest.raises(AttributeError, match="tilelang.language has no 'alloc_shard'"):
        T.alloc_shard  # noqa: B018


def test_importing_the_language_loads_no_compiler():
    code = "import sys, tilelang, tilelang.language as T; assert not {'tvm', 'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
