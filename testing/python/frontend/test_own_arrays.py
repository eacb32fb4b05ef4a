"""Fragments to whose elements each thread stores a value of its own: they are arrays of threads."""

import torch

import tilelang.language as T
from testing.python.target.definition import check_meaning

N = 64


def test_partial_sums_of_threads():
    @T.prim_func
    def main(A: T.Tensor((4 * N,), "float32"), S: T.Tensor((2,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            tx = T.get_thread_binding()
            partial = T.alloc_fragment((2,), "float32")
            T.clear(partial)
            for k in T.serial(4):
                place = tx * 4 + k
                partial[0] += A[place]
            partial[1] = partial[0] * 2
            T.atomic_add(S[0], partial[0])
            if partial[1] > 0:
                T.atomic_add(S[1], partial[1])
            B[tx] = partial[1]

    a = torch.arange(4.0 * N) % 7 - 3
    sums = a.view(N, 4).sum(1)
    _, s, b = check_meaning(main, a, torch.zeros(2), torch.zeros(N))
    assert s.tolist() == [sums.sum(), 2 * sums.clamp(min=0).sum()]
    assert torch.equal(b, 2 * sums)


def test_sums_of_a_warp_from_a_variable_of_the_thread():
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=32):
            mine = T.alloc_var("float32")
            best = T.alloc_fragment((1,), "float32")
            mine = A[T.get_thread_binding()]
            best[0] = mine
            if A[32 + T.get_thread_binding()] > best[0]:
                best[0] = A[32 + T.get_thread_binding()]
            B[0] = T.warp_reduce_sum(best[0])

    a = torch.arange(float(N)) * 5 % 11
    _, b = check_meaning(main, a, torch.zeros(1))
    assert b.item() == a.view(2, 32).amax(0).sum()


def test_what_all_threads_store_alike_is_the_blocks():
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=32):
            total = T.alloc_fragment((1,), "float32")
            total[0] = T.warp_reduce_sum(A[T.get_thread_binding()]) + A[N - 1]
            B[0] += total[0]

    a = torch.arange(float(N))
    _, b = check_meaning(main, a, torch.zeros(1))
    assert b.item() == a[:32].sum() + a[N - 1]


def test_elements_that_a_parallel_loop_loads_for_each_thread():
    @T.prim_func
    def main(A: T.Tensor((4 * N,), "float32"), B: T.Tensor((2,), "float32")):
        with T.Kernel(1, threads=N):
            tx = T.get_thread_binding()
            mine, total = T.alloc_fragment((4,), "float32"), T.alloc_local((1,), "float32")
            total[0] = 0
            if tx < N - 5:
                for i in T.Parallel(4):
                    mine[i] = A[tx * 4 + i]
                for i in T.serial(4):
                    total[0] += mine[i]
            total[0] = T.warp_reduce_sum(total[0])
            if tx % 32 == 0:
                B[tx // 32] = total[0]

    a = torch.arange(4.0 * N) * 3 % 17
    _, b = check_meaning(main, a, torch.zeros(2))
    assert b.tolist() == [a[: 4 * 32].sum(), a[4 * 32 : 4 * (N - 5)].sum()]


def test_a_fragment_that_only_parallel_loops_use_is_a_tile():
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            tx = T.get_thread_binding()
            tile = T.alloc_fragment((N,), "float32")
            for i in T.Parallel(N):
                tile[i] = A[N - 1 - i] + tx * 0
            for i in T.Parallel(N):
                B[i] = tile[i]

    a = torch.arange(float(N))
    _, b = check_meaning(main, a, torch.zeros(N))
    assert torch.equal(b, a.flip(0))


def test_a_fragment_that_a_loop_or_operator_uses_is_a_tile():
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((2, N), "float32")):
        with T.Kernel(1, threads=N):
            tx = T.get_thread_binding()
            tile, copied = T.alloc_fragment((N,), "float32"), T.alloc_fragment((N,), "float32")
            T.copy(A, tile)
            tile[0] = A[tx * 0 + 5]
            for i in T.Parallel(N):
                B[0, i] = tile[i]
            T.copy(tile, copied)
            copied[1] = A[tx * 0 + 7]
            T.copy(copied, B[1, 0])

    a = torch.arange(float(N))
    _, b = check_meaning(main, a, torch.zeros(2, N))
    first = torch.where(a == 0, 5.0, a)
    assert torch.equal(b, torch.stack([first, torch.where(a == 1, 7.0, first)]))
