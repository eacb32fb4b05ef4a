"""Statements outside of ``T.Parallel`` are the block's: whatever scalars and fragments they use, they happen once."""

from __future__ import annotations

import torch

import tilelang.language as T
from testing.python.target.every_target import every_target, run

THREADS = 64


@every_target
def test_updates_by_what_the_block_has_computed(target):
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), W: T.Tensor((6,), "float32")):
        with T.Kernel(1, threads=THREADS):
            tile, total = T.alloc_fragment((64,), "float32"), T.alloc_fragment((1,), "float32")
            count = T.alloc_var("float32", init=0)
            for i in T.Parallel(6):
                W[i] = 1
            T.copy(X, tile)
            T.reduce_sum(tile, total, dim=0)
            for _ in range(3):
                count = count + 1
            W[0] = W[0] + total[0]
            W[1] += count
            T.atomic_add(W[2], total[0])
            T.atomic_add(W[3], count)
            if count > 2:
                W[4] = W[4] * 5

    assert run(main, target, torch.ones(64)).tolist() == [65, 4, 65, 4, 5, 1]


@every_target
def test_shared_elements_step_by_step(target):
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=THREADS):
            shared, local = T.alloc_shared((2,), "float32"), T.alloc_local((2,), "float32")
            last = T.alloc_var("float32", init=1)
            shared[0] = X[3]
            shared[0] = shared[0] * 2
            last = shared[0]
            local[1] = last
            shared[1] = local[1]
            shared[1] += last
            for i in T.Parallel(64):
                Y[i] = X[i] + shared[1]

    x = torch.arange(64.0)
    assert torch.equal(run(main, target, x), x + 12)


@every_target
def test_the_previous_value_of_an_atomic_update_is_uniform_over_the_block(target):
    @T.prim_func
    def main(X: T.Tensor((8, 32), "float32"), tickets: T.Tensor((1,), "int32"), order: T.Tensor((8,), "int32"),
             total: T.Tensor((32,), "float32")):  # fmt: skip
        with T.Kernel(8, threads=THREADS) as block:
            tile = T.alloc_fragment((32,), "float32")
            for i in T.Parallel(32):
                X[block, i] = block
            ticket = T.atomic_add(tickets[0], 1, memory_order="acq_rel", return_prev=True)
            order[block] = ticket
            if ticket == 7:  # the last block sums what all have written
                T.clear(tile)
                for k in range(8):
                    for i in T.Parallel(32):
                        tile[i] += X[k, i]
                T.copy(tile, total)

    tickets, order = torch.zeros(1, dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    assert run(main, target, torch.zeros(8, 32), tickets, order).tolist() == [28] * 32
    assert tickets.item() == 8 and sorted(order.tolist()) == list(range(8))


@every_target
def test_the_value_before_an_update_in_fewer_iterations_than_threads(target):
    @T.prim_func
    def main(counts: T.Tensor((2,), "int32"), order: T.Tensor((2, 8), "int32")):
        with T.Kernel(1, threads=THREADS):
            places = T.alloc_fragment((8,), "int32")
            for _ in T.Parallel(8):
                place = T.atomic_add(counts[0], 1, return_prev=True)
                order[0, place] = place
            for i in T.Parallel(8):
                places[i] = T.atomic_add(counts[1], 1, return_prev=True)
            for i in T.Parallel(8):
                order[1, places[i]] = places[i]

    counts = torch.zeros(2, dtype=torch.int32)
    assert run(main, target, counts).tolist() == [list(range(8))] * 2
    assert counts.tolist() == [8, 8]


@every_target
def test_each_pass_of_a_while_loop_computes_its_condition(target):
    @T.prim_func
    def main(counts: T.Tensor((2,), "int32"), result: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=THREADS):
            while T.atomic_load(counts[0]) < 5:
                counts[0] = counts[0] + 1
            while T.atomic_add(counts[0], 1, return_prev=True) < 9:
                if counts[0] == 7:
                    continue
                counts[1] = counts[1] + 1
            T.copy(counts, result)

    assert run(main, target, torch.zeros(2, dtype=torch.int32)).tolist() == [10, 3]


@every_target
def test_scalars_beside_a_pipeline(target):
    @T.prim_func
    def main(A: T.Tensor((64, 256), "float16"), W: T.Tensor((3,), "float32"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c, count = T.alloc_fragment((64, 64), "float32"), T.alloc_var("float32", init=0)
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(A[0, k * 64], b)
                T.gemm(a, b, c, transpose_B=True)
                count = count + 1
                W[0] = W[0] + count
            W[1] = W[1] + count
            T.atomic_add(W[2], count)
            T.copy(c, C)

    a, w = torch.ones(64, 256, dtype=torch.float16), torch.zeros(3)
    assert torch.equal(run(main, target, a, w), torch.full((64, 64), 256.0))
    assert w.tolist() == [10, 4, 4]


@every_target
def test_an_index_that_the_next_statement_changes(target):
    @T.prim_func
    def main(X: T.Tensor((24,), "int32"), Y: T.Tensor((24,), "int32")):
        with T.Kernel(1, threads=THREADS):
            end = T.alloc_shared((3,), "int32")
            for i in T.Parallel(3):
                end[i] = i * 8
            for i in T.serial(24):
                Y[end[X[i]]] = i
                end[X[i]] = end[X[i]] + 1

    x = (torch.arange(24) % 3).int()
    assert torch.equal(run(main, target, x), torch.argsort(x, stable=True).int())
