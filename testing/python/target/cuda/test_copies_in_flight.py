"""What is in flight, or reached in another way than by its name, where a statement waits, repeats or takes its place."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate, source
from testing.python.target.definition import check_meaning, meaning
from tilelang.errors import PipelineScheduleError


def on_hopper(program, *tensors) -> None:
    """Checks a program of sm_90a beside the interpreter."""
    wanted, found = meaning(program, *tensors), [tensor.clone() for tensor in tensors]
    simulate(program, *found, arch="sm_90a")
    assert all(map(torch.equal, wanted, found))


def some(*shape) -> torch.Tensor:
    return torch.randint(-2, 3, shape).half()


def test_a_copy_that_some_threads_make_is_complete_where_they_go_on():
    @T.prim_func
    def main(X: T.Tensor((64,), "int32"), A: T.Tensor((64, 16), "float32"), B: T.Tensor((64, 16), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            S = T.alloc_shared((64, 16), "float32")
            for k in T.serial(X[tx]):
                T.copy(A[tx, 0:16], S[tx, 0:16])
                for i in T.serial(16):
                    B[tx, i] = B[tx, i] + S[tx, i] * (k + 1)

    check_meaning(main, torch.arange(64).int() % 3, torch.randn(64, 16), torch.zeros(64, 16))


def test_a_wait_for_older_groups_does_not_complete_a_copy_of_the_compiler():
    @T.prim_func
    def main(A: T.Tensor((2, 1024), "float32"), B: T.Tensor((1024,), "float32"), C: T.Tensor((1024,), "float32")):
        with T.Kernel(1, threads=128):
            first, second, third = (T.alloc_shared((1024,), "float32") for _ in range(3))
            T.async_copy(A[0, :], first)
            T.copy(B, second)
            T.async_copy(A[1, :], third)
            T.ptx_wait_group(1)
            for i in T.Parallel(1024):
                C[i] = first[1023 - i] + second[1023 - i]
            T.ptx_wait_group(0)
            for i in T.Parallel(1024):
                C[i] += third[1023 - i]

    check_meaning(main, torch.randn(2, 1024), torch.randn(1024), torch.zeros(1024))


def test_each_wait_of_a_program_hands_over_what_other_threads_have_copied():
    @T.prim_func
    def main(A: T.Tensor((3, 1024), "float32"), B: T.Tensor((3, 1024), "float32")):
        with T.Kernel(1, threads=128):
            tiles = [T.alloc_shared((1024,), "float32") for _ in range(3)]
            for k, tile in enumerate(tiles):
                T.async_copy(A[k, :], tile)
            for k, tile in enumerate(tiles):
                T.ptx_wait_group(2 - k)
                for i in T.Parallel(1024):
                    B[k, i] = tile[1023 - i]

    check_meaning(main, torch.randn(3, 1024), torch.zeros(3, 1024))
    assert source(main, arch="sm_80").count("__syncthreads()") == 3


@pytest.mark.parametrize("width", [4, 8])
def test_a_copy_of_bytes_reaches_beyond_its_element(width):
    @T.prim_func
    def main(A: T.Tensor((64 * width,), "float16"), C: T.Tensor((64,), "float16")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            S = T.alloc_shared((64 * width,), "float16")
            T.ptx_cp_async(S[tx * width], A[tx * width], width)
            T.ptx_commit_group()
            T.ptx_wait_group(0)
            C[tx] = S[64 * width - 1]

    check_meaning(main, torch.randn(64 * width).half(), torch.zeros(64).half())


def test_an_update_of_two_elements_reaches_beyond_the_first():
    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), B: T.Tensor((64,), "float32"), C: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            T.atomic_addx2(C[tx * 2], A[tx * 2])
            B[tx] = C[127]

    check_meaning(main, torch.randn(128), torch.zeros(64), torch.zeros(128))


def test_a_loop_writes_what_it_copies_by_another_name():
    @T.prim_func
    def main(A: T.Tensor((4, 16, 32), "float32"), C: T.Tensor((16, 32), "float32")):
        with T.Kernel(1, threads=128):
            rows = T.reshape(A, (4, 512))
            tile = T.alloc_shared((16, 32), "float32")
            for k in T.Pipelined(3, num_stages=2):
                T.copy(A[k, 0:16, 0:32], tile)
                for i, j in T.Parallel(16, 32):
                    C[i, j] = C[i, j] + tile[i, 31 - j]
                for i in T.Parallel(512):
                    rows[k + 1, i] = C[i // 32, i % 32]

    check_meaning(main, torch.randn(4, 16, 32), torch.zeros(16, 32))


def test_only_updates_by_one_operation_change_places():
    @T.prim_func
    def main(A: T.Tensor((4, 64), "float32"), C: T.Tensor((1,), "float32"), D: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((64,), "float32")
            for k in T.Pipelined(4, order=[0, 2, 1, 3], stage=[0, 0, 0, 0]):
                T.copy(A[k, 0:64], tile)
                T.atomic_add(C[0], 1.0 * (k + 1))
                T.atomic_max(C[0], 5.0)
                T.copy(tile, D)

    with pytest.raises(PipelineScheduleError, match="would touch C before"):
        source(main)


def test_the_other_side_of_a_branch_is_chosen_by_what_was_before_the_first():
    @T.prim_func
    def main(
        N: T.Tensor((1,), "int32"), A: T.Tensor((64,), "float32"), C: T.Tensor((64,), "float32"), D: T.Tensor((128,), "float32")
    ):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            tile, n = T.alloc_shared((64,), "float32"), T.alloc_var("int32")
            n = N[0]
            if tx < 32 and n > 0:
                tile[tx] = A[tx]
                T.sync_warp()
                C[tx] = tile[31 - tx]
                n = 0
            else:
                D[tx] = 1

    check_meaning(main, torch.ones(1).int(), torch.randn(64), torch.zeros(64), torch.zeros(128))


def test_a_slot_is_filled_when_no_product_of_another_group_reads_it():
    @T.prim_func
    def main(A: T.Tensor((4, 128, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=256):
            a, b = T.alloc_shared((2, 128, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((128, 64), "float32")
            T.clear(c)
            T.copy(B, b)
            for k in T.serial(4):
                T.copy(A[k, 0:128, 0:64], a[k % 2, 0:128, 0:64])
                T.wgmma_gemm(a[k % 2, 0:128, 0:64], b, c)
                T.sync_threads()
                T.wait_wgmma(1)
            T.wait_wgmma(0)
            T.copy(c, C)

    on_hopper(main, some(4, 128, 64), some(64, 64), torch.zeros(128, 64))


def fed(body, cluster=1):
    """A product that a producer would feed, and some statements after it in each iteration."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 256), "float16"), B: T.Tensor((256, 64), "float16"),
        C: T.Tensor((cluster, 64, 64), "float32"), N: T.Tensor((128,), "int32"),
    ):  # fmt: skip
        with T.Kernel(cluster, threads=128, cluster_dims=(cluster, 1, 1)) as bx:
            tx = T.get_thread_binding()
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                body(a, b, c, tx, k, N)
            T.copy(c, C[bx, 0:64, 0:64])

    return main


