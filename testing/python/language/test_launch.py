"""Kernels that are opened an axis at a time: ``T.env_thread``, ``T.launch_thread`` and ``T.thread_binding``."""

from __future__ import annotations

import functools

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import simulate, source
from tilelang import interpreter
from tilelang.errors import CompileError


def by_statements():
    @T.prim_func
    def main(A: T.Tensor((96,), "float32"), B: T.Tensor((96,), "float32")):
        bx = T.env_thread("blockIdx.x")
        tx = T.env_thread("threadIdx.x")
        T.launch_thread(bx, 3)
        T.launch_thread(tx, 32)
        B[bx * 32 + tx] = A[bx * 32 + tx] + tx

    return main


def by_blocks():
    @T.prim_func
    def main(A: T.Tensor((96,), "float32"), B: T.Tensor((96,), "float32")):
        with T.launch_thread("blockIdx.x", 3) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                B[bx * 32 + tx] = A[bx * 32 + tx]
        with T.Kernel(3, threads=32) as bx:
            tx = T.env_thread("threadIdx.x")
            with T.launch_thread(tx, 32):
                B[bx * 32 + tx] += tx

    return main


def by_loops():
    @T.prim_func
    def main(A: T.Tensor((96,), "float32"), B: T.Tensor((96,), "float32")):
        for bx in T.thread_binding(3, thread="blockIdx.x"):
            tile = T.alloc_shared((32,), "float32")
            for tx in T.thread_binding(0, 32, thread="threadIdx.x"):
                tile[31 - tx] = A[bx * 32 + tx]
                T.tvm_storage_sync("shared")
                B[bx * 32 + tx] = tile[31 - tx]
        with T.Kernel(3, threads=32) as bx:
            for tx in T.thread_binding(32):
                B[bx * 32 + tx] += tx

    return main


def by_loops_that_start_elsewhere():
    @T.prim_func
    def main(A: T.Tensor((96,), "float32"), B: T.Tensor((96,), "float32")):
        for bx in T.thread_binding(1, 4, "blockIdx.x"):
            for tx in T.thread_binding(2, 34):
                B[(bx - 1) * 32 + tx - 2] = A[(bx - 1) * 32 + tx - 2]
        for bx in T.thread_binding(3, thread="blockIdx.x"):
            for tx in T.thread_binding(2, 34):
                B[bx * 32 + tx - 2] += tx - 2

    return main


def by_a_run_time_size():
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        block = T.launch_thread("blockIdx.x", T.ceildiv(n, 32))
        y, x = T.launch_thread("threadIdx.y", 4), T.launch_thread("threadIdx.x", 8)
        place = block * 32 + y * 8 + x
        if place < n:
            B[place] = A[place] + place % 32

    return main


@pytest.mark.parametrize("program", [by_statements, by_blocks, by_loops, by_loops_that_start_elsewhere, by_a_run_time_size])
def test_launched_kernels(program):
    for run in (simulate, functools.partial(simulate, arch="sm_90a"), interpreter.run):
        a, b = torch.arange(96.0), torch.zeros(96)
        assert not run(program(), a, b)
        assert torch.equal(b, a + torch.arange(96) % 32)


def test_a_barrier_of_launched_threads():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        tx = T.env_thread("threadIdx.x")
        T.launch_thread(tx, 64)
        tile = T.alloc_shared((64,), "float32")
        tile[tx] = A[tx]
        T.tvm_storage_sync("shared")
        B[tx] = tile[63 - tx]

    a, b = torch.arange(64.0), torch.zeros(64)
    simulate(main, a, b)
    assert torch.equal(b, a.flip(0))


def refused(body, match):
    with pytest.raises(CompileError, match=match) as caught:

        @T.prim_func
        def main(A: T.Tensor((64,), "float32")):
            body(A)

    assert "test_launch.py" in str(caught.value)


def test_what_cannot_be_launched():
    @T.macro
    def twice(A):
        tx = T.launch_thread("threadIdx.x", 32)
        T.launch_thread("threadIdx.x", 64)
        A[tx] = 0.0

    @T.macro
    def never(A):
        bx, tx = T.env_thread("blockIdx.x"), T.env_thread("threadIdx.x")
        T.launch_thread(bx, 2)
        A[tx] = 0.0

    @T.macro
    def ended(A):
        tx = T.env_thread("threadIdx.x")
        with T.launch_thread(tx, 32):
            A[tx] = 0.0
        with T.launch_thread(tx, 32):
            A[tx] = 1.0

    @T.macro
    def inside(A):
        for i in T.serial(2):
            tx = T.launch_thread("threadIdx.x", 32)
            A[tx] = i

    @T.macro
    def virtual(A):
        T.launch_thread("vthread", 4)

    @T.macro
    def nothing(A):
        with A[0]:
            A[0] = 1

    @T.macro
    def unlike(A):
        with T.Kernel(1, threads=64):
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                A[tx] = 0.0

    @T.macro
    def no_axis(A):
        with T.Kernel(1, threads=64):
            A[T.get_thread_binding(3)] = 0.0

    @T.macro
    def no_axis_of_the_grid(A):
        with T.Kernel(1, threads=64):
            A[T.get_block_binding(1)] = 0.0

    @T.macro
    def elements(A):
        with T.Kernel(1, threads=64):
            for x in A:
                A[0] = x

    @T.macro
    def index_of_a_block(A):
        with T.Kernel(4, threads=64) as bx:
            for _i in bx:
                A[0] = 0

    @T.macro
    def scope_of_a_block(A):
        with T.Kernel(4, threads=64) as bx:
            with bx:
                A[0] = 0

    refused(index_of_a_block, "a run-time value cannot be iterated over")
    refused(scope_of_a_block, "`with` takes a context manager, not a value of type int32")
    refused(unlike, "T.thread_binding: threadIdx.x has 64 values in this kernel")
    refused(no_axis, r"T.get_thread_binding\(3\): the axes are 0, 1, 2")
    refused(no_axis_of_the_grid, r"T.get_block_binding\(1\): the axes are 0")
    refused(elements, "the tensor A cannot be iterated over")
    refused(twice, "T.launch_thread: threadIdx.x has 32 values already")
    refused(never, r'T.env_thread\("threadIdx.x"\) is not launched')
    refused(ended, "T.launch_thread takes a tag, or what T.env_thread gave in this kernel")
    refused(inside, "a thread's axis opens a kernel inside of another statement")
    refused(virtual, r"T.launch_thread\('vthread'\): expected one of blockIdx.x")
    refused(nothing, "`with` takes a context manager, not a value of type float32")


