"""Thread-level functions: each emits its intrinsic, and a CPU refuses it by the user's name or has nothing to do."""

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import CompileError
from tilelang.ir import nodes as ir
from tilelang.ir.visit import statement_exprs, walk, walk_expr
from tilelang.target.cpu.waits import WAITS
from tilelang.tileop.thread import INTRINSICS, intrinsic_name

CALLS = {
    "sync_threads": lambda b, s, x: T.sync_threads(),
    "sync_threads_named": lambda b, s, x: T.sync_threads(1, 64),
    "sync_warp": lambda b, s, x: T.sync_warp(),
    "sync_grid": lambda b, s, x: T.sync_grid(),
    "named_barrier_arrive": lambda b, s, x: T.named_barrier_arrive(1, 128),
    "shfl_sync": lambda b, s, x: T.shfl_sync(x, 0),
    "shfl_xor": lambda b, s, x: T.shfl_xor(x, 1),
    "shfl_up": lambda b, s, x: T.shfl_up(x, 1, width=16),
    "shfl_down": lambda b, s, x: T.shfl_down(x, delta=1, mask=0xFF),
    "any_sync": lambda b, s, x: T.any_sync(x > 0),
    "all_sync": lambda b, s, x: T.all_sync(x > 0),
    "ballot_sync": lambda b, s, x: T.ballot_sync(x > 0),
    "ballot": lambda b, s, x: T.ballot(x > 0),
    "activemask": lambda b, s, x: T.activemask(),
    "syncthreads_count": lambda b, s, x: T.syncthreads_count(x > 0),
    "syncthreads_and": lambda b, s, x: T.syncthreads_and(x > 0),
    "syncthreads_or": lambda b, s, x: T.syncthreads_or(x > 0),
    "match_any_sync": lambda b, s, x: T.match_any_sync(T.get_lane_idx()),
    "match_all_sync": lambda b, s, x: T.match_all_sync(T.get_lane_idx()),
    "shuffle_elect": lambda b, s, x: T.shuffle_elect(128),
    "get_lane_idx": lambda b, s, x: T.evaluate(T.get_lane_idx()),
    "get_warp_idx": lambda b, s, x: T.evaluate(T.get_warp_idx()),
    "get_warp_idx_sync": lambda b, s, x: T.evaluate(T.get_warp_idx_sync()),
    "get_warp_group_idx": lambda b, s, x: T.evaluate(T.get_warp_group_idx()),
    "warp_reduce_sum": lambda b, s, x: T.warp_reduce_sum(x),
    "warp_reduce_max": lambda b, s, x: T.warp_reduce_max(x),
    "thread_return": lambda b, s, x: T.thread_return(),
    "mbarrier_wait_parity": lambda b, s, x: T.mbarrier_wait_parity(b[0], 1),
    "mbarrier_arrive": lambda b, s, x: T.mbarrier_arrive(b[1]),
    "mbarrier_expect_tx": lambda b, s, x: T.mbarrier_expect_tx(b[0], 1024),
    "mbarrier_arrive_expect_tx": lambda b, s, x: T.mbarrier_arrive_expect_tx(b[0], 1024),
    "barrier_wait": lambda b, s, x: T.barrier_wait(b[0], 0),
    "barrier_arrive": lambda b, s, x: T.barrier_arrive(b[0]),
    "ptx_arrive_cluster_barrier": lambda b, s, x: T.ptx_arrive_cluster_barrier(b[0], 1),
    "cp_async_barrier_noinc": lambda b, s, x: T.cp_async_barrier_noinc(b[0]),
    "ptx_cp_async": lambda b, s, x: T.ptx_cp_async(s[0], s[16], 4),
    "ptx_commit_group": lambda b, s, x: T.ptx_commit_group(),
    "ptx_wait_group": lambda b, s, x: T.ptx_wait_group(0),
    "fence_proxy_async": lambda b, s, x: T.fence_proxy_async(),
    "ptx_fence_barrier_init": lambda b, s, x: T.ptx_fence_barrier_init(),
    "tma_store_arrive": lambda b, s, x: T.tma_store_arrive(),
    "tma_store_wait": lambda b, s, x: T.tma_store_wait(),
    "warpgroup_arrive": lambda b, s, x: T.warpgroup_arrive(),
    "warpgroup_commit_batch": lambda b, s, x: T.warpgroup_commit_batch(),
    "warpgroup_wait": lambda b, s, x: T.warpgroup_wait(0),
    "wait_wgmma": lambda b, s, x: T.wait_wgmma(0),
    "cluster_arrive": lambda b, s, x: T.cluster_arrive(),
    "cluster_arrive_relaxed": lambda b, s, x: T.cluster_arrive_relaxed(),
    "cluster_wait": lambda b, s, x: T.cluster_wait(),
    "cluster_sync": lambda b, s, x: T.cluster_sync(),
    "block_rank_in_cluster": lambda b, s, x: T.evaluate(T.block_rank_in_cluster()),
    "pdl_trigger": lambda b, s, x: T.pdl_trigger(),
    "pdl_sync": lambda b, s, x: T.pdl_sync(),
    "tma_load": lambda b, s, x: T.tma_load(s, b, s, 0, 0),
}


