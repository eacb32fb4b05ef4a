"""The table of scalar intrinsics: what the analyses know of each, and what it becomes in the device IR, in one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tilelang.errors import UnsupportedError
from tilelang.ir.access import ADDRESS, UPDATE
from tilelang.ir.expr import as_int
from tilelang.ir.span import location_of
from tilelang.records import Record
from tilelang.target.cuda.arch import WARP, WARP_GROUP, Feature, arch_of
from tilelang.target.cuda.intrinsics import tensor_maps, values
from tilelang.target.cuda.intrinsics.values import RNG_STATE, Rule, atomic, atomic_vector, call, ieee, matrix, single, vote
from tilelang.target.cuda.ir.instructions import CommitBulk, CommitCopies, CommitProducts, FenceAsync, FenceProducts
from tilelang.target.cuda.ir.values import AddressOf, Call, Value
from tilelang.tileop.thread import INTRINSICS, intrinsic_name, packed_halves

BLOCK = 1 << 16
"""The group of what all threads of a block agree on, however many they are."""


class Intrinsic(Record):
    """One intrinsic; :data:`~tilelang.tileop.thread.INTRINSICS` says what it is on every target.

    Attributes:
        name: without its dialect.
        value: gives its value; None of a ``digit``, and of a statement that depends on where it stands (``codegen/generate.py``).
        statement: of a statement that is an instruction of the device IR, or none, gives that.
        needs: what the architecture must have.
        lowered: whether the compiler has to know how the feature is used, beyond the name of an instruction.
        optional: whether it means nothing, and is left out, where the architecture has not what it needs.
        agree: where it does or has an effect, how many neighbouring threads agree on its value.
        digit: (low, extent) where it gives ``thread // low % extent``; the extent is 0 where nothing is above.
        place: what it does to its first argument, which is an element.
        lanes: how many consecutive elements in memory each of its arguments that is an element stands for.
        bytes_at: which argument is the number of bytes in memory that each of its arguments that is an element stands for.
        in_bulk: whether it starts a copy by the accelerator, of the tensor that its first argument describes.
        starts: whether it starts an asynchronous copy, for which the program waits by itself.
        commutes: the operation of an atomic access that commutes with others of the same operation.
        orders: whether threads wait for others by it, or others for them.
        waits: whether threads wait by it for others that may run other code.
        publishes: whether threads that wait for it rely on the copies before it being complete.
        completes: whether products by warp groups read no operand after it, if its first argument is 0.
        manual: whether a program that has it orders shared memory, or splits the block, by itself.
        exits: whether the thread is done.
        keeps: whether it has an effect, but never stores to local memory among its arguments.
        numbered: whether its first argument, if it has any, is the number of a hardware barrier.
        of_launch: whether threads wait by it for the kernel before: what reads memory comes after it, whoever runs it.
        is_parameter: whether its value is a parameter of the kernel.
    """

    name: str
    value: Rule | None = None
    statement: Callable[[Any], list[Any]] | None = None
    needs: Feature | None = None
    lowered: bool = False
    optional: bool = False
    agree: int = 1
    digit: tuple[int, int] | None = None
    place: str | None = None
    lanes: int = 1
    bytes_at: int | None = None
    in_bulk: bool = False
    starts: bool = False
    commutes: str = ""
    orders: bool = False
    waits: bool = False
    publishes: bool = False
    completes: bool = False
    manual: bool = False
    exits: bool = False
    keeps: bool = False
    numbered: bool = False
    of_launch: bool = False
    is_parameter: bool = False

    @property
    def pure(self) -> bool:
        """Whether it has no side effect."""
        return INTRINSICS[self.name].pure

    @property
    def threads(self) -> bool:
        """Whether it identifies the calling thread, or concerns others."""
        return INTRINSICS[self.name].threads

    def reach(self, call: Any, dtype: Any) -> int | None:
        """How many consecutive elements of a type each of a call's arguments that is an element stands for; None if unknown."""
        if self.bytes_at is not None:
            return int(call.args[self.bytes_at].value) * 8 // dtype.bits
        # Of what gives no value, an element among its arguments is a place, from which it may go on.
        goes_on = INTRINSICS[self.name].result == "void" and not self.is_atomic and self.lanes == 1
        return None if goes_on else self.lanes

    @property
    def is_atomic(self) -> bool:
        """Whether it is an atomic access."""
        return self.place == UPDATE

    def is_possible(self, target: Any) -> bool:
        """Whether the architecture has what it needs."""
        return self.needs is None or arch_of(target).has(self.needs)

    def require(self, target: Any) -> None:
        """Checks that a target can do it.

        Raises:
            CompileError: the architecture does not have what it needs.
        """
        if self.needs is not None:
            require(target, self.needs, INTRINSICS[self.name].spelling, lowered=self.lowered)


