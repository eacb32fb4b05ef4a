"""Written by ``python -m testing.stubs``."""

from tilelang.cuda.intrinsics import get_ldmatrix_offset as get_ldmatrix_offset
from tilelang.cuda.intrinsics import get_mma_micro_size as get_mma_micro_size
from tilelang.cuda.intrinsics import get_swizzle_layout as get_swizzle_layout
from tilelang.cuda.intrinsics import make_mma_swizzle_layout as make_mma_swizzle_layout
from tilelang.cuda.intrinsics import mma_store_index_map as mma_store_index_map
from tilelang.cuda.intrinsics.emitter import TensorCoreIntrinEmitter as TensorCoreIntrinEmitter
from tilelang.cuda.intrinsics.emitter import TensorCoreIntrinEmitterWithLadderTransform as TensorCoreIntrinEmitterWithLadderTransform
from tilelang.cuda.intrinsics.warp_group import WGMMADescriptorParams as WGMMADescriptorParams
from tilelang.cuda.intrinsics.warp_group import WGMMATensorCoreIntrinEmitter as WGMMATensorCoreIntrinEmitter
from tilelang.cuda.intrinsics.warp_group import compute_gmma_descriptor as compute_gmma_descriptor
from tilelang.dtypes import DType
from tilelang.dtypes import DType as dtype
from tilelang.dtypes import get_tvm_dtype as get_tvm_dtype
from tilelang.dtypes import is_f8f6f4_family as is_f8f6f4_family
from tilelang.dtypes import is_float4 as is_float4
from tilelang.dtypes import is_float4_e2m1fn as is_float4_e2m1fn
from tilelang.frontend.macro import Ref as Ref
from tilelang.frontend.macro import macro as macro
from tilelang.frontend.positions import index_to_coordinates as index_to_coordinates
from tilelang.frontend.positions import linear_index as linear_index
from tilelang.frontend.program import prim_func as prim_func
from tilelang.language.atomic import atomic_add as atomic_add
from tilelang.language.atomic import atomic_addx2 as atomic_addx2
from tilelang.language.atomic import atomic_addx4 as atomic_addx4
from tilelang.language.atomic import atomic_load as atomic_load
from tilelang.language.atomic import atomic_max as atomic_max
from tilelang.language.atomic import atomic_min as atomic_min
from tilelang.language.atomic import atomic_or as atomic_or
from tilelang.language.atomic import atomic_store as atomic_store
from tilelang.language.barriers import create_list_of_mbarrier as create_list_of_mbarrier
from tilelang.language.barriers import get_mbarrier as get_mbarrier
from tilelang.language.casts import Cast as Cast
from tilelang.language.casts import cast as cast
from tilelang.language.casts import reinterpret as reinterpret
from tilelang.language.customize import all_of as all_of
from tilelang.language.customize import any_of as any_of
from tilelang.language.customize import dp4a as dp4a
from tilelang.language.customize import loop_break as loop_break
from tilelang.language.customize import make_tensor as make_tensor
from tilelang.language.customize import make_tensor_from_addr as make_tensor_from_addr
from tilelang.language.customize import reshape as reshape
from tilelang.language.customize import view as view
from tilelang.language.debug import device_assert as device_assert
from tilelang.language.debug import device_assert_with_msg as device_assert_with_msg
from tilelang.language.debug import print as print
from tilelang.language.eager import const as const
from tilelang.language.eager import empty as empty
from tilelang.language.expressions import PrimExpr as PrimExpr
from tilelang.language.expressions import Var as Var
from tilelang.language.fastmath import fma as fma
from tilelang.language.fastmath import fmul as fmul
from tilelang.language.foreign import CUDASourceCodeKernel as CUDASourceCodeKernel
from tilelang.language.hints import annotate_consumer_reg_alloc as annotate_consumer_reg_alloc
from tilelang.language.hints import annotate_l2_hit_ratio as annotate_l2_hit_ratio
from tilelang.language.hints import annotate_layout as annotate_layout
from tilelang.language.hints import annotate_min_blocks_per_sm as annotate_min_blocks_per_sm
from tilelang.language.hints import annotate_producer_reg_dealloc as annotate_producer_reg_dealloc
from tilelang.language.hints import annotate_restrict_buffers as annotate_restrict_buffers
from tilelang.language.hints import annotate_safe_value as annotate_safe_value
from tilelang.language.hints import assume as assume
from tilelang.language.hints import dec_max_nreg as dec_max_nreg
from tilelang.language.hints import disable_warp_group_reg_alloc as disable_warp_group_reg_alloc
from tilelang.language.hints import inc_max_nreg as inc_max_nreg
from tilelang.language.hints import no_set_max_nreg as no_set_max_nreg
from tilelang.language.hints import set_max_nreg as set_max_nreg
from tilelang.language.hints import use_swizzle as use_swizzle
from tilelang.language.integers import div as div
from tilelang.language.intrinsics import __ldg as __ldg
from tilelang.language.intrinsics import ptx_cp_async as ptx_cp_async
from tilelang.language.intrinsics import ptx_ldmatrix as ptx_ldmatrix
from tilelang.language.intrinsics import ptx_mma as ptx_mma
from tilelang.language.intrinsics import tvm_storage_sync as tvm_storage_sync
from tilelang.language.kernel import ClusterKernel as ClusterKernel
from tilelang.language.kernel import Kernel as Kernel
from tilelang.language.kernel import KernelLaunchFrame as KernelLaunchFrame
from tilelang.language.kernel import annotate_compile_flags as annotate_compile_flags
from tilelang.language.kernel import annotate_pass_configs as annotate_pass_configs
from tilelang.language.kernel import func_attr as func_attr
from tilelang.language.kernel import get_block_binding as get_block_binding
from tilelang.language.kernel import get_block_bindings as get_block_bindings
from tilelang.language.kernel import get_block_extent as get_block_extent
from tilelang.language.kernel import get_block_extents as get_block_extents
from tilelang.language.kernel import get_cluster_dims as get_cluster_dims
from tilelang.language.kernel import get_cluster_extent as get_cluster_extent
from tilelang.language.kernel import get_cluster_extents as get_cluster_extents
from tilelang.language.kernel import get_cluster_id as get_cluster_id
from tilelang.language.kernel import get_cluster_ids as get_cluster_ids
from tilelang.language.kernel import get_cluster_size as get_cluster_size
from tilelang.language.kernel import get_thread_binding as get_thread_binding
from tilelang.language.kernel import get_thread_bindings as get_thread_bindings
from tilelang.language.kernel import get_thread_extent as get_thread_extent
from tilelang.language.kernel import get_thread_extents as get_thread_extents
from tilelang.language.kernel import import_source as import_source
from tilelang.language.launch import env_thread as env_thread
from tilelang.language.launch import launch_thread as launch_thread
from tilelang.language.launch import thread_binding as thread_binding
from tilelang.language.limits import infinity as infinity
from tilelang.language.limits import max_value as max_value
from tilelang.language.limits import min_value as min_value
from tilelang.language.loops import Parallel as Parallel
from tilelang.language.loops import Persistent as Persistent
from tilelang.language.loops import Pipelined as Pipelined
from tilelang.language.loops import Serial as Serial
from tilelang.language.loops import Unroll as Unroll
from tilelang.language.loops import Vectorized as Vectorized
from tilelang.language.loops import While as While
from tilelang.language.loops import grid as grid
from tilelang.language.loops import parallel as parallel
from tilelang.language.loops import serial as serial
from tilelang.language.loops import unroll as unroll
from tilelang.language.loops import vectorized as vectorized
from tilelang.language.math import Not as Not
from tilelang.language.math import Select as Select
from tilelang.language.math import abs as abs
from tilelang.language.math import clamp as clamp
from tilelang.language.math import fabs as fabs
from tilelang.language.math import if_then_else as if_then_else
from tilelang.language.math import likely as likely
from tilelang.language.math import pow as pow
from tilelang.language.math import power as power
from tilelang.language.math import round as round
from tilelang.language.math import where as where
from tilelang.language.memory import alloc_barrier as alloc_barrier
from tilelang.language.memory import alloc_buffer as alloc_buffer
from tilelang.language.memory import alloc_cluster_barrier as alloc_cluster_barrier
from tilelang.language.memory import alloc_fragment as alloc_fragment
from tilelang.language.memory import alloc_global as alloc_global
from tilelang.language.memory import alloc_local as alloc_local
from tilelang.language.memory import alloc_reducer as alloc_reducer
from tilelang.language.memory import alloc_shared as alloc_shared
from tilelang.language.memory import alloc_tmem as alloc_tmem
from tilelang.language.memory import alloc_var as alloc_var
from tilelang.language.memory import allocate as allocate
from tilelang.language.meta import inline as inline
from tilelang.language.meta import meta_class as meta_class
from tilelang.language.random import rng_init as rng_init
from tilelang.language.random import rng_rand as rng_rand
from tilelang.language.random import rng_rand_float as rng_rand_float
from tilelang.language.scheduler import BaseTileScheduler as BaseTileScheduler
from tilelang.language.scheduler import PersistentTileScheduler as PersistentTileScheduler
from tilelang.language.scopes import WarpSpecialize as WarpSpecialize
from tilelang.language.scopes import access_ptr as access_ptr
from tilelang.language.scopes import address_of as address_of
from tilelang.language.scopes import attr as attr
from tilelang.language.scopes import call_extern as call_extern
from tilelang.language.scopes import evaluate as evaluate
from tilelang.language.scopes import let as let
from tilelang.language.scopes import ws as ws
from tilelang.language.script import Assert as Assert
from tilelang.language.script import Else as Else
from tilelang.language.script import If as If
from tilelang.language.script import Then as Then
from tilelang.language.script import bind as bind
from tilelang.language.script import buffer_store as buffer_store
from tilelang.language.script import call_intrin as call_intrin
from tilelang.language.script import call_pure_extern as call_pure_extern
from tilelang.language.script import continue_loop as continue_loop
from tilelang.language.script import decl_buffer as decl_buffer
from tilelang.language.script import isnullptr as isnullptr
from tilelang.language.script import ldexp as ldexp
from tilelang.language.script import match_buffer as match_buffer
from tilelang.language.script import meta_var as meta_var
from tilelang.language.script import reads as reads
from tilelang.language.script import ret as ret
from tilelang.language.script import sblock as sblock
from tilelang.language.script import sblock_alloc_buffer as sblock_alloc_buffer
from tilelang.language.script import target as target
from tilelang.language.script import tvm_access_ptr as tvm_access_ptr
from tilelang.language.script import tvm_warp_activemask as tvm_warp_activemask
from tilelang.language.script import tvm_warp_shuffle_down as tvm_warp_shuffle_down
from tilelang.language.script import tvm_warp_shuffle_up as tvm_warp_shuffle_up
from tilelang.language.script import type_annotation as type_annotation
from tilelang.language.script import writes as writes
from tilelang.language.tensors import _BufferFactory
from tilelang.language.tensors import _PointerFactory
from tilelang.language.tensors import _StridedTensorFactory
from tilelang.language.tensors import _TensorFactory
from tilelang.language.tensors import contiguous as contiguous
from tilelang.language.tensors import dynamic as dynamic
from tilelang.language.tensors import ptr as ptr
from tilelang.language.tensors import symbolic as symbolic
from tilelang.language.thread_reduce import comm_reducer as comm_reducer
from tilelang.language.thread_reduce import tvm_thread_allreduce as tvm_thread_allreduce
from tilelang.language.thread_reduce import tvm_warp_shuffle as tvm_warp_shuffle
from tilelang.language.tile.arg_reduce import reduce_argmax as reduce_argmax
from tilelang.language.tile.arg_reduce import reduce_argmin as reduce_argmin
from tilelang.language.tile.cluster import copy_cluster as copy_cluster
from tilelang.language.tile.copy import async_copy as async_copy
from tilelang.language.tile.copy import c2d_im2col as c2d_im2col
from tilelang.language.tile.copy import clear as clear
from tilelang.language.tile.copy import copy as copy
from tilelang.language.tile.copy import fill as fill
from tilelang.language.tile.copy import im2col as im2col
from tilelang.language.tile.copy import tma_copy as tma_copy
from tilelang.language.tile.copy import transpose as transpose
from tilelang.language.tile.gemm import gemm as gemm
from tilelang.language.tile.gemm import gemm_sp as gemm_sp
from tilelang.language.tile.gemm import tcgen05_gemm as tcgen05_gemm
from tilelang.language.tile.gemm import wgmma_gemm as wgmma_gemm
from tilelang.language.tile.gemm import wgmma_gemm_sp as wgmma_gemm_sp
from tilelang.language.tile.reduce import cummax as cummax
from tilelang.language.tile.reduce import cumsum as cumsum
from tilelang.language.tile.reduce import reduce as reduce
from tilelang.language.tile.reducer import finalize_reducer as finalize_reducer
from tilelang.language.tile.reducer import reducer_init as reducer_init
from tilelang.language.tile.reducer import reducer_update as reducer_update
from tilelang.language.vectors import Broadcast as Broadcast
from tilelang.language.vectors import Ramp as Ramp
from tilelang.language.vectors import Shuffle as Shuffle
from tilelang.language.vectors import extract_lane as extract_lane
from tilelang.language.warp_group import alloc_descriptor as alloc_descriptor
from tilelang.language.warp_group import alloc_wgmma_desc as alloc_wgmma_desc
from tilelang.language.warp_group import increase_descriptor_offset as increase_descriptor_offset
from tilelang.language.warp_group import initialize_wgmma_descriptor as initialize_wgmma_descriptor
from tilelang.language.warp_group import ptx_wgmma_rs as ptx_wgmma_rs
from tilelang.language.warp_group import ptx_wgmma_ss as ptx_wgmma_ss
from tilelang.language.warp_group import warpgroup_fence_operand as warpgroup_fence_operand
from tilelang.layout import Fragment as Fragment
from tilelang.layout import Layout as Layout
from tilelang.layout import make_swizzled_layout as make_swizzled_layout
from tilelang.policy import GemmWarpPolicy as GemmWarpPolicy
from typing import Any
import builtins