def test_clusters_of_a_grid_of_one_axis():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(4, threads=32, cluster_dims=2) as bx:
            assert len(T.get_cluster_ids()) == 1 and T.get_cluster_extents() == [2, 1, 1]
            A[bx] = T.get_cluster_id() * 10 + T.get_cluster_id(1)

    a = torch.zeros(4, dtype=torch.int32)
    assert not simulate(main, a, arch="sm_90a")
    assert a.tolist() == [0, 0, 10, 10]


def test_a_barrier_starts_anew():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            words = T.alloc_shared((64,), "int32")
            ready = T.alloc_barrier(1)
            if tx == 0:
                T.ptx_init_barrier_thread_count(ready[0], 64)
            T.ptx_fence_barrier_init()
            T.sync_threads()
            words[tx] = A[tx]
            T.ptx_arrive_barrier(ready[0])
            T.mbarrier_wait_parity(ready[0], 0)
            B[tx] = words[63 - tx]

    a, b = torch.arange(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    assert "tl::mbarrier_restart(" in source(main, "sm_80")
    for run in (simulate, functools.partial(simulate, arch="sm_90a"), interpreter.run):
        assert not run(main, a, b.zero_())
        assert torch.equal(b, a.flip(0))


@pytest.mark.parametrize("two", [False, True])
def test_memory_allocated_above_its_kernel(two):
    """The next kernel takes it, wherever in the program it stands."""

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        if two:
            with T.Kernel(1, threads=64):
                T.copy(A, B)
        shared = T.alloc_shared((64,), "float32")
        own = T.alloc_fragment((64,), "float32")
        factor = T.alloc_var("int32")
        with T.Kernel(1, threads=64):
            factor = 3
            T.copy(A, shared)
            for i in T.Parallel(64):
                own[i] = shared[63 - i] * factor
            T.copy(own, B)

    expected = torch.arange(64.0).flip(0) * 3
    b = torch.zeros(64)
    simulate(main, torch.arange(64.0), b)
    assert torch.equal(b, expected)
    for target in ("cpu", "interpret"):
        b.zero_()
        tilelang.compile(main, target=target)(torch.arange(64.0), b)
        assert torch.equal(b, expected)


def test_memory_above_two_kernels_belongs_to_the_first():
    with pytest.raises(CompileError, match="(?s)'shared' is used outside of the scope.*allocate it in each kernel"):

        @T.prim_func
        def main(A: T.Tensor((64,), "float32")):
            shared = T.alloc_shared((64,), "float32")
            with T.Kernel(1, threads=64):
                T.copy(A, shared)
            with T.Kernel(1, threads=64):
                T.copy(shared, A)


def test_memory_that_no_kernel_follows():
    with pytest.raises(CompileError, match="no kernel follows that could use shared"):

        @T.prim_func
        def main(A: T.Tensor((64,), "float32")):
            T.alloc_shared((64,), "float32")


@pytest.mark.parametrize(
    "grid, dims, match",
    [
        ((3,), 2, "the grid has 3 blocks along x, no multiple of 2"),
        ((4, 3), (2, 2), "the grid has 3 blocks along y, no multiple of 2"),
        ((4,), (2, 1, 2), "the grid has 1 blocks along z, no multiple of 2"),
        ((4,), -2, "expected one to three positive compile-time integers"),
    ],
)
def test_a_grid_is_whole_clusters(grid, dims, match):
    def body(A):
        with T.Kernel(*grid, threads=32, cluster_dims=dims):
            A[0] = 1.0

    refused(body, match)


def test_the_open_kernel_is_an_object():
    assert T.KernelLaunchFrame.Current() is None

    @T.macro
    def numbered(A):
        frame = T.KernelLaunchFrame.Current()
        bx, by = frame.blocks
        for i in T.Parallel(frame.num_threads):
            A[by, bx, i] = (by * frame.grid_extents[0] + bx) * frame.get_num_threads() + i

    @T.prim_func
    def main(A: T.Tensor((3, 2, 64), "int32")):
        with T.Kernel(2, 3, threads=(32, 2)):
            numbered(A)

    numbers = torch.zeros(3, 2, 64, dtype=torch.int32)
    interpreter.run(main, numbers)
    assert numbers.flatten().tolist() == list(range(3 * 2 * 64))
