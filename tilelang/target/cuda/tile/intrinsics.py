"""What the analyses know of scalar intrinsics, one row each; how one is lowered is a row in ``codegen/``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tilelang.ir.access import ADDRESS, UPDATE
from tilelang.ir.expr import as_int
from tilelang.target.cuda.arch import WARP, WARP_GROUP
from tilelang.tileop.thread import INTRINSICS, intrinsic_name

BLOCK = 1 << 16
"""The group of what all threads of a block agree on, however many they are."""


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """One intrinsic.

    Attributes:
        name: without its dialect.
        pure: whether it has no side effect.
        threads: whether it identifies the calling thread, or concerns others.
        agree: where it does or has an effect, how many neighbouring threads agree on its value.
        digit: (low, extent) where it gives ``thread // low % extent``; the extent is 0 where nothing is above.
        place: what it does to its first argument, which is an element.
        orders: whether threads wait for each other by it.
        publishes: whether threads that wait for it rely on the copies before it being complete.
        manual: whether a program that has it orders shared memory, or splits the block, by itself.
        exits: whether the thread is done.
        keeps: whether it has an effect, but never stores to local memory among its arguments.
    """

    name: str
    pure: bool
    threads: bool
    agree: int = 1
    digit: tuple[int, int] | None = None
    place: str | None = None
    orders: bool = False
    publishes: bool = False
    manual: bool = False
    exits: bool = False
    keeps: bool = False

    @property
    def is_atomic(self) -> bool:
        """Whether it is an atomic access."""
        return self.place == UPDATE


_AGREE: Mapping[int, str] = {
    BLOCK: "syncthreads_count syncthreads_and syncthreads_or block_rank_in_cluster create_tma_descriptor store_cluster",
    WARP_GROUP: "warp_group_idx",
    WARP: "warp_idx warp_idx_sync any_sync all_sync ballot_sync warp_reduce_sum warp_reduce_max warp_reduce_min"
    " warp_reduce_bitand warp_reduce_bitor",
}
_DIGITS = {"lane_idx": (1, WARP), "warp_idx": (WARP, 0), "warp_idx_sync": (WARP, 0), "warp_group_idx": (WARP_GROUP, 0)}
_COMMUTING = {
    "atomic_add": "add", "atomic_addx2": "add", "atomic_addx4": "add", "atomic_max": "max", "atomic_min": "min",
    "atomic_or": "or", "atomic_load": "load",
}  # fmt: skip
_FLAGS: Mapping[str, str] = {
    "orders": "barrier_wait mbarrier_wait_parity barrier_arrive mbarrier_arrive mbarrier_arrive_expect_tx arrive_cluster_barrier"
    " named_barrier_arrive sync_threads sync_warp sync_grid cluster_arrive cluster_wait cluster_sync",
    "publishes": "barrier_arrive mbarrier_arrive mbarrier_arrive_expect_tx arrive_cluster_barrier cluster_arrive cluster_sync"
    " named_barrier_arrive sync_warp sync_grid",
    "manual": "init_barrier mbarrier_wait_parity mbarrier_arrive mbarrier_expect_tx mbarrier_arrive_expect_tx barrier_wait"
    " barrier_arrive thread_return named_barrier_arrive ptx_commit_group ptx_wait_group sync_grid tma_load wait_wgmma"
    " warpgroup_arrive cluster_sync cluster_arrive",
    "exits": "thread_return",
    "keeps": "barrier_wait mbarrier_wait_parity barrier_arrive mbarrier_arrive mbarrier_expect_tx mbarrier_arrive_expect_tx"
    " arrive_cluster_barrier cp_async_barrier_noinc named_barrier_arrive sync_threads sync_warp sync_grid thread_return tma_load"
    " tma_store tma_store_arrive tma_store_wait ptx_commit_group ptx_wait_group wait_wgmma warpgroup_wait cluster_arrive"
    " cluster_arrive_relaxed cluster_wait cluster_sync pdl_trigger pdl_sync",
}


def _rows() -> Mapping[str, Intrinsic]:
    agree = {name: group for group, names in _AGREE.items() for name in names.split()}
    flags = {flag: frozenset(names.split()) for flag, names in _FLAGS.items()}
    return {
        name: Intrinsic(
            name,
            row.pure,
            row.threads,
            agree.get(name, 1),
            _DIGITS.get(name),
            UPDATE if name.startswith("atomic_") else ADDRESS if name in ("ptx_cp_async", "store_cluster") else None,
            **{flag: name in names for flag, names in flags.items()},
        )
        for name, row in INTRINSICS.items()
    }


_ROWS = _rows()


def intrinsic(expr: Any) -> Intrinsic | None:
    """The row of the intrinsic that an expression calls; None of any other expression."""
    name = intrinsic_name(expr)
    if name is None:
        return None
    row = _ROWS[name]
    return row if row.digit is None or not expr.args else _sized(row, [as_int(arg) for arg in expr.args])


def _sized(row: Intrinsic, sizes: list[int]) -> Intrinsic:
    """The row of a number of the thread for warps of another size, ``T.get_warp_idx(16)``; the second size is warps a group."""
    assert row.digit is not None
    low, extent = row.digit
    if extent:
        return replace(row, digit=(low, sizes[0]))
    low = sizes[0] * (sizes[1] if len(sizes) > 1 else low // WARP)
    return replace(row, digit=(low, 0), agree=low & -low)


def commuting(name: str) -> str:
    """The operation of an atomic intrinsic that commutes with others of the same operation; empty for any other."""
    return _COMMUTING.get(name, "")


def is_atomic(expr: Any) -> bool:
    """Whether an expression is an atomic access."""
    found = intrinsic(expr)
    return found is not None and found.is_atomic


def names_threads(expr: Any) -> bool:
    """Whether an expression is an intrinsic whose value may differ between the threads of a block."""
    found = intrinsic(expr)
    return found is not None and found.threads and found.agree != BLOCK


def digit_of(expr: Any) -> tuple[int, int] | None:
    """The digit (low, extent) of the thread's number that an intrinsic is; None of any other expression."""
    found = intrinsic(expr)
    return None if found is None else found.digit