Buffer: _BufferFactory
FragmentBuffer: _BufferFactory
LocalBuffer: _BufferFactory
Ptr: _PointerFactory
SharedBuffer: _BufferFactory
StridedTensor: _StridedTensorFactory
Tensor: _TensorFactory
def tma_gather4(*_: Any, **__: Any) -> None:
    """An instruction of sm_100; refused, as no target here has it."""
def tma_scatter4(*_: Any, **__: Any) -> None:
    """An instruction of sm_100; refused, as no target here has it."""
def reduce_sum(buffer: Any, out: Any, dim: Any = ..., clear: Any = ..., batch: Any = ..., annotations: Any = ..., nan_propagate: Any = ...) -> Any:
    """The sum along one axis of a tile."""
def reduce_max(buffer: Any, out: Any, dim: Any = ..., clear: Any = ..., batch: Any = ..., nan_propagate: Any = ..., annotations: Any = ...) -> Any:
    """The maximum along one axis of a tile."""
def reduce_min(buffer: Any, out: Any, dim: Any = ..., clear: Any = ..., batch: Any = ..., nan_propagate: Any = ..., annotations: Any = ...) -> Any:
    """The minimum along one axis of a tile."""
def reduce_abssum(buffer: Any, out: Any, dim: Any = ..., batch: Any = ..., annotations: Any = ..., clear: Any = ..., nan_propagate: Any = ...) -> Any:
    """The sum of absolute values along one axis of a tile."""
