"""Intrinsics: scalar calls ``tl.<name>(...)`` that a target lowers by a table entry.

Each row of :data:`INTRINSICS` says what the call computes, whether it has side effects, and whether it names threads (then
it only means something on a target that has them, and the CPU refuses it by name).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.tileop.base import register_op

_PURE, _UPDATE = 1, 3

FULL_MASK = 0xFFFFFFFF
"""The mask of all lanes of a warp."""

NAMED_BARRIERS = range(16)
"""The numbers of a block's hardware barriers; 0 is that of ``T.sync_threads()``."""


def counts_warps(threads: int) -> bool:
    """Whether ``threads`` may meet at a hardware barrier, which counts warps."""
    return threads > 0 and threads % 32 == 0


_EXCHANGES = ("shfl_", "match_", "any_sync", "all_sync", "ballot_sync", "warp_reduce_", "syncthreads_")
_MASKED = ("_sync", "shfl_xor", "shfl_up", "shfl_down")
"""Calls whose last argument is the mask of the lanes that take part."""


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """One scalar intrinsic.

    Attributes:
        name: without the ``tl.`` prefix.
        result: dtype name of the result; ``"same"`` is the first argument's, ``"void"`` a statement.
        pure: whether it has no side effect.
        threads: whether it speaks of threads, warps, barriers or asynchronous units, which a CPU does not have.
        spelling: the user's name in messages.
    """

    name: str
    result: str
    pure: bool
    threads: bool
    spelling: str


def _rows(text: str, threads: bool) -> list[Intrinsic]:
    rows: list[Intrinsic] = []
    for line in text.split("\n"):
        if line.strip():
            name, result, effect, *spelling = line.split()
            rows.append(Intrinsic(name, result, effect == "pure", threads, f"T.{spelling[0] if spelling else name}"))
    return rows


INTRINSICS: Mapping[str, Intrinsic] = {
    row.name: row
    for row in [
        # An address argument is an element load: of the element, or of the first of several consecutive ones.
        # Atomics: (element, value) with attribute memory_order; the result is the old value. atomic_addx2/x4: (element, element).
        # ieee_*: attribute rounding, "rn", "rz", "ru" or "rd". rng_*: attributes generator, dist.
        *_rows(
            """
            atomic_add same effect
            atomic_max same effect
            atomic_min same effect
            atomic_or same effect
            atomic_addx2 same effect
            atomic_addx4 same effect
            atomic_load same effect
            atomic_store void effect
            dp4a void effect
            rng_init void effect
            rng_rand uint32 effect
            rng_rand_float float32 effect
            fast_exp same pure __exp
            fast_exp10 same pure __exp10
            fast_log same pure __log
            fast_log2 same pure __log2
            fast_log10 same pure __log10
            fast_sin same pure __sin
            fast_cos same pure __cos
            fast_tan same pure __tan
            fast_pow same pure __pow
            ieee_add same pure
            ieee_sub same pure
            ieee_mul same pure
            ieee_fma same pure ieee_fmaf
            ieee_rcp same pure ieee_frcp
            ieee_sqrt same pure ieee_fsqrt
            ieee_rsqrt same pure ieee_frsqrt
            ieee_div same pure ieee_fdiv
            fast_rcp same pure
            fma same pure
            clamp same pure
            max_nan same pure
            min_nan same pure
            pack_b16 int32 pure
            ldg same pure
            """,
            threads=False,
        ),
        *_rows(
            """
            sync_threads void effect
            sync_warp void effect
            sync_grid void effect
            named_barrier_arrive void effect
            shfl_sync same effect
            shfl_xor same effect
            shfl_up same effect
            shfl_down same effect
            any_sync int32 effect
            all_sync int32 effect
            ballot_sync uint64 effect
            activemask uint64 effect
            fns uint32 pure __fns
            syncthreads_count int32 effect
            syncthreads_and int32 effect
            syncthreads_or int32 effect
            match_any_sync uint32 effect
            match_all_sync uint32 effect
            lane_idx int32 pure get_lane_idx
            warp_idx int32 pure get_warp_idx
            warp_idx_sync int32 pure get_warp_idx_sync
            warp_group_idx int32 pure get_warp_group_idx
            shuffle_elect bool effect
            warp_reduce_sum same effect
            warp_reduce_max same effect
            warp_reduce_min same effect
            warp_reduce_bitand same effect
            warp_reduce_bitor same effect
            thread_return void effect
            source_kernel void effect CUDASourceCodeKernel
            init_barrier void effect ptx_init_barrier_thread_count
            mbarrier_wait_parity void effect
            mbarrier_arrive void effect
            mbarrier_expect_tx void effect
            mbarrier_arrive_expect_tx void effect
            barrier_wait void effect
            barrier_arrive void effect
            arrive_cluster_barrier void effect ptx_arrive_cluster_barrier
            ring_wait void effect
            ring_expect void effect
            ring_release void effect
            ring_registers void effect
            cp_async_barrier_noinc void effect
            ptx_cp_async void effect
            ptx_commit_group void effect
            ptx_wait_group void effect
            fence_proxy_async void effect
            fence_barrier_init void effect ptx_fence_barrier_init
            warpgroup_arrive void effect
            warpgroup_commit_batch void effect
            warpgroup_wait void effect
            wait_wgmma void effect
            create_tma_descriptor handle pure
            tma_load void effect
            tma_store void effect
            tma_store_arrive void effect
            tma_store_wait void effect
            pdl_trigger void effect
            pdl_sync void effect
            cluster_arrive void effect
            cluster_arrive_relaxed void effect
            cluster_wait void effect
            cluster_sync void effect
            store_cluster void effect copy_cluster
            block_rank_in_cluster int32 pure
            ptx_ldmatrix void effect
            ptx_stmatrix void effect
            ptx_mma void effect
            wgmma_descriptor uint64 pure initialize_wgmma_descriptor
            """,
            threads=True,
        ),
    ]
}

