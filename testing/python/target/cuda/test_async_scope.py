"""Copies of single threads below ``T.attr(…, "async_scope", 1)``, which a barrier counts."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.interpreter import support as interpreter
from testing.python.target.cuda.support import simulate, source


def gather(rows, width=64, vector=8, dtype="float16"):
    """One warp loads rows by their numbers, with a flag each; the other gives them out."""

    @T.prim_func
    def main(X: T.Tensor((rows, width), dtype), table: T.Tensor((32,), "int32"), Y: T.Tensor((32, width), dtype)):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            tile = T.alloc_shared((32, width), dtype)
            valid = T.alloc_shared((32,), "bool")
            ready = T.alloc_barrier(32)
            if tx >= 32:
                valid[tx - 32] = table[tx - 32] != 7
                if valid[tx - 32]:
                    with T.attr("default", "async_scope", 1):
                        for u in T.serial(width // vector):
                            for v in T.vectorized(vector):
                                tile[tx - 32, u * vector + v] = X[table[tx - 32], u * vector + v]
                T.cp_async_barrier_noinc(ready)
            else:
                T.mbarrier_wait_parity(ready, 0)
                for j in T.serial(width):
                    Y[tx, j] = T.if_then_else(valid[tx], tile[tx, j], 1)

    return main


@pytest.mark.parametrize("run", [lambda *a: simulate(*a), lambda *a: simulate(*a, arch="sm_90a"), interpreter.run],
                         ids=["sm_80", "sm_90a", "interpret"])  # fmt: skip
def test_a_barrier_counts_copies_and_orders_the_flags_beside_them(run):
    x, y = torch.randn(20, 64).half(), torch.zeros(32, 64).half()
    table = (torch.arange(32) % 24).int()  # some rows do not exist: they are zeros
    run(gather(20), x, table, y)
    expected = torch.cat([x, torch.zeros(4, 64).half()])[table.long()]
    expected[table == 7] = 1
    assert torch.equal(y, expected)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_iterations_of_a_parallel_loop_copy_once_each(arch):
    @T.prim_func
    def main(X: T.Tensor((4, 256), "float16"), Y: T.Tensor((4, 256), "float16")):
        with T.Kernel(4, threads=64) as bx:
            tile = T.alloc_shared((256,), "float16")
            for j in T.Parallel(128):
                T.ptx_cp_async(tile[j * 2], X[bx, j * 2], 2)
            T.ptx_commit_group()
            T.ptx_wait_group(0)
            T.copy(tile, Y[bx, :])

    x, y = torch.randn(4, 256).half(), torch.zeros(4, 256).half()
    simulate(main, x, y, arch=arch)
    assert torch.equal(x, y)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_the_block_makes_a_copy_without_threads_once(arch):
    """Copies of each thread into one place would race; the tile is a ring, which the next copy overwrites."""

    @T.prim_func
    def main(X: T.Tensor((64,), "uint8"), Y: T.Tensor((64,), "uint8")):
        with T.Kernel(1, threads=64):
            ring = T.alloc_shared((2, 16), "uint8")
            T.ptx_cp_async(ring[0, 0], X[0], 16)
            T.ptx_commit_group()
            for k in T.serial(4):
                if k < 3:
                    T.ptx_cp_async(ring[(k + 1) % 2, 0], X[k * 16 + 16], 16)
                    T.ptx_commit_group()
                    T.ptx_wait_group(1)
                else:
                    T.ptx_wait_group(0)
                for i in T.Parallel(16):
                    Y[k * 16 + i] = ring[k % 2, i]

    x, y = torch.randint(0, 256, (64,), dtype=torch.uint8), torch.zeros(64, dtype=torch.uint8)
    simulate(main, x, y, arch=arch)
    assert torch.equal(x, y)


@pytest.mark.parametrize(
    ("vector", "dtype", "size"), [(8, "float16", 16), (4, "float16", 8), (2, "float16", 4), (4, "float32", 16)]
)
def test_copies_are_one_instruction(vector, dtype, size):
    assert f"cp_async_{size}_zfill(" in source(gather(20, 64, vector, dtype))


def test_other_copies_are_not_made_asynchronous():
    assert "cp_async_1" not in source(gather(20, 60, 15)) and "cp_async_1" not in source(gather(20, 63, 1))


def test_a_loop_of_several_copies_moves_vectors():
    @T.prim_func
    def main(A: T.Tensor((64, 8), "float32"), B: T.Tensor((64, 8), "float32"), C: T.Tensor((64, 8), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            one, two = T.alloc_shared((64, 8), "float32"), T.alloc_shared((64, 8), "float32")
            with T.attr("default", "async_scope", 1):
                for u in T.serial(2):
                    for v in T.vectorized(4):
                        one[tx, u * 4 + v] = A[tx, u * 4 + v]
                        two[tx, u * 4 + v] = B[tx, u * 4 + v]
            T.ptx_commit_group()
            T.ptx_wait_group(0)
            for j in T.serial(8):
                C[tx, j] = one[tx, j] - two[tx, j]

    assert source(main).count("cp_async_16(") == 2
    a, b, c = torch.randn(64, 8), torch.randn(64, 8), torch.zeros(64, 8)
    simulate(main, a, b, c)
    assert torch.equal(c, a - b)


def test_a_copy_of_what_another_copy_wrote_keeps_its_order():
    @T.prim_func
    def main(A: T.Tensor((64, 8), "float32"), B: T.Tensor((64, 8), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            one, two = T.alloc_local((8,), "float32"), T.alloc_local((8,), "float32")
            for j in T.serial(8):
                one[j] = 1
            for v in T.vectorized(4):
                one[v] = A[tx, v]
                two[v] = one[v + 1]
            for j in T.serial(4):
                B[tx, j] = two[j]

    a, b = torch.randn(64, 8), torch.zeros(64, 8)
    simulate(main, a, b)
    assert torch.equal(b, torch.nn.functional.pad(torch.ones(64, 4), (0, 4)))