def require(target: Any, feature: Feature, spelling: str, span: Any = None, lowered: bool = False) -> None:
    """Checks that a program for a target may use a function of the language that needs a feature.

    Args:
        spelling: the function.
        span: where the program uses it; without one, the statement that is being compiled is named.
        lowered: as in :class:`Intrinsic`.

    Raises:
        UnsupportedError: the target does not have it, or nothing is generated for it.
    """
    why = arch_of(target).refusal(feature, lowered)
    if why is not None:
        raise UnsupportedError(f"{spelling} {why}").at(location_of(span))


_FAST = ("exp", "exp10", "log", "log2", "log10", "sin", "cos", "tan", "pow")
_FUNCTORS = {"sum": "tl::Sum", "max": "tl::Max", "min": "tl::Min", "bitand": "tl::BitAnd", "bitor": "tl::BitOr"}

_WAIT: Mapping[str, Any] = {"orders": True, "waits": True, "manual": True, "keeps": True}
_SIGNAL: Mapping[str, Any] = {"orders": True, "publishes": True, "manual": True, "keeps": True}
"""What is known of statements by which threads wait for others, and of those by which others go on."""

_ROWS = [
    # Memory and arithmetic of one thread
    *(Intrinsic(f"atomic_{name}", atomic(name), place=UPDATE, commutes=name) for name in ("add", "max", "min", "or", "load")),
    *(Intrinsic(f"atomic_addx{lanes}", atomic_vector(lanes), place=UPDATE, lanes=lanes, commutes="add") for lanes in (2, 4)),
    Intrinsic("atomic_store", atomic("store"), place=UPDATE),
    Intrinsic("dp4a", values.dot_of_bytes),
    Intrinsic("ldg", call("__ldg", places=(0,))),
    Intrinsic("rng_init", values.rng_init),
    Intrinsic("rng_rand", lambda expr, emitter: Call("tl::philox_next", (RNG_STATE,))),
    Intrinsic("rng_rand_float", values.rng_float),
    *(Intrinsic(f"fast_{name}", single(f"tl::fast_{name}")) for name in _FAST),
    Intrinsic("fast_rcp", values.reciprocal),
    *(Intrinsic(f"ieee_{name}", ieee(name)) for name in ("add", "sub", "mul", "fma", "rcp", "sqrt", "rsqrt", "div")),
    Intrinsic("fma", values.fma),
    Intrinsic("pack_b16", lambda call, emitter: emitter.value(packed_halves(call))),
    *(Intrinsic(name, values.limited(f"tl::{name}")) for name in ("clamp", "max_nan", "min_nan")),
    # Numbers of threads, and what threads tell each other
    Intrinsic("lane_idx", digit=(1, WARP)),
    *(Intrinsic(f"warp_{name}", agree=WARP, digit=(WARP, 0)) for name in ("idx", "idx_sync")),
    Intrinsic("warp_group_idx", agree=WARP_GROUP, digit=(WARP_GROUP, 0)),
    Intrinsic("shuffle_elect", call("tl::elect_thread", constants=(0,))),
    Intrinsic("shfl_sync", call("tl::shfl_idx")),
    *(Intrinsic(f"shfl_{way}", call(f"tl::shfl_{way}")) for way in ("xor", "up", "down")),
    *(Intrinsic(name, vote(f"__{name}"), agree=WARP) for name in ("any_sync", "all_sync", "ballot_sync")),
    Intrinsic("match_any_sync", vote("__match_any_sync")),
    Intrinsic("match_all_sync", vote("tl::match_all", mask_first=False)),
    Intrinsic("activemask", call("__activemask")),
    Intrinsic("fns", call("tl::nth_set_bit")),
    *(Intrinsic(f"warp_reduce_{name}", values.warp_reduction(f), agree=WARP) for name, f in _FUNCTORS.items()),
    # Barriers
    Intrinsic("sync_threads", orders=True, waits=True, keeps=True, numbered=True),
    *(Intrinsic(f"syncthreads_{how}", call(f"__syncthreads_{how}"), agree=BLOCK, manual=True) for how in ("count", "and", "or")),
    Intrinsic("sync_warp", call("__syncwarp"), orders=True, publishes=True, keeps=True),
    Intrinsic("sync_grid", lambda expr, emitter: Call("tl::grid_sync", (AddressOf(values.GRID_STATE),)), **_SIGNAL),
    Intrinsic("named_barrier_arrive", call("tl::named_barrier_arrive"), numbered=True, **_SIGNAL),
    Intrinsic("init_barrier", call("tl::mbarrier_restart", places=(0,)), needs=Feature.MBARRIER, manual=True),
    Intrinsic("fence_barrier_init", call("tl::mbarrier_fence_init"), needs=Feature.MBARRIER),
    Intrinsic("mbarrier_wait_parity", call("tl::mbarrier_wait", places=(0,)), needs=Feature.MBARRIER, **_WAIT),
    Intrinsic("barrier_wait", call("tl::mbarrier_wait", places=(0,)), needs=Feature.MBARRIER, **_WAIT),
    Intrinsic("mbarrier_arrive", values.barrier_arrival, needs=Feature.MBARRIER, **_SIGNAL),
    Intrinsic("barrier_arrive", call("tl::mbarrier_arrive", places=(0,)), needs=Feature.MBARRIER, **_SIGNAL),
    Intrinsic("mbarrier_arrive_expect_tx", call("tl::mbarrier_arrive_expect_tx", places=(0,)), needs=Feature.TMA, **_SIGNAL),
    Intrinsic("mbarrier_expect_tx", call("tl::mbarrier_expect_tx", places=(0,)), needs=Feature.TMA, manual=True, keeps=True),
    Intrinsic(
        "arrive_cluster_barrier", call("tl::mbarrier_arrive_remote", places=(0,)), needs=Feature.CLUSTER,
        orders=True, publishes=True, keeps=True,
    ),
    # The compiler's own rings (specialize/): what their barriers order is ordered by how the roles are made
    Intrinsic("ring_wait", call("tl::mbarrier_wait", places=(0,)), keeps=True),
    Intrinsic("ring_expect", call("tl::mbarrier_arrive_expect_tx", places=(0,)), keeps=True),
    Intrinsic("ring_release", call("tl::mbarrier_arrive_warp", places=(0,)), keeps=True),
    Intrinsic("ring_registers", statement=values.register_move, needs=Feature.SET_MAX_NREG, optional=True, keeps=True),
    # Asynchronous copies
    Intrinsic("ptx_cp_async", values.copy_async, needs=Feature.CP_ASYNC, place=ADDRESS, bytes_at=2, starts=True),
    Intrinsic("ptx_commit_group", statement=lambda expr: [CommitCopies()], needs=Feature.CP_ASYNC, manual=True, keeps=True),
    Intrinsic("ptx_wait_group", call("tl::cp_async_wait", constants=(0,)), needs=Feature.CP_ASYNC, manual=True, keeps=True),
    Intrinsic(
        "cp_async_barrier_noinc", call("tl::cp_async_mbarrier_arrive_noinc", places=(0,)), needs=Feature.CP_ASYNC,
        orders=True, keeps=True,
    ),
    Intrinsic("fence_proxy_async", statement=lambda expr: [FenceAsync()], needs=Feature.TMA),
    Intrinsic(
        "create_tma_descriptor", tensor_maps.descriptor, needs=Feature.TMA, lowered=True, agree=BLOCK, is_parameter=True
    ),
    Intrinsic("tma_load", tensor_maps.load, manual=True, keeps=True, in_bulk=True),
    Intrinsic("tma_store", tensor_maps.store, keeps=True, in_bulk=True),
    Intrinsic("tma_store_arrive", statement=lambda expr: [CommitBulk()], needs=Feature.TMA, keeps=True),
    Intrinsic("tma_store_wait", statement=values.wait_for_stores, needs=Feature.TMA, keeps=True),
    # Matrices
    Intrinsic("ptx_ldmatrix", matrix("ldmatrix", 3, 2)),
    Intrinsic("ptx_stmatrix", matrix("stmatrix", 2, 3)),
    Intrinsic("ptx_mma", values.matrix_product),
    Intrinsic("wgmma_descriptor", values.tile_descriptor, needs=Feature.WGMMA),
    Intrinsic("warpgroup_arrive", statement=lambda expr: [FenceProducts()], needs=Feature.WGMMA, manual=True),
    Intrinsic("warpgroup_commit_batch", statement=lambda expr: [CommitProducts()], needs=Feature.WGMMA),
    *(
        Intrinsic(name, call("tl::wgmma_wait", constants=(0,)), needs=Feature.WGMMA, completes=True, manual=True, keeps=True)
        for name in ("warpgroup_wait", "wait_wgmma")
    ),
    # Clusters and launches
    Intrinsic("cluster_arrive", call("tl::cluster_arrive"), needs=Feature.CLUSTER, **_SIGNAL),
    Intrinsic("cluster_sync", call("tl::cluster_sync"), needs=Feature.CLUSTER, **_SIGNAL),
    Intrinsic("cluster_arrive_relaxed", call("tl::cluster_arrive_relaxed"), needs=Feature.CLUSTER, manual=True, keeps=True),
    Intrinsic("cluster_wait", call("tl::cluster_wait"), needs=Feature.CLUSTER, **_WAIT),
    Intrinsic(
        "store_cluster", call("tl::store_cluster", places=(0,), kind=ADDRESS), needs=Feature.CLUSTER, agree=BLOCK, place=ADDRESS
    ),
    Intrinsic("block_rank_in_cluster", call("tl::cluster_rank"), needs=Feature.CLUSTER, agree=BLOCK),
    Intrinsic("pdl_trigger", call("tl::pdl_trigger"), needs=Feature.PDL, optional=True, keeps=True),
    Intrinsic("pdl_sync", call("tl::pdl_wait"), needs=Feature.PDL, optional=True, keeps=True, of_launch=True),
    # What is no call
    Intrinsic("thread_return", manual=True, exits=True, keeps=True),
    Intrinsic("source_kernel", statement=lambda expr: []),
]  # fmt: skip