def reduce_absmax(buffer: Any, out: Any, dim: Any = ..., clear: Any = ..., batch: Any = ..., nan_propagate: Any = ..., annotations: Any = ...) -> Any:
    """The largest absolute value along one axis of a tile."""
def reduce_bitand(buffer: Any, out: Any, dim: Any = ..., clear: Any = ..., batch: Any = ..., annotations: Any = ..., nan_propagate: Any = ...) -> Any:
    """The bitwise and along one axis of a tile."""
def reduce_bitor(buffer: Any, out: Any, dim: Any = ..., clear: Any = ..., batch: Any = ..., annotations: Any = ..., nan_propagate: Any = ...) -> Any:
    """The bitwise or along one axis of a tile."""
def reduce_bitxor(buffer: Any, out: Any, dim: Any = ..., clear: Any = ..., batch: Any = ..., annotations: Any = ..., nan_propagate: Any = ...) -> Any:
    """The bitwise exclusive or along one axis of a tile."""
def exp(x: Any) -> Any:
    """e to the power of ``x``."""
def exp2(x: Any) -> Any:
    """2 to the power of ``x``."""
def exp10(x: Any) -> Any:
    """10 to the power of ``x``."""
def log(x: Any) -> Any:
    """The natural logarithm."""
def log2(x: Any) -> Any:
    """The logarithm to base 2."""
