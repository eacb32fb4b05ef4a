"""Small programs with jumps, loops, pipelines and ordered accesses, with the same result on every target."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.every_target import every_target, run
from tilelang.errors import TileLangError


@every_target
def test_statements_that_write_the_same_tensor_are_ordered(target):
    @T.prim_func
    def main(A: T.Tensor((256,), "float32"), B: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=128):
            B[7] = -2.0
            T.clear(B)
            for i in T.Parallel(255):
                B[i + 1] = A[i]
            B[100] = -1.0

    a = torch.arange(256.0)
    expected = torch.cat([torch.zeros(1), a[:255]])
    expected[100] = -1
    assert torch.equal(run(main, target, a), expected)


@every_target
def test_tensors_that_threads_exchange_values_through(target):
    @T.prim_func
    def main(A: T.Tensor((16, 8), "int32"), W: T.Tensor((16, 8), "uint8"), B: T.Tensor((16, 8), "uint8")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((16, 8), "uint8")
            half = T.alloc_shared((16, 8), "float16")
            T.copy(A, tile)
            T.copy(tile, W)
            T.copy(W, half)
            T.copy(half, tile)
            T.copy(tile, W)
            for i, j in T.Parallel(16, 8):
                tile[i, j] = W[i, j] + 1
            T.copy(tile, B)

    a = torch.arange(128, dtype=torch.int32).reshape(16, 8)
    assert torch.equal(run(main, target, a, torch.zeros(16, 8, dtype=torch.uint8)), a.to(torch.uint8) + 1)


@every_target
@pytest.mark.parametrize("block", [32, 64, 96])
def test_pipelines_of_small_tiles(block, target):
    @T.prim_func
    def main(A: T.Tensor((192,), "float16"), B: T.Tensor((192,), "float32")):
        with T.Kernel(1, threads=128):
            tile, values = T.alloc_shared((block,), "float16"), T.alloc_fragment((block,), "float32")
            for k in T.Pipelined(192 // block, num_stages=2):
                T.copy(A[k * block : (k + 1) * block], tile)
                T.copy(tile, values)
                for i in T.Parallel(block):
                    B[k * block + i] = values[i] * 2.0

    a = torch.arange(192).half()
    assert torch.equal(run(main, target, a), a.float() * 2)


@every_target
def test_return_ends_the_block(target):
    @T.prim_func
    def main(L: T.Tensor((8,), "int32"), B: T.Tensor((8, 4), "int32")):
        with T.Kernel(8, threads=32) as block:
            for i in T.Parallel(4):
                B[block, i] = -1
            if L[block] < 0:
                return
            for k in range(L[block]):
                if k == 3:
                    return
                for j in T.serial(10):
                    if j + k > 10:
                        return
                    B[block, 0] = j * 100 + k
            T.fill(B[block, :], L[block])

    lengths = torch.tensor([-1, 0, 1, 2, 3, 4, -5, 100], dtype=torch.int32)
    early = {-1: -1, -5: -1, 3: 802, 4: 802, 100: 802}
    got = run(main, target, lengths)
    for length, row in zip(lengths.tolist(), got.tolist()):
        assert row == ([early[length], -1, -1, -1] if length in early else [length] * 4)


@every_target
@pytest.mark.parametrize("threads", [32, 128])
def test_continue_ends_an_iteration_of_a_parallel_loop_only(threads, target):
    @T.prim_func
    def main(A: T.Tensor((128,), "int32"), B: T.Tensor((2, 128), "int32"), C: T.Tensor((2, 128), "int32")):
        with T.Kernel(1, threads=threads):
            for k in T.serial(2):
                for i in T.Parallel(128):
                    if A[i] % 2 == 0:
                        B[k, i] = -1
                        if A[i] % 3 == 0:
                            continue
                        B[k, i] = -2
                    elif A[i] % 5 == 0:
                        continue
                    for j in T.serial(4):
                        if j == A[i] % 4:
                            continue
                        B[k, i] += 10
                for i in T.Parallel(128):
                    C[k, i] = A[127 - i]

    a = torch.arange(128, dtype=torch.int32)
    b, c = torch.zeros(2, 128, dtype=torch.int32), torch.zeros(2, 128, dtype=torch.int32)
    with tilelang.simulator(strict=True):
        tilelang.compile(main, target=target)(a, b, c)
    row = [-1 if i % 6 == 0 else 28 if i % 2 == 0 else 0 if i % 5 == 0 else 30 for i in range(128)]
    assert b.tolist() == [row, row] and torch.equal(c, a.flip(0).expand(2, 128))


@every_target
def test_prints_and_assertions_of_iterations(target, capfd):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), limit: T.float32, B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            values = T.alloc_fragment((64,), "float32")
            T.copy(A, values)
            for i in T.Parallel(64):
                T.device_assert(values[i] < limit, "too large")
                if i == 35:
                    T.print(values[i], "element")
                B[i] = values[i] + 1
            for i in T.Parallel(2):
                T.print(i, "once")

    a = torch.arange(64.0)
    assert torch.equal(run(main, target, a, 64.0), a + 1)
    out = capfd.readouterr().out
    assert out.count("element") == 1 and "35" in out and out.count("once") == 2
    with pytest.raises((TileLangError, RuntimeError), match="too large|trap"):
        run(main, target, a, 63.0)


@every_target
def test_a_while_loop_spelled_as_a_call_computes_its_condition_in_each_pass(target):
    @T.prim_func
    def main(A: T.Tensor((1,), "int32"), B: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=32):
            passes = T.alloc_var("int32", 0)
            with T.While(T.atomic_load(A[0]) < 5):
                T.atomic_add(A[0], 1)
                passes += 1
            B[0] = passes

    assert run(main, target, torch.zeros(1, dtype=torch.int32)).tolist() == [5]


@every_target
def test_the_condition_of_a_while_loop_reads_named_floats(target):
    @T.prim_func
    def main(x: T.float32, A: T.Tensor((8,), "float32"), B: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=32):
            limit = A[0] * 2
            passes = T.alloc_var("int32", 0)
            while A[passes] < limit and A[passes] < x:
                passes += 1
            B[0] = passes

    values = torch.tensor([2.0, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0])
    assert run(main, target, 9.0, values).tolist() == [3] and run(main, target, 3.2, values).tolist() == [2]


@every_target
@pytest.mark.parametrize("place", ["in the loop", "before it"])
def test_scalars_that_an_iteration_uses_for_itself(place, target):
    """The iterations are shared out even so: each updates its element once."""

    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((136,), "float32"), C: T.Tensor((136,), "float32")):
        with T.Kernel(1, threads=128):
            total = T.alloc_var("float32")
            for i in T.Parallel(136):
                if place == "in the loop":
                    total = T.alloc_var("float32", init=0.0)
                else:
                    total = 0.0
                for r in T.serial(8):
                    total += A[r]
                B[i] += total * i
            for i in T.Parallel(136):
                total = B[i]
                C[i] = total + 1

    a, b = torch.arange(8.0), torch.ones(136)
    c = run(main, target, a, b)
    assert torch.equal(b, 1 + 28.0 * torch.arange(136)) and torch.equal(c, b + 1)