def program(call, barriers=True):
    @T.prim_func
    def main(A: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((32,), "float32")
            barrier = T.alloc_barrier([128, 128]) if barriers else None
            call(barrier, tile, A[0])

    return main


def calls_of(func):
    return [intrinsic_name(e) for stmt in walk(func.body) for root in statement_exprs(stmt) for e in walk_expr(root)]


@pytest.mark.parametrize("name", CALLS)
def test_emits_its_intrinsic(name):
    found = [call for call in calls_of(program(CALLS[name])) if call is not None]
    assert found, "no intrinsic was emitted"
    assert all(INTRINSICS[call].threads for call in found)


NO_OPERATION = WAITS & CALLS.keys()
REFUSED = [
    name for name in CALLS.keys() - WAITS if "barrier" not in name and not name.startswith("tma_load") and name != "thread_return"
]


@pytest.mark.parametrize("name", sorted(NO_OPERATION))
def test_the_cpu_has_nothing_to_wait_for(name):
    tile = torch.ones(32)
    tilelang.compile(program(CALLS[name], barriers=False), target="cpu")(tile)
    assert (tile == 1).all()


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_the_cpu_refuses_it_by_name(name):
    spelling = {"sync_threads_named": "sync_threads", "ballot": "ballot_sync"}.get(name, name)
    with pytest.raises(CompileError, match="CPU") as caught:
        tilelang.compile(program(CALLS[name], barriers=False), target="cpu")
    shown = str(caught.value)
    assert f"T.{spelling}" in shown or "T.get_lane_idx" in shown
    assert caught.value.location is not None


def test_thread_index_is_refused_on_the_cpu():
    @T.prim_func
    def main(A: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding(0)
            A[tx] = tx

    with pytest.raises(CompileError, match="CPU"):
        tilelang.compile(main, target="cpu")


def test_a_function_that_is_a_statement_may_be_evaluated():
    evaluated = program(lambda b, s, x: T.evaluate(T.ptx_commit_group()))
    assert str(evaluated) == str(program(lambda b, s, x: T.ptx_commit_group()))


def test_cp_async_counts_elements():
    call = program(lambda b, s, x: T.ptx_cp_async(T.access_ptr(s[0], "w", 2), T.access_ptr(s, "r", offset=4), 2))
    [emitted] = [e for stmt in walk(call.body) for root in statement_exprs(stmt) for e in walk_expr(root) if intrinsic_name(e)]
    target, source, size = emitted.args
    assert (int(target.indices[0]), int(source.indices[0]), int(size)) == (0, 4, 8)
    with pytest.raises(CompileError, match="copies 4, 8 or 16 bytes; 16 elements of float32 are 64"):
        program(lambda b, s, x: T.ptx_cp_async(s[0], s[16], 16))


def test_results_with_side_effects_are_computed_once():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            x = T.shfl_sync(A[0], 0)
            A[1] = x + x

    assert calls_of(main).count("shfl_sync") == 1


def test_warp_specialisation_and_attributes():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=384):
            with T.ws(0, 2):
                A[0] = 1.0
            with T.ws(-1):  # every thread
                A[2] = 1.0
            with T.attr(None, "pragma_example", "value"):
                A[1] = 2.0

    attributes = [stmt for stmt in walk(main.body) if isinstance(stmt, ir.AttrStmt)]
    assert [stmt.attr_key for stmt in attributes].count("tl.warp_group") == 1
    found = {stmt.attr_key: stmt for stmt in attributes}
    assert int(found["tl.warp_group"].value.value) == 0b101
    assert found["pragma_example"].value.value == "value"


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda b, s, x: T.mbarrier_arrive(s[0]), "takes a barrier of T.alloc_barrier, tile is in shared.dyn"),
        (lambda b, s, x: T.mbarrier_arrive(b), "acts on one element, barrier has several"),
        (lambda b, s, x: T.ptx_wait_group(T.get_lane_idx()), "known at compile time"),
        (lambda b, s, x: T.shfl_sync(x), "missing a required argument: 'srcLane'"),
        (
            lambda b, s, x: T.shfl_xor(0xFFFF, x, 1),
            r"takes integers, got float32(.*\n)*.*arguments are value, delta, width, mask",
        ),
        (lambda b, s, x: T.ballot_sync(0xFFFF, x > 0), "the mask of T.ballot_sync is an integer, got bool"),
        (lambda b, s, x: T.ballot_sync(0xFFFFFFFF, 1), "the first argument of T.ballot_sync is what lanes exchange"),
        (lambda b, s, x: T.shfl_sync(-1, 1, 0), "the first argument of T.shfl_sync is what lanes exchange"),
        (lambda b, s, x: T.shfl_down(x, 1, 3), "the width of T.shfl_down is a power of two up to 32, got 3"),
        (lambda b, s, x: T.ws().__enter__(), "T.ws names no warp group"),
        (lambda b, s, x: T.warp_reduce_bitand(x), "T.warp_reduce_bitand takes integers, got float32"),
        (lambda b, s, x: T.warp_reduce_bitor(T.cast(x, "bfloat16")), "T.warp_reduce_bitor takes integers, got bfloat16"),
        (lambda b, s, x: T.ws(3).__enter__(), r"T.ws\(3\): the block has 128 threads, 1 warp group"),
    ],
)
def test_mistakes(call, message):
    with pytest.raises(CompileError, match=message):
        program(call)


def test_block_and_thread_questions():
    @T.prim_func
    def main(A: T.Tensor((8,), "int32")):
        with T.Kernel(3, 5, threads=(16, 4)):
            assert T.get_thread_extents() == [16, 4, 1] and T.get_thread_extent(1) == 4
            assert [int(e) for e in T.get_block_extents()] == [3, 5]
            assert T.get_cluster_size() == 1
            A[0] = T.get_block_binding(0) + T.get_block_bindings()[1]

    assert "blockIdx.y" in main.script()


@pytest.mark.parametrize("arrivals", [0, -1, [1, 0], 1 << 20])
def test_a_phase_takes_arrivals(arrivals):
    with pytest.raises(CompileError, match="a phase takes between 1 and 1048575 arrivals"):

        @T.prim_func
        def main():
            with T.Kernel(1, threads=32):
                T.alloc_barrier(arrivals)