@T.macro
def awaited(a, b, c, tx, k, N):
    T.gemm(a, b, c, wg_wait=-1)
    T.warpgroup_wait(0)


@T.macro
def counted(a, b, c, tx, k, N):
    T.gemm(a, b, c)
    N[tx] = N[tx] + T.syncthreads_count(tx % 3 == k % 3)


@T.macro
def with_the_cluster(a, b, c, tx, k, N):
    T.gemm(a, b, c)
    T.cluster_arrive_relaxed()
    T.cluster_wait()


@pytest.mark.parametrize(
    ("body", "cluster"), [(awaited, 1), (counted, 1), (with_the_cluster, 2)], ids=lambda each: str(each)[:20]
)
def test_statements_of_all_threads_of_the_program_have_no_producer_beside_them(body, cluster):
    tensors = some(64, 256), some(256, 64), torch.zeros(cluster, 64, 64), torch.zeros(128).int()
    on_hopper(fed(body, cluster), *tensors)


def test_a_name_is_bound_to_what_was_there_before_the_iteration():
    @T.prim_func
    def main(
        Q: T.Tensor((64, 64), "float16"), K: T.Tensor((256, 64), "float16"), V: T.Tensor((256, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            q, k_tile, v_tile = (T.alloc_shared((64, 64), "float16") for _ in range(3))
            s, p, o = (
                T.alloc_fragment((64, 64), "float32"),
                T.alloc_fragment((64, 64), "float16"),
                T.alloc_fragment((64, 64), "float32"),
            )
            count = T.alloc_fragment((4,), "float32")
            T.copy(Q, q)
            T.clear(o)
            T.clear(count)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(K[k * 64, 0], k_tile)
                before = count[0]
                for i in T.Parallel(4):
                    count[i] = count[i] + 1
                T.clear(s)
                T.gemm(q, k_tile, s, transpose_B=True)
                for i, j in T.Parallel(64, 64):
                    p[i, j] = s[i, j] + before
                T.copy(V[k * 64, 0], v_tile)
                T.gemm(p, v_tile, o)
            T.copy(o, C)

    on_hopper(main, some(64, 64), some(256, 64), some(256, 64), torch.zeros(64, 64))


@pytest.mark.parametrize("nested", [False, True])
def test_a_producer_waits_for_the_kernel_before_too(nested):
    @T.prim_func
    def main(A: T.Tensor((64, 256), "float16"), B: T.Tensor((256, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            if nested:
                for _ in T.serial(1):
                    T.pdl_sync()
            else:
                T.pdl_sync()
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    text = source(main, "sm_90a").partition("__global__")[2]
    assert ("tma_load" in text) is not nested
    assert text.index("pdl_wait") < text.index("cp_async" if nested else "tma_load")
    on_hopper(main, some(64, 256), some(256, 64), torch.zeros(64, 64))


@pytest.mark.parametrize("waits_first", [False, True])
def test_a_slot_that_a_store_still_reads_is_not_filled(waits_first):
    @T.prim_func
    def main(A: T.Tensor((4, 64, 64), "float16"), C: T.Tensor((4, 64, 64), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float16")
            for k in T.Pipelined(4, num_stages=2):
                if waits_first:
                    T.tma_store_wait(0)
                T.copy(A[k, 0:64, 0:64], tile)
                T.fence_proxy_async()
                T.sync_threads()
                T.tma_copy(tile, C[k, 0:64, 0:64])
                if not waits_first:
                    T.tma_store_wait(0)
            T.tma_store_wait(0)

    on_hopper(main, some(4, 64, 64), torch.zeros(4, 64, 64).half())


@pytest.mark.parametrize("waits_first", [False, True])
def test_a_slot_that_a_product_still_reads_is_not_filled(waits_first):
    @T.prim_func
    def main(A: T.Tensor((4, 64, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            T.copy(B, b)
            for k in T.Pipelined(4, num_stages=2):
                if waits_first:
                    T.wait_wgmma(0)
                T.copy(A[k, 0:64, 0:64], a)
                T.wgmma_gemm(a, b, c)
                if not waits_first:
                    T.wait_wgmma(0)
            T.wait_wgmma(0)
            T.copy(c, C)

    on_hopper(main, some(4, 64, 64), some(64, 64), torch.zeros(64, 64))


def test_a_store_is_waited_for_where_both_sides_of_a_branch_wait():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float16"), D: T.Tensor((64, 64), "float16"), n: T.int32):
        with T.Kernel(1, threads=128):
            stored, other = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            T.copy(A, stored)
            T.tma_copy(stored, C)
            if n > 0:
                T.tma_store_wait(0)
            for i, j in T.Parallel(64, 64):
                other[i, j] = A[j, i]
            for i, j in T.Parallel(64, 64):
                D[i, j] = other[i, 63 - j]
            T.tma_store_wait(0)

    a, c, d = some(64, 64), torch.zeros(64, 64).half(), torch.zeros(64, 64).half()
    simulate(main, a, c, d, 0, arch="sm_90a")
    assert torch.equal(c, a) and torch.equal(d, a.T.flip(1))


@T.macro
def one_thread(A, S, b, tx):
    T.ptx_cp_async(S[tx * 4], A[tx * 4], 4)
    T.cp_async_barrier_noinc(b)
    T.sync_threads()
    if tx == 0:
        T.mbarrier_wait_parity(b, 0)


@T.macro
def each_thread(A, S, b, tx):
    T.ptx_cp_async(S[tx * 4], A[tx * 4], 4)
    T.ptx_commit_group()
    T.sync_threads()
    T.ptx_wait_group(0)


@T.macro
def some_threads(A, S, b, tx):
    if tx < 32:
        T.ptx_cp_async(S[tx * 4], A[tx * 4], 4)
        T.ptx_cp_async(S[(tx + 32) * 4], A[(tx + 32) * 4], 4)
        T.ptx_commit_group()
    T.sync_threads()
    if tx < 32:
        T.ptx_wait_group(0)


@T.macro
def each_thread_of_vectors(A, S, b, tx):
    with T.attr(0, "async_scope", 1):
        for v in T.vectorized(4):
            S[tx * 4 + v] = A[tx * 4 + v]
    T.ptx_commit_group()
    T.sync_threads()
    T.ptx_wait_group(0)


@pytest.mark.parametrize("copied", [one_thread, each_thread, some_threads, each_thread_of_vectors])
def test_all_threads_see_a_copy_that_those_that_made_it_have_waited_for(copied):
    @T.prim_func
    def main(A: T.Tensor((256,), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            tile, full = T.alloc_shared((256,), "float32"), T.alloc_barrier(64)
            copied(A, tile, full, tx)
            C[tx] = tile[(63 - tx) * 4]

    check_meaning(main, torch.randn(256), torch.zeros(64))
