"""Blocks in parallel: atomics between them, scratch memory, failures, several kernels, threads refused."""

import ctypes

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import BufferIndexError, KernelFailedError, ThreadsOnCpuError, UnsupportedOnCpuError
from tilelang.target.cpu.runtime_ll import TASKS_PER_THREAD

from .support import build, on_both


@on_both
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "uint8", "int64"])
def test_atomic_add_from_many_blocks_loses_nothing(dtype, target):
    @T.prim_func
    def main(Y: T.Tensor((4,), dtype)):
        with T.Kernel(1024, threads=128) as bx:
            for i in T.serial(64):
                T.atomic_add(Y[(bx + i) % 4], 1)

    y = torch.zeros(4, dtype=getattr(torch, dtype))
    build(main, target)(y)
    expected = torch.tensor(1024 * 64 // 4)
    if dtype == "bfloat16":  # 8 bits of mantissa: adding one stops at 256
        expected = torch.tensor(256)
    elif dtype == "float16":  # 11 bits
        expected = torch.tensor(2048)
    assert torch.equal(y, expected.to(y.dtype).expand(4))


@on_both
@pytest.mark.parametrize("dtype", ["float32", "int32", "bfloat16", "uint32"])
def test_atomic_max_and_min(dtype, target):
    @T.prim_func
    def main(X: T.Tensor((4096,), dtype), Y: T.Tensor((2,), dtype)):
        with T.Kernel(64, threads=128) as bx:
            for i in T.serial(64):
                T.atomic_max(Y[0], X[bx * 64 + i])
                T.atomic_min(Y[1], X[bx * 64 + i])

    x = torch.randint(0, 200, (4096,)).to(torch.float32)
    x = (x if dtype == "uint32" else x - 100).to(getattr(torch, dtype))
    y = torch.stack([x[5], x[5]])
    build(main, target)(x, y)
    assert y.double().tolist() == [x.double().max(), x.double().min()]


@on_both
def test_the_old_value_is_a_ticket(target):
    @T.prim_func
    def main(count: T.Tensor((1,), "int32"), seen: T.Tensor((20000,), "int32")):
        with T.Kernel(20000, threads=32):
            ticket = T.alloc_var("int32")
            ticket = T.atomic_add(count[0], 1, return_prev=True)
            seen[ticket] = 1

    count, seen = torch.zeros(1, dtype=torch.int32), torch.zeros(20000, dtype=torch.int32)
    build(main, target)(count, seen)
    assert count.item() == 20000
    assert seen.sum() == 20000


@on_both
def test_scratch_larger_than_a_stack(target):
    """Two megabytes for each block."""
    N = 512

    @T.prim_func
    def main(X: T.Tensor((8, N, N), "float32"), Y: T.Tensor((8, N, N), "float32")):
        with T.Kernel(8, threads=128) as bx:
            a = T.alloc_shared((N, N), "float32")
            b = T.alloc_shared((N, N), "float32")
            T.copy(X[bx, 0, 0], a)
            T.transpose(a, b)
            T.copy(b, Y[bx, 0, 0])

    x = torch.randn(8, N, N)
    assert torch.equal(build(main, target, out_idx=-1)(x), x.transpose(1, 2))


@on_both
@pytest.mark.parametrize("blocks", [1, 4096])
def test_a_failed_assertion_raises_with_its_message_and_line(blocks, target):
    @T.prim_func
    def main(X: T.Tensor((blocks,), "float32"), Y: T.Tensor((blocks, 16), "float32")):
        with T.Kernel(blocks, threads=128) as bx:
            T.device_assert(X[bx] < 1.0, "x is too large")
            for i in T.Parallel(16):
                Y[bx, i] = X[bx]

    kernel = build(main, target, out_idx=-1)
    x = torch.zeros(blocks)
    assert torch.equal(kernel(x), torch.zeros(blocks, 16))
    x[blocks // 2] = 2.0
    with pytest.raises(Exception, match=r"test_blocks.py:\d+: T.device_assert failed: x is too large"):
        kernel(x)
    assert torch.equal(kernel(torch.zeros(blocks)), torch.zeros(blocks, 16))


@on_both
def test_kernels_of_one_program_run_in_sequence(target):
    N = 8192

    @T.prim_func
    def main(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32"), Z: T.Tensor((N,), "float32")):
        with T.Kernel(N // 128, threads=128) as bx:
            for i in T.Parallel(128):
                Y[bx * 128 + i] = X[bx * 128 + i] * 2.0
        with T.Kernel(N // 128, threads=128) as bx:
            for i in T.Parallel(128):
                Z[bx * 128 + i] = Y[N - 1 - bx * 128 - i] + 1.0

    x, y, z = torch.randn(N), torch.empty(N), torch.empty(N)
    build(main, target)(x, y, z)
    assert torch.equal(z, x.flip(0) * 2 + 1)


def test_one_and_two_threads_give_the_same():
    @T.prim_func
    def main(X: T.Tensor((512, 256), "float32"), Y: T.Tensor((512,), "float32")):
        with T.Kernel(512, threads=128) as bx:
            x = T.alloc_fragment((1, 256), "float32")
            s = T.alloc_fragment((1,), "float32")
            T.copy(X[bx, 0], x)
            T.reduce_sum(x, s, dim=1)
            T.copy(s, Y[bx])

    x = torch.randn(512, 256)
    kernel = build(main, out_idx=-1)
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(kernel(x))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*results)
    torch.testing.assert_close(results[0], x.sum(1), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("heads", "tiles"), [(1, 32), (1, 64), (4, 16), (4, 64), (8, 32)])
def test_uneven_blocks_are_shared_evenly(heads, tiles):
    """Causal attention on two threads that take the next task when they are free: at least 1.9 times as fast as one."""
    blocks = [tile + 1 for _ in range(heads) for tile in range(tiles)]
    size = -(-len(blocks) // (2 * TASKS_PER_THREAD))
    busy = [0, 0]
    for first in range(0, len(blocks), size):
        busy[busy.index(min(busy))] += sum(blocks[first : first + size])
    assert sum(blocks) / max(busy) >= 1.9


def counting(extents):
    """A program over ``n`` times ``m`` times some other blocks, which counts them."""
    n, m = T.dynamic("n, m")

    @T.prim_func
    def main(A: T.Tensor((n,), "int8"), B: T.Tensor((m,), "int8"), Y: T.Tensor((1,), "int32")):
        with T.Kernel(n, m, *extents, threads=32):
            T.atomic_add(Y[0], 1)

    return main


@on_both
@pytest.mark.parametrize("extents", [(), (3,)])
def test_more_blocks_than_an_int32_counts_are_an_error(extents, target):
    kernel = build(counting(extents), target)

    def count(n, m):
        y = torch.zeros(1, dtype=torch.int32)
        kernel(torch.zeros(n, dtype=torch.int8), torch.zeros(m, dtype=torch.int8), y)
        return y.item()

    assert [count(3, 4), count(0, 5), count(5, 0)] == [12 * 3 ** len(extents), 0, 0]
    for n in (1 << 15, 1 << 16):
        with pytest.raises(KernelFailedError, match="the grid has 2147483648 blocks or more"):
            count(1 << 16, n)


def test_too_many_blocks_are_refused_at_their_kernel():
    @T.prim_func
    def main(Y: T.Tensor((1,), "int32")):
        with T.Kernel(65536, 65536, threads=32):
            Y[0] = 1

    with pytest.raises(UnsupportedOnCpuError, match="a grid of 4294967296 blocks") as error:
        build(main, "cpu")
    assert "with T.Kernel(65536, 65536" in str(error.value)


def test_threads_are_refused_by_the_users_name_for_them():
    @T.prim_func
    def binding(Y: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            Y[tx] = tx

    @T.prim_func
    def warp_barrier(Y: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(128):
                for _ in T.serial(2):
                    T.sync_warp()
                Y[i] = i

    @T.prim_func
    def named_barrier(Y: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            T.sync_threads(1, 64)
            T.fill(Y, 1)

    @T.prim_func
    def shuffle(Y: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(128):
                Y[i] = T.shfl_xor(Y[i], 1)

    for program, name in (
        (binding, "T.get_thread_binding"),
        (warp_barrier, "T.sync_warp inside of T.Parallel"),
        (named_barrier, "T.sync_threads"),
        (shuffle, "T.shfl_xor"),
    ):
        with pytest.raises(ThreadsOnCpuError, match=name) as caught:
            build(program)
        text = str(caught.value)
        assert "test_blocks.py:" in text
        assert len(text.splitlines()) < 15


def test_a_static_index_out_of_range_is_refused():
    @T.prim_func
    def main(X: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((64,), "float32")
            for i in T.Parallel(65):
                x[i] = X[i]

    with pytest.raises(BufferIndexError, match="index 64"):
        build(main)


@on_both
def test_the_plain_entry_is_callable_from_c(target, tmp_path):
    n = T.dynamic("n")

    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), scale: T.float32, Y: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 128), threads=128) as bx:
            for i in T.Parallel(128):
                Y[bx * 128 + i] = X[bx * 128 + i] * scale

    kernel = tilelang.compile(main, target=target, execution_backend="ctypes")
    path = tmp_path / "kernel_lib.so"
    path.write_bytes(kernel.artifact.files["kernel_lib.so"])
    library = ctypes.CDLL(str(path))
    x, y = torch.randn(300), torch.empty(300)
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in (x, y)]
    code = library.main_call(pointers[0], ctypes.c_double(0.5), pointers[1], ctypes.c_int64(300), None)
    assert code == 0
    assert torch.equal(y, x * 0.5)
    assert kernel.artifact.metadata["dynamic"] == ("n",)


@pytest.mark.parametrize("target", ["cpu", "c"])
def test_blocks_that_return_in_a_loop_of_the_host(target):
    @T.prim_func
    def main(A: T.Tensor((3, 4), "int32")):
        for k in range(2, -1, -1):
            with T.Kernel(4, threads=32) as bx:
                for i in T.serial(2):
                    if bx < k + i:
                        return
                A[k, bx] = bx + 1

    a = torch.zeros(3, 4, dtype=torch.int32)
    tilelang.compile(main, target=target)(a)
    assert a.tolist() == [[0, 2, 3, 4], [0, 0, 3, 4], [0, 0, 0, 4]]
