"""Blocks of a cluster that store to each other's shared memory; each fault beside its fixed twin."""

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate

from .support import kinds, run


def test_tiles_travel_in_a_cluster():
    @T.prim_func
    def main(A: T.Tensor((4, 32), "float32"), B: T.Tensor((4, 32), "float32")):
        with T.ClusterKernel(4, threads=32, cluster_dims=2) as b:
            own, other = T.alloc_shared((32,), "float32"), T.alloc_shared((32,), "float32")
            T.copy(A[b, 0:32], own)
            T.cluster_sync()
            T.copy_cluster(own, other, dst_block=1 - T.block_rank_in_cluster())
            T.cluster_sync()
            T.copy(other, B[b, 0:32])

    a, b = torch.randn(4, 32), torch.zeros(4, 32)
    run(main, a, b)
    assert torch.equal(b, a[[1, 0, 3, 2]])


@pytest.mark.parametrize("missing", [None, "before", "after"])
def test_tiles_of_other_blocks_are_stored_between_barriers_of_the_cluster(missing):
    @T.prim_func
    def main(A: T.Tensor((4, 32), "float32"), B: T.Tensor((4, 32), "float32")):
        with T.ClusterKernel(4, threads=32, cluster_dims=2) as b:
            own, other = T.alloc_shared((32,), "float32"), T.alloc_shared((32,), "float32")
            T.copy(A[b, 0:32], own)
            T.fill(other, -1)
            if missing != "before":
                T.cluster_sync()
            T.copy_cluster(own, other, dst_block=1 - T.block_rank_in_cluster())
            if missing != "after":
                T.cluster_sync()
            T.copy(other, B[b, 0:32])

    a, b = torch.randn(4, 32), torch.zeros(4, 32)
    found = {"race"} if missing else set()
    assert set(kinds(main, a, b)) == found


def test_a_block_that_the_cluster_does_not_have():
    @T.prim_func
    def main(A: T.Tensor((2, 32), "float32")):
        with T.ClusterKernel(2, threads=32, cluster_dims=2) as b:
            tile = T.alloc_shared((32,), "float32")
            T.copy(A[b, 0:32], tile)
            T.cluster_sync()
            T.copy_cluster(tile, tile, dst_block=2)
            T.cluster_sync()

    assert set(kinds(main, torch.zeros(2, 32))) == {"out-of-bounds"}


@pytest.mark.parametrize("waits", [True, False])
def test_an_arrival_at_another_block_hands_over_what_was_stored_there(waits):
    @T.prim_func
    def main(A: T.Tensor((2, 32), "float32"), B: T.Tensor((2, 32), "float32")):
        with T.ClusterKernel(2, threads=32, cluster_dims=2) as b:
            own, other = T.alloc_shared((32,), "float32"), T.alloc_shared((32,), "float32")
            full = T.alloc_cluster_barrier([1])
            T.copy(A[b, 0:32], own)
            T.fill(other, -1)
            T.cluster_sync()
            T.copy_cluster(own, other, dst_block=1 - b, remote_barrier=full[0])
            if waits:
                T.mbarrier_wait_parity(full[0], 0)
            T.copy(other, B[b, 0:32])
            T.cluster_sync()

    a, b = torch.randn(2, 32), torch.zeros(2, 32)
    assert set(kinds(main, a, b)) == (set() if waits else {"race"})
    assert not waits or torch.equal(b, a.flip(0))


def test_one_load_for_the_blocks_of_a_cluster():
    @T.prim_func
    def main(A: T.Tensor((4, 64), "float16"), C: T.Tensor((4, 64), "float16")):
        with T.ClusterKernel(4, cluster_dims=4, threads=128) as b:
            tile, full = T.alloc_shared((64,), "float16"), T.alloc_barrier(128)
            T.tma_copy(A[b, 0:64], tile, barrier=full, cluster_mask=0b1110)
            T.barrier_arrive(full)
            T.mbarrier_wait_parity(full, 0)
            T.copy(tile, C[b, 0:64])

    a, c = torch.randn(4, 64).half(), torch.zeros(4, 64).half()
    run(main, a, c)
    assert torch.equal(c, a[[0, 1, 1, 1]])


@pytest.mark.parametrize("meet, ends", [(T.cluster_sync, True), (T.sync_grid, True), (T.cluster_sync, False)])
def test_threads_meet_other_blocks_only_when_all_of_their_block_have_come(meet, ends):
    """While some still wait for another block, the others wait for them; a barrier that some never reach is a finding."""

    @T.prim_func
    def main(B: T.Tensor((2,), "int32")):
        with T.ClusterKernel(2, threads=64, cluster_dims=2) as b:
            tx = T.get_thread_binding()
            full = T.alloc_cluster_barrier([1])
            T.cluster_sync()
            if tx >= 32:
                T.mbarrier_wait_parity(full[0], 0)
                if not ends:
                    T.mbarrier_wait_parity(full[0], 1)
            elif tx == 0:
                T.ptx_arrive_cluster_barrier(full[0], 1 - b)
            meet()
            B[b] = b + 1

    b = torch.zeros(2).int()
    assert kinds(main, b) == ([] if ends else ["deadlock"])
    assert not ends or b.tolist() == [1, 2]
    if ends:
        simulate(main, b.zero_(), arch="sm_90a")
        assert b.tolist() == [1, 2]
