"""Programs in the style of hand-written kernels, whose threads and blocks order themselves: queues, locks, scans, compaction."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import cuda, simulate
from tilelang import interpreter

ARCHES = ("sm_80", "sm_90a")


@pytest.mark.parametrize("arch", ARCHES)
def test_blocks_take_tiles_from_a_queue(arch):
    @T.prim_func
    def main(N: T.Tensor((1,), "int32"), X: T.Tensor((10, 64), "float32"), Y: T.Tensor((10, 64), "float32")):
        with T.Kernel(3, threads=64):
            s = T.alloc_shared((64,), "float32")
            tile = T.alloc_var("int32", init=0)
            tile = T.atomic_add(N[0], 1, return_prev=True)
            while tile < 10:
                T.copy(X[tile, :], s)
                for i in T.Parallel(64):
                    Y[tile, i] = s[63 - i]
                tile = T.atomic_add(N[0], 1, return_prev=True)

    n, x, y = torch.zeros(1, dtype=torch.int32), torch.randn(10, 64), torch.zeros(10, 64)
    simulate(main, n, x, y, arch=arch)
    assert torch.equal(y, x.flip(1)) and n.item() == 13


@pytest.mark.parametrize("arch", ARCHES)
def test_blocks_accumulate_in_turns(arch):
    @T.prim_func
    def main(turn: T.Tensor((1,), "int32"), X: T.Tensor((4, 64), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(4, threads=64) as bx:
            part, total = T.alloc_fragment((64,), "float32"), T.alloc_fragment((64,), "float32")
            T.copy(X[bx, :], part)
            while T.atomic_load(turn[0], memory_order="acquire") != bx:
                T.evaluate(0)
            T.copy(Y, total)
            for i in T.Parallel(64):
                total[i] = total[i] * 2 + part[i]
            T.copy(total, Y)
            T.atomic_store(turn[0], bx + 1, memory_order="release")

    turn, x, y = torch.zeros(1, dtype=torch.int32), torch.randint(-9, 9, (4, 64)).float(), torch.zeros(64)
    simulate(main, turn, x, y, arch=arch)
    assert torch.equal(y, ((x[0] * 2 + x[1]) * 2 + x[2]) * 2 + x[3])


@pytest.mark.parametrize("arch", ARCHES)
def test_threads_append_what_they_choose_to_a_list(arch):
    @T.prim_func
    def main(X: T.Tensor((256,), "int32"), N: T.Tensor((1,), "int32"), Y: T.Tensor((256,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            n, chosen = T.alloc_shared((1,), "int32"), T.alloc_shared((256,), "int32")
            if tx == 0:
                n[0] = 0
            for i in T.serial(tx, 256, 64):
                if X[i] > 0:
                    place = T.atomic_add(n[0], 1, return_prev=True)
                    chosen[place] = X[i]
            N[0] = n[0]
            for i in T.serial(tx, n[0], 64):
                Y[i] = chosen[i]

    x = torch.randint(-30, 100, (256,), dtype=torch.int32)
    n, y = torch.zeros(1, dtype=torch.int32), torch.zeros(256, dtype=torch.int32)
    simulate(main, x, n, y, arch=arch)
    want = x[x > 0].sort().values
    assert n.item() == len(want) and torch.equal(y[: len(want)].sort().values, want)


@pytest.mark.parametrize("arch", ARCHES)
def test_a_while_loop_on_an_element_of_a_tile(arch):
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((65,), "float32")):
        with T.Kernel(1, threads=64):
            s, n = T.alloc_shared((64,), "float32"), T.alloc_shared((1,), "int32")
            T.copy(X, s)
            n[0] = 0
            while s[0] < 100:
                for i in T.Parallel(64):
                    s[i] = s[i] * 2
                n[0] = n[0] + 1
            for i in T.Parallel(64):
                Y[i] = s[63 - i]
            Y[64] = T.cast(n[0], "float32")

    x, y = torch.rand(64) + 1, torch.zeros(65)
    simulate(main, x, y, arch=arch)
    steps = int(y[64])
    assert x[0] * 2**steps >= 100 > x[0] * 2 ** (steps - 1) and torch.equal(y[:64], (x * 2**steps).flip(0))


@pytest.mark.parametrize("arch", ARCHES)
def test_threads_scan_a_tile_by_doubling_steps(arch):
    @T.prim_func
    def main(X: T.Tensor((64,), "int32"), Y: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "int32")
            before = T.alloc_var("int32", init=0)
            s[tx] = X[tx]
            for k in T.serial(6):
                before = 0
                if tx >= (1 << k):
                    before = s[tx - (1 << k)]
                s[tx] = s[tx] + before
            Y[tx] = s[tx]

    x, y = torch.randint(-9, 9, (64,), dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    simulate(main, x, y, arch=arch)
    assert torch.equal(y, x.cumsum(0).int())


def _agrees_with_the_definition(program, arch, shape):
    """Runs a program that counts, by the interpreter and on the simulator; gives what both counted."""
    defined, counted = torch.zeros(shape), torch.zeros(shape)
    tilelang.compile(program, target="interpret")(defined)
    simulate(program, counted, arch=arch)
    assert torch.equal(counted, defined)
    return defined.tolist()


@pytest.mark.parametrize("arch", ARCHES)
def test_statements_below_a_thread_condition_are_per_thread_even_if_it_is_uniform(arch):
    @T.prim_func
    def main(N: T.Tensor((7,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            n = T.alloc_var("float32", init=1)
            s = T.alloc_shared((32,), "float32")
            for _ in T.serial(tx // 32 + 1):
                T.atomic_add(N[0], 1.0)
            if tx // 32 == 0:
                T.atomic_add(N[1], 1.0)
                n = n + 1
            T.atomic_add(N[2], n)
            if tx < 32:  # all threads share the tile operator; the update is each one's
                T.clear(s)
                T.atomic_add(N[3], 1.0)
            if tx >= 32:
                T.clear(s)
            else:
                T.atomic_add(N[4], 1.0)
            if tx // 32 == 0:
                for _ in T.serial(2):
                    T.atomic_add(N[5], 1.0)
            T.atomic_add(N[6], 1.0)

    assert _agrees_with_the_definition(main, arch, 7) == [32, 32, 64, 32, 32, 64, 1]


@pytest.mark.parametrize("arch", ARCHES)
def test_the_result_of_an_operator_in_a_local_array_is_uniform(arch):
    @T.prim_func
    def main(N: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            filled, copied, sums, own = (
                T.alloc_local((1,), "float32"),
                T.alloc_local((1,), "float32"),
                T.alloc_local((1,), "float32"),
                T.alloc_local((1,), "float32"),
            )
            s = T.alloc_shared((64,), "float32")
            T.fill(s, 3)
            T.fill(filled, 2)
            T.copy(s[5:6], copied)
            T.reduce_sum(s, sums, dim=0)
            T.copy(s[tx : tx + 1], own)
            T.atomic_add(N[0], filled[0])
            T.atomic_add(N[1], copied[0])
            T.atomic_add(N[2], sums[0])
            T.atomic_add(N[3], own[0])

    assert _agrees_with_the_definition(main, arch, 4) == [2, 3, 192, 192]


@pytest.mark.parametrize("threads", [1, 16, 31, 48, 64, 95])
@pytest.mark.parametrize("name", ["sum", "min", "bitor"])
def test_reductions_of_a_warp_that_is_not_whole(threads, name):
    reduce = getattr(T, f"warp_reduce_{name}")

    @T.prim_func
    def main(A: T.Tensor((threads,), "int32"), B: T.Tensor((threads,), "int32")):
        with T.Kernel(1, threads=threads):
            tx = T.get_thread_binding()
            B[tx] = reduce(A[tx])

    a = torch.randint(1, 99, (threads,), dtype=torch.int32)
    expected, b = torch.zeros_like(a), torch.zeros_like(a)
    assert not interpreter.run(main, a, expected)
    assert not simulate(main, a, b)
    assert torch.equal(b, expected)


@pytest.mark.parametrize("target", ["interpret", *map(cuda, ARCHES)], ids=["interpret", *ARCHES])
def test_variables_that_an_atomic_update_names_are_as_they_were(target):
    @T.prim_func
    def main(X: T.Tensor((64,), "int32"), Y: T.Tensor((64,), "int32"), N: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            by, place = T.alloc_var("int32", init=3), T.alloc_var("int32", init=5)
            T.atomic_add(X[tx], by)
            T.atomic_add(Y[place], tx)
            if tx < 8:
                T.atomic_add(Y[place + 1], by)
            N[0] += by
            N[1] += place

    x, y, n = (torch.zeros(size, dtype=torch.int32) for size in (64, 64, 2))
    with tilelang.simulator(strict=True):
        tilelang.compile(main, target=target)(x, y, n)
    assert torch.all(x == 3) and n.tolist() == [3, 5] and y[5:7].tolist() == [63 * 32, 24]


@pytest.mark.parametrize("target", ["interpret", *map(cuda, ARCHES)], ids=["interpret", *ARCHES])
def test_old_values_of_elements_outside_of_a_tensor_are_zero(target):
    @T.prim_func
    def main(X: T.Tensor((60,), "int32"), Y: T.Tensor((2, 64), "int32"), Z: T.Tensor((2,), "int32"), n: T.int32):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            Y[0, tx] = T.atomic_add(X[tx], 3, return_prev=True)
            Y[1, tx] = T.atomic_load(X[tx], memory_order="relaxed")
            Z[0] = T.atomic_add(X[n], 1, return_prev=True)
            Z[1] = T.atomic_load(X[n], memory_order="acquire")

    # The first elements of a longer tensor: those behind them are not touched.
    whole, y, z = torch.ones(72, dtype=torch.int32), torch.ones(2, 64, dtype=torch.int32), torch.ones(2, dtype=torch.int32)
    with tilelang.simulator(strict=True):
        tilelang.compile(main, target=target)(whole[:60], y, z, 70)
    assert torch.equal(whole, torch.tensor([4] * 60 + [1] * 12).int()) and z.tolist() == [0, 0]
    assert torch.equal(y, torch.tensor([[1] * 60 + [0] * 4, [4] * 60 + [0] * 4]).int())


@pytest.mark.parametrize("arch", ARCHES)
def test_what_a_condition_reads_after_a_barrier_is_read_before_the_next_store(arch):
    @T.prim_func
    def main(X: T.Tensor((64,), "int32"), Y: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "int32")
            T.copy(X, s)
            if Y[(tx + 33) % 64] > 3:
                s[tx] += s[tx]
            Y[tx] = s[tx]

    x, y = torch.arange(64, dtype=torch.int32), torch.arange(64, dtype=torch.int32) % 7
    expected = torch.where(y.roll(-33) > 3, 2 * x, x)
    simulate(main, x, y, arch=arch)
    assert torch.equal(y, expected)


@pytest.mark.parametrize("target", ["interpret", *map(cuda, ARCHES)], ids=["interpret", *ARCHES])
def test_sums_of_neighbours_at_the_end_of_a_tensor(target):
    @T.prim_func
    def main(X: T.Tensor((5,), "float32"), Y: T.Tensor((7,), "float32"), n: T.int32):
        with T.Kernel(1, threads=32):
            if T.get_thread_binding() == 0:
                T.atomic_addx2(X[n], Y[0])
                T.atomic_addx4(X[n - 2], Y[4])
                T.atomic_addx2(X[n + 2], Y[0])

    # Both are the first elements of longer tensors.
    x, y = torch.zeros(8), torch.arange(1.0, 9.0)
    with tilelang.simulator(strict=True):
        tilelang.compile(main, target=target)(x[:5], y[:7], 4)
    assert x.tolist() == [0, 0, 5, 6, 1 + 7, 0, 0, 0]


@pytest.mark.parametrize("target", ["interpret", *map(cuda, ARCHES)], ids=["interpret", *ARCHES])
def test_what_the_block_counts_is_the_same_in_all_threads(target):
    @T.prim_func
    def main(X: T.Tensor((64,), "int32"), N: T.Tensor((3,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            above = T.alloc_var("int32")
            above = T.syncthreads_count(X[tx] > 10)
            T.atomic_add(N[0], above)
            if T.syncthreads_or(X[tx] > 62) != 0:
                N[1] += above

    n = torch.zeros(3, dtype=torch.int32)
    with tilelang.simulator(strict=True):
        tilelang.compile(main, target=target)(torch.arange(64, dtype=torch.int32), n)
    assert n.tolist() == [53, 53, 0]
