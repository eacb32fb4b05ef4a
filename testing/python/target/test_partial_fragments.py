"""Fragments of which parts are written, in kernels whose layouts need conversions."""

from __future__ import annotations

import contextlib

import pytest
import torch

import tilelang.language as T
from testing.python.target.definition import check_meaning


def test_a_conversion_of_a_half_written_fragment():
    @T.prim_func
    def main(X: T.Tensor((8, 8), "float32"), Y: T.Tensor((8, 8), "float32")):
        with T.Kernel(1, threads=64):
            f, g = T.alloc_fragment((8, 8), "float32"), T.alloc_fragment((8, 8), "float32")
            for i, j in T.Parallel(4, 8):
                f[i, j] = X[i, j]
            for i, j in T.Parallel(4, 4):
                g[i, j] = f[j, i]
            for i, j in T.Parallel(4, 4):
                f[i, j] += g[j, i]
            for i, j in T.Parallel(4, 8):
                Y[i, j] = f[i, j]

    x = torch.randint(-9, 9, (8, 8)).float()
    _, y = check_meaning(main, x, torch.zeros(8, 8))
    assert torch.equal(y[:4, :4], 2 * x[:4, :4]) and torch.equal(y[:4, 4:], x[:4, 4:])


def test_a_fragment_that_a_loop_alone_uses_needs_no_copy_before_it():
    @T.prim_func
    def main(X: T.Tensor((3, 3), "float32"), Y: T.Tensor((5,), "float32"), Z: T.Tensor((5, 5), "float32")):
        with T.Kernel(1, threads=64):
            s, h = T.alloc_shared((3, 3), "float32"), T.alloc_fragment((5, 5), "float32")
            f, g = T.alloc_fragment((5,), "float32"), T.alloc_fragment((5,), "float32")
            T.copy(X, s)
            T.clear(f)
            T.fill(g, 1)
            T.fill(h, 1)
            for _ in T.serial(40):
                T.reduce_sum(s, f[1:4], dim=0, clear=False)
                for i in T.Parallel(5):
                    g[i] = f[4 - i]
                for i in T.Parallel(5):
                    f[i] = T.min(f[i], g[i])
            T.copy(f, Y)
            T.copy(h, Z)

    check_meaning(main, torch.ones(3, 3), torch.zeros(5), torch.zeros(5, 5))


def test_a_reduction_into_a_part_of_a_fragment():
    @T.prim_func
    def main(X: T.Tensor((2, 2), "float32"), Y: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=64):
            s, f = T.alloc_shared((2, 2), "float32"), T.alloc_fragment((4,), "float32")
            T.copy(X, s)
            T.clear(f)
            T.reduce_sum(s, f[0:2], dim=0, clear=False)
            for i in T.Parallel(4):
                f[i] = T.min(f[i], 1)
            T.copy(f, Y)

    check_meaning(main, torch.tensor([[1.0, -3], [2, 1]]), torch.zeros(4))


def test_a_diagonal_access_does_not_determine_a_layout():
    @T.prim_func
    def main(
        X: T.Tensor((4, 2), "int16"), W: T.Tensor((8, 8), "float32"), Y: T.Tensor((1,), "float32"), Z: T.Tensor((8,), "float32")
    ):
        with T.Kernel(1, threads=32):
            f, g = T.alloc_fragment((4, 2), "int16"), T.alloc_fragment((8, 8), "float32")
            best, r = T.alloc_reducer((1,), "float32", op="max", replication="all"), T.alloc_fragment((1,), "float32")
            T.copy(X, f)
            T.copy(W, g)
            T.reducer_init(best)
            for j in T.Parallel(4):
                T.reducer_update(best[0], T.cast(f[j, j % 2], "float32"))
            T.finalize_reducer(best, r)
            T.copy(r, Y)
            for i in T.Parallel(8):
                Z[i] = g[i, i]

    x, w = torch.arange(8, dtype=torch.int16).reshape(4, 2), torch.randn(8, 8)
    *_, y, z = check_meaning(main, x, w, torch.zeros(1), torch.zeros(8))
    assert y[0] == 7 and torch.equal(z, w.diag())


@pytest.mark.parametrize("group", [False, True], ids=["of all threads", "of a group of threads"])
def test_a_fragment_laid_out_over_threads_from_another_than_the_first(group):
    @T.prim_func
    def main(A: T.Tensor((2, 256), "float32"), B: T.Tensor((2, 256), "float32")):
        with T.Kernel(1, threads=256):
            x, total = T.alloc_fragment((2, 256), "float32"), T.alloc_fragment((2,), "float32")
            T.annotate_layout({
                x: T.Fragment((2, 256), forward_fn=lambda i, j: (128 + j // 8, i * 8 + j % 8)),
                total: T.Fragment((2,), forward_fn=lambda i, rep: (128 + rep, i), replicate=32),
            })  # fmt: skip
            with T.ws(1) if group else contextlib.nullcontext():
                T.copy(A, x)
                T.reduce_sum(x, total, dim=1)
                for i, j in T.Parallel(2, 256):
                    B[i, j] = x[i, j] - total[i]

    check_meaning(main, torch.randint(-9, 9, (2, 256)).float(), torch.zeros(2, 256))
