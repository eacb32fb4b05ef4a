"""Barriers, fences, asynchronous groups, clusters and dependent launches: intrinsics that are one device function.

A row says which function, and which arguments are places in memory (they go by address) or compile-time constants (template
arguments). The rest are values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tilelang.errors import CompileError
from tilelang.ir.access import ADDRESS, READ
from tilelang.ir.expr import as_int
from tilelang.target.cuda.arch import Feature, arch_of, architectures_with
from tilelang.target.cuda.ir.code import Barrier, Block, BranchCode, counted
from tilelang.target.cuda.ir.instructions import Evaluate, WaitBulk
from tilelang.target.cuda.ir.values import Array, Call, Name, Number, Value
from tilelang.tileop.thread import INTRINSICS, intrinsic_name


@dataclass(frozen=True, slots=True)
class AsyncCall:
    """How one intrinsic is written.

    Attributes:
        function: ``tl::`` function.
        places: positions of arguments that are elements in memory.
        constants: positions of arguments that must be known at compile time.
        needs: what the architecture must have.
        kind: what happens to the memory at its places.
    """

    function: str
    places: tuple[int, ...] = ()
    constants: tuple[int, ...] = ()
    needs: Feature = Feature.TMA
    kind: str = READ


CALLS: Mapping[str, AsyncCall] = {
    "init_barrier": AsyncCall("tl::mbarrier_restart", (0,), needs=Feature.MBARRIER),
    "mbarrier_wait_parity": AsyncCall("tl::mbarrier_wait", (0,), needs=Feature.MBARRIER),
    "barrier_wait": AsyncCall("tl::mbarrier_wait", (0,), needs=Feature.MBARRIER),
    "mbarrier_arrive": AsyncCall("tl::mbarrier_arrive", (0,), needs=Feature.MBARRIER),
    "barrier_arrive": AsyncCall("tl::mbarrier_arrive", (0,), needs=Feature.MBARRIER),
    "mbarrier_expect_tx": AsyncCall("tl::mbarrier_expect_tx", (0,)),
    "mbarrier_arrive_expect_tx": AsyncCall("tl::mbarrier_arrive_expect_tx", (0,)),
    "arrive_cluster_barrier": AsyncCall("tl::mbarrier_arrive_remote", (0,), needs=Feature.CLUSTER),
    "cp_async_barrier_noinc": AsyncCall("tl::cp_async_mbarrier_arrive_noinc", (0,), needs=Feature.CP_ASYNC),
    "ptx_commit_group": AsyncCall("tl::cp_async_commit", needs=Feature.CP_ASYNC),
    "ptx_wait_group": AsyncCall("tl::cp_async_wait", constants=(0,), needs=Feature.CP_ASYNC),
    "fence_proxy_async": AsyncCall("tl::fence_proxy_async"),
    "fence_barrier_init": AsyncCall("tl::mbarrier_fence_init", needs=Feature.MBARRIER),
    "tma_store_arrive": AsyncCall("tl::tma_store_commit"),
    "tma_store_wait": AsyncCall("tl::tma_store_wait"),
    "warpgroup_arrive": AsyncCall("tl::wgmma_fence", needs=Feature.WGMMA),
    "warpgroup_commit_batch": AsyncCall("tl::wgmma_commit", needs=Feature.WGMMA),
    "warpgroup_wait": AsyncCall("tl::wgmma_wait", constants=(0,), needs=Feature.WGMMA),
    "wait_wgmma": AsyncCall("tl::wgmma_wait", constants=(0,), needs=Feature.WGMMA),
    "pdl_trigger": AsyncCall("tl::pdl_trigger", needs=Feature.PDL),
    "pdl_sync": AsyncCall("tl::pdl_wait", needs=Feature.PDL),
    "cluster_arrive": AsyncCall("tl::cluster_arrive", needs=Feature.CLUSTER),
    "cluster_arrive_relaxed": AsyncCall("tl::cluster_arrive_relaxed", needs=Feature.CLUSTER),
    "cluster_wait": AsyncCall("tl::cluster_wait", needs=Feature.CLUSTER),
    "cluster_sync": AsyncCall("tl::cluster_sync", needs=Feature.CLUSTER),
    "store_cluster": AsyncCall("tl::store_cluster", (0,), needs=Feature.CLUSTER, kind=ADDRESS),
    "block_rank_in_cluster": AsyncCall("tl::cluster_rank", needs=Feature.CLUSTER),
}
"""Intrinsics without a rule of their own."""

PRODUCT_WAITS = ("wait_wgmma", "warpgroup_wait")
"""Those of them that wait for products in flight."""

LAUNCH_WAITS = ("pdl_trigger", "pdl_sync")
"""Those of them that order launches which may overlap."""


def lower_call(emitter: Any, call: Any) -> Value | None:
    """The value of an intrinsic of this family; None for any other expression.

    Args:
        emitter: lowers expressions and addresses of elements, and has the target.
        call: the call expression.

    Raises:
        CompileError: the architecture has no such instruction, or a constant is missing.
    """
    name = intrinsic_name(call)
    row = None if name is None else CALLS.get(name)
    if name is None or row is None:
        return None
    require(emitter.target, row.needs, INTRINSICS[name].spelling)
    arguments = (
        _address(arg, emitter, row.kind) if at in row.places else emitter.value(arg)
        for at, arg in enumerate(call.args)
        if at not in row.constants
    )
    function = row.function
    if name == "mbarrier_arrive" and len(call.args) == 2:
        function = "tl::mbarrier_arrive_remote"
    return Call(function, tuple(arguments), tuple(constant_argument(call, at) for at in row.constants))


def require(target: Any, feature: Feature, spelling: str) -> None:
    """Checks that a target has the feature that a function of the language needs.

    Args:
        target: a CUDA target.
        feature: the required feature.
        spelling: of the function, for the message.

    Raises:
        CompileError: the target does not have it.
    """
    if not arch_of(target).has(feature):
        needed = architectures_with(feature)
        raise CompileError(f"{spelling} needs {needed}, the target is {target.arch}")


def _address(load: Any, emitter: Any, kind: str) -> Value:
    return emitter.places.address(load.source, list(load.indices), kind)


def constant_argument(call: Any, at: int) -> int:
    """An argument of an intrinsic that must be known at compile time.

    Raises:
        CompileError: it is not.
    """
    value = as_int(call.args[at])
    if not isinstance(value, int):
        name = intrinsic_name(call)
        assert name is not None
        raise CompileError(f"{INTRINSICS[name].spelling} needs an argument that is known at compile time")
    return value


def wait_for_stores(call: Any) -> WaitBulk:
    """``T.tma_store_wait(pending, read)``: by default for all stores, until they have read their source."""
    pending, read = (constant_argument(call, at) if at < len(call.args) else default for at, default in enumerate((0, 1)))
    return WaitBulk(pending, complete=not read)


def barrier_initialisation(barriers: Iterable[tuple[Array, list[int]]], clusters: bool, maps: Iterable[Name] = ()) -> list[Any]:
    """The code at the start of a kernel that makes its barriers usable by all threads.

    Args:
        barriers: (the array, arrivals of each of its barriers).
        clusters: whether other blocks of a cluster arrive too.
        maps: descriptors to fetch early.
    """
    body: list[Any] = [Evaluate(Call("tl::tma_prefetch", (name,))) for name in maps]
    for array, arrivals in barriers:
        if len(set(arrivals)) == 1 and len(arrivals) > 1:
            at = Name("i")
            body.append(counted(at, len(arrivals), [_initialised(array.to(at), arrivals[0])]))
        else:
            body += [_initialised(array.to(at), count) for at, count in enumerate(arrivals)]
    body.append(Evaluate(Call("tl::mbarrier_fence_init")))
    # Whoever arrives at a barrier must find it initialised: the threads of the block, or of all blocks of the cluster.
    together = Evaluate(Call("tl::cluster_sync")) if clusters else Barrier()
    return [BranchCode(Call("tl::thread_rank").is_("==", 0), Block(body)), together]


def _initialised(barrier: Value, arrivals: int) -> Evaluate:
    return Evaluate(Call("tl::mbarrier_init", (barrier, Number(arrivals))))