def log10(x: Any) -> Any:
    """The logarithm to base 10."""
def log1p(x: Any) -> Any:
    """The natural logarithm of ``1 + x``, exact near zero."""
def sqrt(x: Any) -> Any:
    """The square root."""
def rsqrt(x: Any) -> Any:
    """One over the square root."""
def sin(x: Any) -> Any:
    """The sine of an angle in radians."""
def cos(x: Any) -> Any:
    """The cosine of an angle in radians."""
def tan(x: Any) -> Any:
    """The tangent of an angle in radians."""
def asin(x: Any) -> Any:
    """The arc sine, in radians."""
def acos(x: Any) -> Any:
    """The arc cosine, in radians."""
def atan(x: Any) -> Any:
    """The arc tangent, in radians."""
def atan2(x1: Any, x2: Any) -> Any:
    """The angle of the point (second, first argument), in radians."""
def sinh(x: Any) -> Any:
    """The hyperbolic sine."""
def cosh(x: Any) -> Any:
    """The hyperbolic cosine."""
def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
def asinh(x: Any) -> Any:
    """The inverse hyperbolic sine."""
def acosh(x: Any) -> Any:
    """The inverse hyperbolic cosine."""
def atanh(x: Any) -> Any:
    """The inverse hyperbolic tangent."""
def sigmoid(x: Any) -> Any:
    """The logistic function ``1 / (1 + exp(-x))``."""
def erf(x: Any) -> Any:
    """The error function."""
def ceil(x: Any) -> Any:
    """The smallest whole number that is not less."""
def floor(x: Any) -> Any:
    """The largest whole number that is not greater."""
def trunc(x: Any) -> Any:
    """The whole part, rounding towards zero."""
def nearbyint(x: Any) -> Any:
    """The nearest whole number, halves to even."""
def fmod(x: Any, y: Any) -> Any:
    """The remainder of division, with the sign of the dividend."""
def hypot(x1: Any, x2: Any) -> Any:
    """The square root of the sum of two squares."""
def copysign(x1: Any, x2: Any) -> Any:
    """The first argument with the sign of the second."""
def max(a: Any, b: Any, *more: Any) -> Any:
    """The largest of the arguments, in their common type; Python numbers are folded first."""
def min(a: Any, b: Any, *more: Any) -> Any:
    """The smallest of the arguments, in their common type; Python numbers are folded first."""
def isnan(x: Any) -> Any:
    """Whether the argument is not a number; an integer is finite."""
def isinf(x: Any) -> Any:
    """Whether the argument is positive or negative infinity; an integer is finite."""
def isfinite(x: Any) -> Any:
    """Whether the argument is neither infinite nor NaN; an integer is finite."""
def And(a: Any, b: Any) -> Any:
    """Whether both conditions hold."""
def Or(a: Any, b: Any) -> Any:
    """Whether one of the two conditions or both hold."""
def __ffs(value: Any) -> Any:
    """The position of the lowest set bit, counted from 1; 0 without one. Python integers give a Python integer."""
