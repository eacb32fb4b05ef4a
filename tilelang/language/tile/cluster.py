"""Copies between the blocks of a cluster: ``T.copy_cluster``; and the copies that no target here has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from typing import Any

from tilelang.errors import OperandError, OptionError, UnsupportedError
from tilelang.frontend.access import as_region
from tilelang.frontend.builder import require_kernel
from tilelang.frontend.conversion import convert
from tilelang.frontend.values import as_expr
from tilelang.ignored import ignored
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.memory import lies_in_shared
from tilelang.ir.region import Region
from tilelang.language import calls
from tilelang.language.intrinsics import block_rank_in_cluster, cluster_sync, ptx_arrive_cluster_barrier, sync_threads
from tilelang.language.kernel import get_cluster_size, get_thread_bindings
from tilelang.language.loops import Parallel
from tilelang.language.tile.copy import copy
from tilelang.tileop.copy import Copy


def copy_cluster(
    src: Any, dst: Any, *, dst_block: Any = None, cluster_mask: int = 0, remote_barrier: Any = None, eviction_policy: Any = None,
    coalesced_width: int | None = None, annotations: Any = None, loop_layout: Any = None,
) -> None:  # fmt: skip
    """Copies a tile to other blocks of the cluster (sm_90 and later).

    With ``dst_block`` the shared tile ``src`` goes to ``dst`` in the shared memory of that block, which must not be in use there.
    Without ``remote_barrier`` a ``T.cluster_sync()`` of both blocks makes it visible; with it, that block's mbarrier of this
    name gets one arrival.

    With ``cluster_mask`` the blocks of the set bits all receive the tile of the lowest of them, each other block its own; every
    block of the cluster takes part.

    Args:
        src: a shared tile; with ``cluster_mask`` a region of a tensor.
        dst: a shared tile.
        dst_block: the receiving block's number in the cluster.
        remote_barrier: an element of ``T.alloc_cluster_barrier``.
        cluster_mask: the set of receiving blocks.
        eviction_policy, coalesced_width, annotations, loop_layout: have no effect; a value warns.

    Raises:
        OptionError: operands in other memories, or both ways to name the receivers.
        CopyShapeError: the extents differ.
    """
    ignored(
        "T.copy_cluster", eviction_policy=eviction_policy, coalesced_width=coalesced_width, annotations=annotations,
        loop_layout=loop_layout,
    )  # fmt: skip
    if dst_block is not None:
        if cluster_mask:
            raise OptionError("T.copy_cluster takes dst_block or cluster_mask, not both")
        _push(as_region(src, "T.copy_cluster"), as_region(dst, "T.copy_cluster"), dst_block)
        if remote_barrier is not None:
            _announce(remote_barrier, dst_block)
    elif not cluster_mask:
        copy(src, dst)
    else:
        _multicast(src, dst, cluster_mask)


def _push(source: Region, target: Region, rank: Any) -> None:
    """Stores each element of a shared tile to the same place of another block."""
    for region in (source, target):
        if not lies_in_shared(region):
            raise OperandError(f"T.copy_cluster: {region.buffer.name} is not in shared memory")
    Copy(source, target).check()
    builder = require_kernel("T.copy_cluster")
    extents = list(source.shape) or [1]
    frame, indices = replace(Parallel(*extents), many=True).open(builder, ())
    load = ir.BufferLoad(source.buffer, list(map(as_expr, source.index(indices))))
    place = ir.BufferLoad(target.buffer, list(map(as_expr, target.index(indices))))
    calls.effect("store_cluster", place, convert(load, target.dtype), as_expr(rank, "int32"))
    builder.close(frame)


def _announce(barrier: Any, rank: Any) -> None:
    """One arrival at another block's barrier, once every thread of this block has stored."""
    sync_threads()
    with _only_where(reduce(ir.And, [ir.EQ(index, as_expr(0)) for index in get_thread_bindings()])):
        ptx_arrive_cluster_barrier(barrier, rank)


def _multicast(src: Any, dst: Any, mask: int) -> None:
    """The lowest block of the set loads its tile and stores it to the others; blocks outside of the set load theirs."""
    mask, blocks = as_int(as_expr(mask)), get_cluster_size()
    if not isinstance(mask, int) or not 0 < mask < 1 << blocks:
        raise OptionError(f"T.copy_cluster: cluster_mask={mask!r} names no blocks of a cluster of {blocks}")
    leader, *others = [rank for rank in range(blocks) if mask >> rank & 1]
    rank = block_rank_in_cluster()
    with _only_where(reduce(ir.And, [ir.NE(rank, as_expr(other)) for other in others], ir.IntImm("bool", 1))):
        copy(src, dst)
    cluster_sync()  # all blocks have finished reading the old tile
    with _only_where(ir.EQ(rank, as_expr(leader))):
        for other in others:
            _push(as_region(dst), as_region(dst), other)
    cluster_sync()


@contextmanager
def _only_where(condition: Any) -> Iterator[None]:
    builder = require_kernel("T.copy_cluster")
    span = builder.span()
    with builder.scope("branch", lambda body: ir.IfThenElse(condition, body, None, span)):
        yield


def _blackwell(name: str) -> Any:
    def refuse(*_: Any, **__: Any) -> None:
        raise UnsupportedError(
            f"T.{name} is an instruction of sm_100, for which there is no target",
            hint="copy the rows one by one: for i in T.serial(4): T.copy(A[rows[i], :], tile[i, :])",
        )

    refuse.__name__, refuse.__doc__ = name, "An instruction of sm_100; refused, as no target here has it."
    return refuse


tma_gather4 = _blackwell("tma_gather4")
tma_scatter4 = _blackwell("tma_scatter4")
