"""``T.copy_cluster``: tiles that travel between the blocks of a cluster."""

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.frontend.support import error_at_mark
from testing.python.target.cuda.support import cuda
from tilelang.errors import CompileError, ThreadsOnCpuError


def run(program, *tensors):
    with tilelang.simulator(strict=True):
        return tilelang.compile(program, target=cuda("sm_90a"), out_idx=-1)(*tensors)


def pushed(rows, columns, part, dtype, barrier):
    """Block 0 of a pair sends the first ``part`` columns of its tile to block 1, which writes them out."""

    @T.prim_func
    def main(A: T.Tensor((rows, part), dtype), B: T.Tensor((rows, part), dtype)):
        with T.ClusterKernel(2, threads=128, cluster_dims=(2, 1, 1)) as block:
            source, target = T.alloc_shared((rows, columns), dtype), T.alloc_shared((rows, columns), dtype)
            arrived = T.alloc_cluster_barrier([1])
            T.clear(source)
            T.clear(target)
            T.cluster_sync()
            if block == 0:
                for i, j in T.Parallel(rows, part):
                    source[i, j] = A[i, j]
                T.copy_cluster(
                    source[0:rows, 0:part], target[0:rows, 0:part], dst_block=1, remote_barrier=arrived[0] if barrier else None
                )
            if not barrier:
                T.cluster_sync()
            if block == 1:
                if barrier:
                    T.mbarrier_wait_parity(arrived[0], 0)
                for i, j in T.Parallel(rows, part):
                    B[i, j] = target[i, j]
            T.cluster_sync()

    return main


@pytest.mark.parametrize("barrier", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int64", "float8_e4m3fn"])
def test_a_tile_for_another_block(dtype, barrier):
    a = torch.randint(0, 100, (4, 31)).to(getattr(torch, dtype))
    assert torch.equal(run(pushed(4, 64, 31, dtype, barrier), a).float(), a.float())


def test_one_tile_for_several_blocks():
    @T.prim_func
    def main(A: T.Tensor((4, 64), "float16"), B: T.Tensor((4, 64), "float16")):
        with T.ClusterKernel(4, threads=64, cluster_dims=(4, 1, 1)) as block:
            tile = T.alloc_shared((32,), "float16")
            for step in T.serial(2):
                T.copy_cluster(A[block, step * 32], tile, cluster_mask=0b1011)
                T.copy(tile, B[block, step * 32])

    a = torch.randn(4, 64).half()
    assert torch.equal(run(main, a), a[[0, 0, 2, 0]])


def test_misuse():
    with error_at_mark(match="not in shared memory"):

        @T.prim_func
        def main(A: T.Tensor((32,), "float16")):
            with T.ClusterKernel(2, threads=32, cluster_dims=(2, 1, 1)):
                tile = T.alloc_shared((32,), "float16")
                T.copy_cluster(A, tile, dst_block=1)  # <- error

    with pytest.raises(CompileError, match="names no blocks of a cluster of 2"):

        @T.prim_func
        def masked(A: T.Tensor((32,), "float16")):
            with T.ClusterKernel(2, threads=32, cluster_dims=(2, 1, 1)):
                T.copy_cluster(A, T.alloc_shared((32,), "float16"), cluster_mask=4)

    with pytest.raises(CompileError, match="T.tma_gather4 is an instruction of sm_100"):

        @T.prim_func
        def gathered(A: T.Tensor((32, 32), "float16")):
            with T.Kernel(1, threads=32):
                T.tma_gather4(A, T.alloc_shared((4, 32), "float16"), [0, 1, 2, 3])


def test_targets_without_clusters():
    program = pushed(4, 32, 32, "float32", False)
    with pytest.raises(CompileError, match="sm_90"):
        tilelang.lower(program, target=cuda("sm_80"))
    with pytest.raises(ThreadsOnCpuError):
        tilelang.lower(program, target="cpu")


def test_a_tile_written_by_another_block_is_fenced_before_a_bulk_store():
    @T.prim_func
    def main(B: T.Tensor((2, 64), "int32")):
        with T.ClusterKernel(2, cluster_dims=2, threads=64) as block:
            source, target = T.alloc_shared((64,), "int32"), T.alloc_shared((64,), "int32")
            T.fill(source, block + 1)
            T.fill(target, 0)
            T.cluster_sync()
            T.copy_cluster(source, target, dst_block=1 - T.block_rank_in_cluster())
            T.cluster_sync()
            T.copy(target, B[block, 0])

    assert run(main).tolist() == [[2] * 64, [1] * 64]
    kernel = tilelang.lower(main, target=cuda("sm_90a")).kernel_source
    assert "tl::tma_store" in kernel
    # Each thread pushes its element, not all of them.
    assert "tl::store_cluster(target + i0" in kernel and "const int i0 = tid" in kernel