def ceildiv(lhs: Any, rhs: Any) -> Any:
    """``lhs / rhs`` rounded up (``rhs`` positive). Python integers give a Python integer."""
def align_up(x: Any, y: Any) -> Any:
    """The next multiple of ``y`` (positive) from ``x`` on. Python integers give a Python integer."""
def floordiv(a: Any, b: Any) -> Any:
    """``a / b`` rounded down. Python integers give a Python integer."""
def floormod(a: Any, b: Any) -> Any:
    """The remainder of :func:`floordiv`, with the sign of ``b``. Python integers give a Python integer."""
def truncdiv(a: Any, b: Any) -> Any:
    """``a / b`` rounded towards zero, as in C. Python integers give a Python integer."""
def truncmod(a: Any, b: Any) -> Any:
    """The remainder of :func:`truncdiv`, with the sign of ``a``. Python integers give a Python integer."""
def shift_left(x: Any, y: Any) -> Any:
    """``x`` shifted left by ``y`` bits. Python integers give a Python integer."""
def shift_right(x: Any, y: Any) -> Any:
    """``x`` shifted right by ``y`` bits; a signed one keeps its sign. Python integers give a Python integer."""
def bitwise_and(x: Any, y: Any) -> Any:
    """The bits that are set in both. Python integers give a Python integer."""
def bitwise_or(x: Any, y: Any) -> Any:
    """The bits that are set in either. Python integers give a Python integer."""
def bitwise_xor(x: Any, y: Any) -> Any:
    """The bits that differ. Python integers give a Python integer."""
def bitwise_not(x: Any) -> Any:
    """Every bit flipped. Python integers give a Python integer."""
def popcount(x: Any) -> Any:
    """How many bits are set. Python integers give a Python integer."""
def clz(x: Any) -> Any:
    """How many zero bits precede the highest one. Python integers give a Python integer."""
def ldg32(src: Any, pred: Any = ...) -> Any:
    """32 bits of global memory, from the first element of ``src`` on, as ``uint32``."""
def ldg64(src: Any, pred: Any = ...) -> Any:
    """64 bits of global memory, from the first element of ``src`` on, as ``uint32x2``."""
def ldg128(src: Any, pred: Any = ...) -> Any:
    """128 bits of global memory, from the first element of ``src`` on, as ``uint32x4``."""
def ldg256(src: Any, pred: Any = ...) -> Any:
    """256 bits of global memory, from the first element of ``src`` on, as ``uint32x8``."""
def stg32(dst: Any, value: Any, pred: Any = ...) -> None:
    """Writes 32 bits to global memory, from the first element of ``dst`` on."""
def stg64(dst: Any, value: Any, pred: Any = ...) -> None:
    """Writes 64 bits to global memory, from the first element of ``dst`` on."""
def stg128(dst: Any, value: Any, pred: Any = ...) -> None:
    """Writes 128 bits to global memory, from the first element of ``dst`` on."""
def stg256(dst: Any, value: Any, pred: Any = ...) -> None:
    """Writes 256 bits to global memory, from the first element of ``dst`` on."""
def lds32(src: Any, pred: Any = ...) -> Any:
    """32 bits of shared memory, from the first element of ``src`` on, as ``uint32``."""
def lds64(src: Any, pred: Any = ...) -> Any:
    """64 bits of shared memory, from the first element of ``src`` on, as ``uint32x2``."""
def lds128(src: Any, pred: Any = ...) -> Any:
    """128 bits of shared memory, from the first element of ``src`` on, as ``uint32x4``."""
def sts32(dst: Any, value: Any, pred: Any = ...) -> None:
    """Writes 32 bits to shared memory, from the first element of ``dst`` on."""
def sts64(dst: Any, value: Any, pred: Any = ...) -> None:
    """Writes 64 bits to shared memory, from the first element of ``dst`` on."""
def sts128(dst: Any, value: Any, pred: Any = ...) -> None:
    """Writes 128 bits to shared memory, from the first element of ``dst`` on."""
def __exp(x: Any) -> Any:
    """e to the power of ``x``, by the hardware's approximation where it has one."""
def __exp10(x: Any) -> Any:
    """10 to the power of ``x``, by the hardware's approximation where it has one."""
def __log(x: Any) -> Any:
    """The natural logarithm, by the hardware's approximation where it has one."""
def __log2(x: Any) -> Any:
    """The logarithm to base 2, by the hardware's approximation where it has one."""
def __log10(x: Any) -> Any:
    """The logarithm to base 10, by the hardware's approximation where it has one."""
def __sin(x: Any) -> Any:
    """The sine, by the hardware's approximation where it has one."""
def __cos(x: Any) -> Any:
    """The cosine, by the hardware's approximation where it has one."""
def __tan(x: Any) -> Any:
    """The tangent, by the hardware's approximation where it has one."""
def __pow(x: Any, y: Any) -> Any:
    """``x`` to the power of ``y``, by the hardware's approximation where it has one."""
def fast_rcp(x: Any) -> Any:
    """One over ``x``, by the hardware's approximation where it has one."""
