"""Variables in ``T.Parallel``: iterations have their own; what they agree on is there after the loop."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import source
from testing.python.target.definition import check_meaning

X = torch.randint(-9, 9, (100,)).float()


def test_an_iteration_begins_with_what_the_variable_held():
    @T.prim_func
    def main(X: T.Tensor((100,), "float32"), Y: T.Tensor((100,), "float32")):
        with T.Kernel(1, threads=32):
            v = T.alloc_var("float32", init=1)
            for i in T.Parallel(100):
                v = v + X[i]
                Y[i] = v

    assert torch.equal(check_meaning(main, X, torch.zeros(100))[1], X + 1)


@pytest.mark.parametrize("extent", [3, 33, 100])
def test_what_iterations_agree_on_is_there_afterwards(extent):
    @T.prim_func
    def main(Y: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            v = T.alloc_var("float32", init=0)
            for _ in T.Parallel(extent):
                v = 3
            Y[0] = v
            T.atomic_add(Y[1], v)
            for i in T.Parallel(6):
                Y[2 + i] = v + i

    assert check_meaning(main, torch.zeros(8))[0].tolist() == [3, 3, 3, 4, 5, 6, 7, 8]


def test_what_one_iteration_stores_is_there_afterwards():
    @T.prim_func
    def main(X: T.Tensor((100,), "float32"), Y: T.Tensor((100,), "float32")):
        with T.Kernel(1, threads=32):
            v, f = T.alloc_var("int32", init=0), T.alloc_fragment((100,), "float32")
            T.copy(X, f)
            for i in T.Parallel(100):
                if i == 70:
                    v = 5
            if v == 5:
                for i in T.Parallel(100):
                    f[i] += v
            while v > 3:
                v = v - 1
                for i in T.Parallel(100):
                    f[i] = f[i] * 2
            T.copy(f, Y)

    assert torch.equal(check_meaning(main, X, torch.zeros(100))[1], (X + 5) * 4)


def test_iterations_that_are_left_early_and_loops_around():
    @T.prim_func
    def main(X: T.Tensor((100,), "float32"), Y: T.Tensor((10,), "float32")):
        with T.Kernel(1, threads=32):
            v, n = T.alloc_var("float32", init=1), T.alloc_var("float32", init=5)
            for i in T.Parallel(100):
                if X[i] < 0:
                    continue
                if i > 20:
                    n = 3
                v = X[i]
                T.atomic_add(Y[i % 8], v)
            T.atomic_add(Y[8], n)
            for _ in T.serial(3):
                for _ in T.Parallel(100):
                    n = n + 1
                T.atomic_add(Y[9], n)

    y = check_meaning(main, X, torch.zeros(10))[1]
    # The last loop carries n, so that each of 32 threads has its own, and an iteration counts in one of them.
    assert y[8:].tolist() == [32 * 3, 3 * 32 * 3 + 100 + 200 + 300]


def test_a_variable_local_to_iterations_does_not_replicate_the_loop():
    @T.prim_func
    def main(X: T.Tensor((128,), "float32"), Y: T.Tensor((128,), "float32"), S: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=32):
            v = T.alloc_var("float32", init=1)
            for i in T.Parallel(128):
                v = X[i]
                if X[i] > 0:
                    v = v * 2
                Y[i] = v
                T.atomic_add(S[0], v)

    x = torch.randint(-9, 9, (128,)).float()
    _, y, s = check_meaning(main, x, torch.zeros(128), torch.zeros(1))
    assert s.item() == y.sum().item()
    assert "__syncthreads" not in source(main) and "tid" in source(main)


def test_threads_that_replicate_a_loop_keep_its_results():
    @T.prim_func
    def main(Y: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            v = T.alloc_var("int32", init=0)
            for i in T.Parallel(4):
                if i == tx % 5:
                    v = tx
            Y[tx] = v

    tx = torch.arange(64, dtype=torch.int32)
    assert torch.equal(check_meaning(main, torch.zeros(64, dtype=torch.int32))[0], torch.where(tx % 5 < 4, tx, 0))