_TABLE: Mapping[str, Intrinsic] = {row.name: row for row in _ROWS}


def intrinsic(expr: Any) -> Intrinsic | None:
    """The row of the intrinsic that an expression calls; None of any other expression."""
    name = intrinsic_name(expr)
    if name is None:
        return None
    row = _TABLE[name]
    return row if row.digit is None or not expr.args else _sized(row, [as_int(arg) for arg in expr.args])


def _sized(row: Intrinsic, sizes: list[int]) -> Intrinsic:
    """The row of a number of the thread for warps of another size, ``T.get_warp_idx(16)``; the second size is warps a group."""
    assert row.digit is not None
    low, extent = row.digit
    if extent:
        return replace(row, digit=(low, sizes[0]))
    low = sizes[0] * (sizes[1] if len(sizes) > 1 else low // WARP)
    return replace(row, digit=(low, 0), agree=low & -low)


def lower_intrinsic(emitter: Any, expr: Any) -> Value | None:
    """The value of an intrinsic; None for other calls, and for those that have none.

    Args:
        emitter: lowers expressions and the addresses of elements, and has the target.

    Raises:
        CompileError: the architecture has no such instruction, or an argument must be a constant.
    """
    row = intrinsic(expr)
    if row is not None and row.digit is not None:
        return values.part_of_rank(*row.digit)
    if row is None or row.value is None:
        return None
    row.require(emitter.target)
    return row.value(expr, emitter)


def is_atomic(expr: Any) -> bool:
    """Whether an expression is an atomic access."""
    found = intrinsic(expr)
    return found is not None and found.is_atomic


def names_threads(expr: Any) -> bool:
    """Whether an expression is an intrinsic whose value, or what it does, may differ between the threads of a block.

    One that accesses an element does what its operands say.
    """
    found = intrinsic(expr)
    return found is not None and found.threads and found.agree != BLOCK and found.place is None


def digit_of(expr: Any) -> tuple[int, int] | None:
    """The digit (low, extent) of the thread's number that an intrinsic is; None of any other expression."""
    found = intrinsic(expr)
    return None if found is None else found.digit