def ieee_add(x: Any, y: Any, rounding_mode: Any = ...) -> Any:
    """``x + y``, correctly rounded and never contracted or approximated."""
def ieee_sub(x: Any, y: Any, rounding_mode: Any = ...) -> Any:
    """``x - y``, correctly rounded and never contracted or approximated."""
def ieee_mul(x: Any, y: Any, rounding_mode: Any = ...) -> Any:
    """``x * y``, correctly rounded and never contracted or approximated."""
def ieee_fmaf(x: Any, y: Any, z: Any, rounding_mode: Any = ...) -> Any:
    """``x * y + z`` rounded once, correctly rounded and never contracted or approximated."""
def ieee_frcp(x: Any, rounding_mode: Any = ...) -> Any:
    """``1 / x``, correctly rounded and never contracted or approximated."""
def ieee_fsqrt(x: Any, rounding_mode: Any = ...) -> Any:
    """The square root of ``x``, correctly rounded and never contracted or approximated."""
def ieee_frsqrt(x: Any, rounding_mode: Any = ...) -> Any:
    """``1 / sqrt(x)``, correctly rounded and never contracted or approximated."""
def ieee_fdiv(x: Any, y: Any, rounding_mode: Any = ...) -> Any:
    """``x / y``, correctly rounded and never contracted or approximated."""
def add2(x: Any, y: Any) -> Any:
    """``x + y``, for each of the two elements of packed vectors."""
def sub2(x: Any, y: Any) -> Any:
    """``x - y``, for each of the two elements of packed vectors."""
def mul2(x: Any, y: Any) -> Any:
    """``x * y``, for each of the two elements of packed vectors."""
def fma2(x: Any, y: Any, z: Any) -> Any:
    """``x * y + z``, for each of the two elements of packed vectors."""
def max2(x: Any, y: Any) -> Any:
    """The larger one, for each of the two elements of packed vectors."""
def min2(x: Any, y: Any) -> Any:
    """The smaller one, for each of the two elements of packed vectors."""
def abs2(x: Any) -> Any:
    """The absolute value, for each of the two elements of packed vectors."""
def sync_threads(barrier_id: Any = ..., arrive_count: Any = ...) -> Any:
    """Waits for every thread of the block, or for ``arrive_count`` threads at named barrier ``barrier_id``."""
def sync_warp(mask: Any = ...) -> Any:
    """Waits for the lanes of ``mask``, or for the whole warp."""
def sync_grid() -> Any:
    """Waits for every thread of the grid; all blocks must be resident at once."""
def named_barrier_arrive(barrier_id: Any, thread_count: Any) -> Any:
    """Arrives at a named barrier that ``thread_count`` threads complete, without waiting."""
def syncthreads_count(predicate: Any) -> Any:
    """Waits for the block; gives how many of its threads have a true ``predicate``."""
def syncthreads_and(predicate: Any) -> Any:
    """Waits for the block; non-zero where every thread has a true ``predicate``."""
def syncthreads_or(predicate: Any) -> Any:
    """Waits for the block; non-zero where some thread has a true ``predicate``."""
def thread_return() -> Any:
    """Ends the thread, as ``return`` does."""
def shfl_sync(value: Any, srcLane: Any, width: Any = ..., mask: Any = ...) -> Any:
    """The ``value`` of lane ``srcLane`` of the thread's group of ``width`` lanes."""
def shfl_xor(value: Any, delta: Any, width: Any = ..., mask: Any = ...) -> Any:
    """The ``value`` of the lane whose number differs in the bits ``delta``."""
def shfl_up(value: Any, delta: Any, width: Any = ..., mask: Any = ...) -> Any:
    """The ``value`` of the lane ``delta`` below; the first lanes of a group keep their own."""
def shfl_down(value: Any, delta: Any, width: Any = ..., mask: Any = ...) -> Any:
    """The ``value`` of the lane ``delta`` above; the last lanes of a group keep their own."""
def any_sync(predicate: Any, mask: Any = ...) -> Any:
    """Non-zero where a lane of ``mask`` has a true ``predicate``."""
def all_sync(predicate: Any, mask: Any = ...) -> Any:
    """Non-zero where all lanes of ``mask`` have a true ``predicate``."""
def ballot_sync(predicate: Any, mask: Any = ...) -> Any:
    """The lanes of ``mask`` with a true ``predicate``, as the low bits of a uint64."""
def ballot(predicate: Any) -> Any:
    """The lanes of the warp with a true ``predicate``, as bits of a uint64."""
def activemask() -> Any:
    """The lanes that run this instruction now, as the low bits of a uint64."""
def match_any_sync(value: Any, mask: Any = ...) -> Any:
    """The lanes of ``mask`` that hold the same ``value``, as uint32 bits."""
def match_all_sync(value: Any, mask: Any = ...) -> Any:
    """``mask`` where all its lanes hold the same ``value``, else 0."""
def shuffle_elect(thread_extent: Any) -> Any:
    """True in one thread of each group of ``thread_extent`` threads; 0 elects one of the block."""
def get_lane_idx(warp_size: Any = ...) -> Any:
    """The thread's number in its warp."""
