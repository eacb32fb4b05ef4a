"""Which statements run once for the block and which in each thread (docs/semantics.md), on every target."""

from __future__ import annotations

import torch

import tilelang.language as T
from testing.python.target.definition import check_meaning


def counts(program, *tensors):
    """How often each of eight counters is increased."""
    return check_meaning(program, *tensors, torch.zeros(8, dtype=torch.int32))[-1].tolist()


def test_a_statement_below_warp_groups_is_each_threads():
    @T.prim_func
    def main(C: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=256):
            with T.ws(0):
                T.atomic_add(C[0], 1)
                for i in T.Parallel(2):
                    T.atomic_add(C[1 + i], 1)
                before = T.atomic_add(C[3], 1, return_prev=True)
                if before < 3:
                    T.atomic_add(C[4], 1)
            T.atomic_add(C[5], 1)

    assert counts(main) == [128, 1, 1, 128, 3, 1, 0, 0]


def test_thread_index_names_decide_even_where_all_threads_agree():
    @T.prim_func
    def main(C: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32) as bx:
            tx = T.get_thread_binding()
            T.atomic_add(C[0], T.if_then_else(bx == 0, 1, tx))
            if bx == 1 and tx < 16:
                T.atomic_add(C[1], 1)
            else:
                T.atomic_add(C[2], 1)
            for i in T.Parallel(2):
                T.atomic_add(C[3 + i], tx // 32 + 1)

    assert counts(main) == [32, 0, 32, 32, 32, 0, 0, 0]


def test_the_only_index_of_an_axis_of_threads_names_a_thread():
    @T.prim_func
    def main(C: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=(32, 1)):
            T.atomic_add(C[T.get_thread_binding(1)], 1)

    assert counts(main)[0] == 32


def test_statements_after_a_partial_return_are_per_thread_even_if_no_thread_returns():
    @T.prim_func
    def main(C: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            for _ in T.serial(2):
                T.atomic_add(C[0], 1)
                if tx // 32 > 0:
                    continue
                T.atomic_add(C[1], 1)
            for _ in T.serial(2):
                if tx >= 16:
                    continue
                T.atomic_add(C[2], 1)
            for _ in T.serial(2):
                T.atomic_add(C[3], 1)
                if tx >= 32:
                    break
            T.atomic_add(C[4], 1)
            if tx >= 32:
                T.thread_return()
            T.atomic_add(C[5], 1)

    assert counts(main) == [2, 64, 32, 64, 1, 32, 0, 0]


def test_threads_leave_from_the_middle_of_nested_branches():
    @T.prim_func
    def main(N: T.Tensor((4,), "int32"), C: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            for k in T.serial(4):
                T.atomic_add(C[0], 1)
                if N[k] > 0:
                    if tx >= 16:
                        continue
                    T.atomic_add(C[1], 1)
                else:
                    T.atomic_add(C[2], 1)
                T.atomic_add(C[3], 1)
            if N[0] > 0:
                if tx < 16:
                    T.thread_return()
                T.atomic_add(C[4], 1)
            T.atomic_add(C[5], 1)

    assert counts(main, torch.tensor([1, 0, 1, 0], dtype=torch.int32)) == [4, 32, 2, 32 + 128, 48, 48, 0, 0]


def test_threads_return_from_loops_and_others_go_on():
    @T.prim_func
    def main(N: T.Tensor((64,), "int32"), C: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            for k in T.serial(4):
                T.atomic_add(C[0], 1)
                for j in T.serial(2):
                    if N[tx] == 2 * k + j:
                        T.thread_return()
                    T.atomic_add(C[1], 1)
                T.atomic_add(C[2], 1)
            T.atomic_add(C[3], 1)

    n = torch.arange(64, dtype=torch.int32)
    assert counts(main, n) == [64 + 62 + 60 + 58, sum(range(8)) + 56 * 8, 2 * (0 + 1 + 2 + 3) + 56 * 4, 56, 0, 0, 0, 0]


def test_a_parallel_loop_with_a_thread_index_is_replicated():
    @T.prim_func
    def main(A: T.Tensor((32, 4), "float32"), B: T.Tensor((32, 4), "float32"), C: T.Tensor((32, 4), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            if tx < 32:
                for i in T.Parallel(4):
                    B[tx, i] = A[tx, i] + i
                T.copy(A[tx, 0:4], C[tx, 0:4])

    a = torch.randn(32, 4)
    _, b, c = check_meaning(main, a, torch.zeros(32, 4), torch.zeros(32, 4))
    assert torch.equal(b, a + torch.arange(4)) and torch.equal(c, a)


def test_a_parallel_loop_over_a_thread_local_array_is_replicated():
    @T.prim_func
    def main(A: T.Tensor((4,), "float32"), B: T.Tensor((32, 4), "float32"), C: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            row, own = T.alloc_fragment((4,), "float32"), T.alloc_local((4,), "float32")
            T.copy(A, row)
            for i in T.serial(4):
                own[i] = tx + i
            for i in T.Parallel(4):
                T.atomic_add(C[i], own[i])
            for i in T.Parallel(4):
                B[tx, i] = row[i] + tx

    a = torch.tensor([1.0, 2, 3, 4])
    _, b, c = check_meaning(main, a, torch.zeros(32, 4), torch.zeros(4))
    assert torch.equal(b, a + torch.arange(32.0)[:, None]) and c.tolist() == [496, 528, 560, 592]


def test_a_replicated_loop_may_be_below_a_divergent_condition():
    @T.prim_func
    def main(X: T.Tensor((32, 16), "int32"), Y: T.Tensor((32, 16), "int32"), Z: T.Tensor((32, 16), "int32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            own, row = T.alloc_local((16,), "int32"), T.alloc_fragment((16,), "int32")
            tile = T.alloc_shared((32, 16), "int32")
            T.copy(X[3, 0:16], row)
            T.clear(tile)
            for j in T.serial(16):
                own[j] = X[tx, j]
            if own[1] > 0:
                for j in T.Parallel(16):
                    Y[tx, j] = own[15 - j] + row[j]
                    tile[tx, j] = own[j]
                T.copy(tile[tx, 0:16], Z[tx, 0:16])
            while own[0] > 0:
                own[0] = own[0] - 1
                for j in T.Parallel(16):
                    Y[tx, j] += j

    x = torch.randint(-4, 5, (32, 16), dtype=torch.int32)
    _, y, z = check_meaning(main, x, torch.zeros_like(x), torch.zeros_like(x))
    taken = x[:, 1:2] > 0
    assert torch.equal(z, torch.where(taken, x, 0))
    assert torch.equal(y, torch.where(taken, x.flip(1) + x[3], 0) + x[:, :1].clamp(min=0) * torch.arange(16, dtype=torch.int32))


def test_warps_of_another_size():
    @T.prim_func
    def main(B: T.Tensor((256,), "int32"), C: T.Tensor((4,), "int32"), D: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            s, v = T.alloc_shared((256,), "int32"), T.alloc_var("int32", init=0)
            s[tx] = tx
            if T.get_warp_idx(16) == 1:
                v = s[tx ^ 1] + 1000
                s[tx ^ 3] = v
            B[tx] = s[tx ^ 3] + T.get_lane_idx(16) * 10000
            if T.get_warp_idx(64) == 2:
                for i in T.Parallel(4):
                    C[i] = C[i] + i + 1
            if T.get_warp_group_idx(32, 2) == 1:
                T.atomic_add(D[T.get_warp_group_idx(16)], 1)

    zeros = [torch.zeros(size, dtype=torch.int32) for size in (256, 4, 8)]
    _, c, d = check_meaning(main, *zeros)
    assert c.tolist() == [1, 2, 3, 4] and d.tolist() == [0, 64, 0, 0, 0, 0, 0, 0]