for _row in INTRINSICS.values():
    register_op(f"tl.{_row.name}", _PURE if _row.pure else _UPDATE)


def intrinsic_call(name: str, *args: Any, dtype: str | None = None, attrs: dict[Any, Any] | None = None, span: Any = None) -> Any:
    """The call expression ``tl.<name>(*args)``.

    Args:
        name: a row of :data:`INTRINSICS`.
        args: operands as expressions.
        dtype: replaces the table's type of the result.
        attrs: settings that are no operands, by name.
        span: place in the program.
    """
    row = INTRINSICS[name]
    converted = [constant(arg) if not isinstance(arg, str) else ir.StringImm(arg) for arg in args]
    result = dtype or (str(converted[0].ty) if row.result == "same" else "int32" if row.result == "void" else row.result)
    node = ir.ir.make_node("ir.DictAttrs", **attrs) if attrs else None
    return ir.Call(ir.Op.get(f"tl.{name}"), converted, attrs=node, ret_ty=result, span=span)


def packed_halves(call: Any) -> Any:
    """What ``tl.pack_b16(a, b)`` computes: the bits of two values of 16 bits in an int32, the first one low."""
    low, high = (ir.Cast("uint32", ir.tirx.reinterpret("uint16", half)) for half in call.args)
    return ir.tirx.reinterpret("int32", low | high << 16)


def is_jump(stmt: Any) -> bool:
    """Whether a statement leaves a loop, its iteration or the thread."""
    ends_thread = isinstance(stmt, ir.Evaluate) and intrinsic_name(stmt.value) == "thread_return"
    return ends_thread or isinstance(stmt, (ir.Break, ir.Continue))


def runs_foreign_code(stmt: Any) -> bool:
    """Whether a statement calls a function of the program's own device code for what it does, which may be to wait."""
    if not isinstance(stmt, ir.Evaluate) or not isinstance(stmt.value, ir.Call):
        return False
    return isinstance(stmt.value.op, ir.Op) and stmt.value.op.name == "tirx.call_extern"


def is_exchange_of_all(expr: Any) -> bool:
    """Whether ``expr`` exchanges values between all lanes of a warp, or all threads of the block, which all must come to it."""
    name = intrinsic_name(expr)
    if name is None or not name.startswith(_EXCHANGES):
        return False
    return not name.endswith(_MASKED) or len(expr.args) == 1 or as_int(expr.args[-1]) == FULL_MASK


def intrinsic_name(expr: Any) -> str | None:
    """The intrinsic that ``expr`` calls, or None."""
    if isinstance(expr, ir.Call) and isinstance(expr.op, ir.Op) and expr.op.name.startswith("tl."):
        name = expr.op.name[3:]
        return name if name in INTRINSICS else None
    return None