def get_warp_idx(warp_size: Any = ...) -> Any:
    """The warp's number in its block."""
def get_warp_idx_sync(warp_size: Any = ...) -> Any:
    """The warp's number in its block, the same register in every lane."""
def get_warp_group_idx(warp_size: Any = ..., warps_per_group: Any = ...) -> Any:
    """The number in its block of the thread's group of four warps."""
def warp_reduce_sum(value: Any) -> Any:
    """The sum of ``value`` over the warp, in every lane."""
def warp_reduce_max(value: Any) -> Any:
    """The largest ``value`` of the warp, in every lane."""
def warp_reduce_min(value: Any) -> Any:
    """The smallest ``value`` of the warp, in every lane."""
def warp_reduce_bitand(value: Any) -> Any:
    """The bitwise and of ``value`` over the warp, in every lane."""
def warp_reduce_bitor(value: Any) -> Any:
    """The bitwise or of ``value`` over the warp, in every lane."""
def mbarrier_wait_parity(mbarrier: Any, parity: Any) -> Any:
    """Waits until the phase of ``parity`` (0 or 1) of a barrier is complete."""
def mbarrier_arrive(mbarrier: Any, cta_id: Any = ...) -> Any:
    """Arrives at a barrier; at that of block ``cta_id`` of the cluster where one is given."""
def mbarrier_expect_tx(mbarrier: Any, tx: Any) -> Any:
    """Adds ``tx`` bytes to what the phase waits for."""
def mbarrier_arrive_expect_tx(mbarrier: Any, tx: Any) -> Any:
    """Adds ``tx`` bytes to what the phase waits for, and arrives."""
def barrier_wait(mbarrier: Any, parity: Any = ...) -> Any:
    """Like ``T.mbarrier_wait_parity``."""
def barrier_arrive(mbarrier: Any) -> Any:
    """Like ``T.mbarrier_arrive``."""
def ptx_arrive_cluster_barrier(mbarrier: Any, cta_id: Any) -> Any:
    """Arrives at the barrier of block ``cta_id`` of the cluster."""
def cp_async_barrier_noinc(barrier: Any) -> Any:
    """Makes the thread's earlier ``cp.async`` copies arrive at a barrier when they are complete."""
def ptx_init_barrier_thread_count(barrier_id: Any, thread_count: Any) -> Any:
    """Starts a barrier anew: phase 0, completed by ``thread_count`` arrivals. One thread calls it while no other uses the barrier, with a barrier of the block (or cluster) behind it."""
def ptx_arrive_barrier(barrier_id: Any) -> Any:
    """Like ``T.mbarrier_arrive``."""
def ptx_arrive_barrier_expect_tx(barrier_id: Any, byte_count: Any) -> Any:
    """Like ``T.mbarrier_arrive_expect_tx``."""
def ptx_commit_group() -> Any:
    """Closes the group of the thread's ``cp.async`` copies so far."""
def ptx_wait_group(num: Any) -> Any:
    """Waits until at most ``num`` groups of ``cp.async`` copies are in flight."""
def fence_proxy_async() -> Any:
    """Makes earlier writes to shared memory visible to asynchronous units."""
def ptx_fence_barrier_init() -> Any:
    """Makes the initialisation of barriers visible to the cluster."""
def tma_load(*args: Any) -> Any:
    """A TMA load: ``(descriptor, barrier, shared destination, coordinates…)``."""
def tma_store(*args: Any) -> Any:
    """A TMA store: ``(descriptor, shared source, coordinates…)``."""
def tma_store_arrive() -> Any:
    """Closes the group of the thread's TMA stores so far."""
def tma_store_wait(count: Any = ..., read: Any = ...) -> Any:
    """Waits until at most ``count`` groups of TMA stores are in flight; with ``read``, only until their source may be reused."""
def warpgroup_arrive() -> Any:
    """Orders register accesses before the warp-group products that follow."""
def warpgroup_commit_batch() -> Any:
    """Closes the group of warp-group products so far."""
def warpgroup_wait(num_mma: Any) -> Any:
    """Waits until at most ``num_mma`` groups of warp-group products are in flight."""
def wait_wgmma(id: Any) -> Any:
    """Waits until at most ``id`` groups of warp-group products are in flight."""
def cluster_arrive() -> Any:
    """Arrives at the cluster's barrier."""
def cluster_arrive_relaxed() -> Any:
    """Arrives at the cluster's barrier without ordering memory."""
def cluster_wait() -> Any:
    """Waits at the cluster's barrier."""
def cluster_sync() -> Any:
    """Arrives at the cluster's barrier and waits."""
def block_rank_in_cluster() -> Any:
    """The block's number in its cluster."""
def pdl_trigger() -> Any:
    """Lets the kernel that depends on this one start."""
def pdl_sync() -> Any:
    """Waits until the kernel that this one depends on is complete."""
def __fns(mask: Any, base: Any, offset: Any) -> Any:
    """The position of the ``offset``-th set bit of ``mask`` from bit ``base`` on (backwards for a negative one); 2**32 - 1 where there is none."""
def ptx_stmatrix(trans: Any, num: Any, dst_access_ptr: Any, src_access_ptr: Any) -> Any:
    """Stores 8x8 matrices: ``(transposed, 1 | 2 | 4, shared destination, registers)``."""
def create_tma_descriptor(*args: Any) -> Any:
    """A tensor map: ``(type, rank, tensor, sizes…, strides…, box…, steps…, interleave, swizzle, promotion, fill)``."""
float64: DType
float32: DType
float16: DType
bfloat16: DType
float8_e4m3fn: DType
float8_e5m2: DType
float8_e4m3fnuz: DType
float8_e5m2fnuz: DType
float8_e8m0fnu: DType
float4_e2m1fn: DType
int64: DType
int32: DType
int16: DType
int8: DType
int4: DType
uint64: DType
uint32: DType
uint16: DType
uint8: DType
uint4: DType
uint1: DType
bool: DType
handle: DType
float8_e4m3: DType
e4m3_float8: DType
e5m2_float8: DType
float8_e8m0: DType
float4_e2m1: DType
e2m1_float4: DType
tf32: DType
tfloat32: DType
float: DType
double: DType
half: DType
int: DType
uint: DType
long: DType
boolean: DType
short: DType
float64x2: DType
float64x4: DType
float64x8: DType
float64x16: DType
float64x32: DType
float64x64: DType
float32x2: DType
float32x4: DType
float32x8: DType
float32x16: DType
float32x32: DType
float32x64: DType
float16x2: DType
float16x4: DType
float16x8: DType
float16x16: DType
float16x32: DType
float16x64: DType
bfloat16x2: DType
bfloat16x4: DType
bfloat16x8: DType
bfloat16x16: DType
bfloat16x32: DType
bfloat16x64: DType
float8_e4m3fnx2: DType
float8_e4m3fnx4: DType
float8_e4m3fnx8: DType
float8_e4m3fnx16: DType
float8_e4m3fnx32: DType
float8_e4m3fnx64: DType
float8_e5m2x2: DType
float8_e5m2x4: DType
float8_e5m2x8: DType
float8_e5m2x16: DType
float8_e5m2x32: DType
float8_e5m2x64: DType
float8_e4m3fnuzx2: DType
float8_e4m3fnuzx4: DType
float8_e4m3fnuzx8: DType
float8_e4m3fnuzx16: DType
float8_e4m3fnuzx32: DType
float8_e4m3fnuzx64: DType
float8_e5m2fnuzx2: DType
float8_e5m2fnuzx4: DType
float8_e5m2fnuzx8: DType
float8_e5m2fnuzx16: DType
float8_e5m2fnuzx32: DType
float8_e5m2fnuzx64: DType
float8_e8m0fnux2: DType
float8_e8m0fnux4: DType
float8_e8m0fnux8: DType
float8_e8m0fnux16: DType
float8_e8m0fnux32: DType
float8_e8m0fnux64: DType
float4_e2m1fnx2: DType
float4_e2m1fnx4: DType
float4_e2m1fnx8: DType
float4_e2m1fnx16: DType
float4_e2m1fnx32: DType
float4_e2m1fnx64: DType
int64x2: DType
int64x4: DType
int64x8: DType
int64x16: DType
int64x32: DType
int64x64: DType
int32x2: DType
int32x4: DType
int32x8: DType
int32x16: DType
int32x32: DType
int32x64: DType
int16x2: DType
int16x4: DType
int16x8: DType
int16x16: DType
int16x32: DType
int16x64: DType
int8x2: DType
int8x4: DType
int8x8: DType
int8x16: DType
int8x32: DType
int8x64: DType
int4x2: DType
int4x4: DType
int4x8: DType
int4x16: DType
int4x32: DType
int4x64: DType
uint64x2: DType
uint64x4: DType
uint64x8: DType
uint64x16: DType
uint64x32: DType
uint64x64: DType
uint32x2: DType
uint32x4: DType
uint32x8: DType
uint32x16: DType
uint32x32: DType
uint32x64: DType
uint16x2: DType
uint16x4: DType
uint16x8: DType
uint16x16: DType
uint16x32: DType
uint16x64: DType
uint8x2: DType
uint8x4: DType
uint8x8: DType
uint8x16: DType
uint8x32: DType
uint8x64: DType
uint4x2: DType
uint4x4: DType
uint4x8: DType
uint4x16: DType
uint4x32: DType
uint4x64: DType
uint1x2: DType
uint1x4: DType
uint1x8: DType
uint1x16: DType
uint1x32: DType
uint1x64: DType
boolx2: DType
boolx4: DType
boolx8: DType
boolx16: DType
boolx32: DType
boolx64: DType
float8_e4m3x2: DType
float8_e4m3x4: DType
float8_e4m3x8: DType
float8_e4m3x16: DType
float8_e4m3x32: DType
float8_e4m3x64: DType
tfloat32x2: DType
tfloat32x4: DType
tfloat32x8: DType
tfloat32x16: DType
tfloat32x32: DType
tfloat32x64: DType
