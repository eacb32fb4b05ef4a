"""Statements that disagree about where a fragment's elements are: they run all the same, through shared memory."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import simulate, source

ARCHES = ("sm_80", "sm_90a")


def _halves(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).half()


@pytest.mark.parametrize("arch", ARCHES)
def test_a_nest_reads_and_writes_an_accumulator_transposed(arch):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float32"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            d = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.gemm(a, a, c, clear_accum=True)
            T.gemm(a, a, d, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(64, 64):
                c[i, j] = c[i, j] + d[j, i]
            for i, j in T.Parallel(64, 64):
                if i > j:
                    d[j, i] = c[i, j]
            T.copy(c, B)
            T.copy(d, C)

    a, b, c = _halves(64, 64), torch.zeros(64, 64), torch.zeros(64, 64)
    simulate(main, a, b, c, arch=arch)
    product = a.float() @ a.float()
    both = product + product.T
    torch.testing.assert_close(b, both, rtol=1e-3, atol=1e-2)
    torch.testing.assert_close(c, product.tril() + both.triu(1), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("arch", ARCHES)
def test_vectors_that_come_from_different_products_meet(arch):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 32), "float16"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 32), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            d = T.alloc_fragment((64, 32), "float32")
            rows, others = T.alloc_fragment((64,), "float32"), T.alloc_fragment((64,), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, a, c, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
            T.gemm(a, b, d, clear_accum=True, policy=T.GemmWarpPolicy.FullCol)
            T.reduce_sum(c, rows, dim=1)
            T.reduce_max(d, others, dim=1)
            for i in T.Parallel(64):
                C[i] = rows[i] + others[i]

    a, b, c = _halves(64, 64), _halves(64, 32, seed=1), torch.zeros(64)
    simulate(main, a, b, c, arch=arch)
    expected = (a.float() @ a.float()).sum(1) + (a.float() @ b.float()).max(1).values
    torch.testing.assert_close(c, expected, rtol=1e-3, atol=5e-2)


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("clear", [True, False])
def test_one_accumulator_of_products_with_different_policies(arch, clear):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            p = T.alloc_fragment((64, 64), "float16")
            T.copy(A, a)
            T.gemm(a, a, c, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
            T.copy(c, p)
            T.gemm(a, p, c, clear_accum=clear, policy=T.GemmWarpPolicy.FullCol)
            T.gemm(p, a, c, policy=T.GemmWarpPolicy.Square)
            T.copy(c, B)

    a, b = _halves(64, 64) / 8, torch.zeros(64, 64)
    simulate(main, a, b, arch=arch)
    product = a.float() @ a.float()
    expected = (0 if clear else product) + a.float() @ product.half().float() + product.half().float() @ a.float()
    torch.testing.assert_close(b, expected, rtol=1e-3, atol=2e-2)


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("size", [16, 512])
def test_single_elements_of_a_fragment_steer_the_kernel(arch, size):
    @T.prim_func
    def main(M: T.Tensor((size,), "int32"), B: T.Tensor((size,), "int32")):
        with T.Kernel(1, threads=128):
            mask = T.alloc_fragment((size,), "int32")
            total = T.alloc_fragment((size,), "int32")
            T.copy(M, mask)
            T.clear(total)
            for k in T.serial(size // 2):
                if mask[k] > 0:
                    for i in T.Parallel(size):
                        total[i] = total[i] + mask[k] * i
                mask[k + 1] = mask[k] + mask[k + 1]
            T.copy(total, B)

    m = torch.randint(-3, 3, (size,), dtype=torch.int32, generator=torch.Generator().manual_seed(1))
    b = torch.zeros(size, dtype=torch.int32)
    simulate(main, m, b, arch=arch)
    sums = m[: size // 2].cumsum(0)
    torch.testing.assert_close(b, (sums.clamp(min=0).sum() * torch.arange(size)).int())


@pytest.mark.parametrize("arch", ARCHES)
def test_a_reshaped_accumulator_is_the_accumulator(arch):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), W: T.Tensor((4, 16), "float32"), B: T.Tensor((64, 4), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            w = T.alloc_fragment((4, 16), "float32")
            sums = T.alloc_fragment((64, 4), "float32")
            heads = T.reshape(c, (64, 4, 16))
            T.copy(A, a)
            T.copy(W, w)
            T.gemm(a, a, c, clear_accum=True, transpose_B=True)
            for i, g, h in T.Parallel(64, 4, 16):
                heads[i, g, h] = T.max(heads[i, g, h], 0) * w[g, h]
            T.reduce_sum(heads, sums, dim=2)
            T.copy(sums, B)

    a, w, b = _halves(64, 64), torch.rand(4, 16), torch.zeros(64, 4)
    simulate(main, a, w, b, arch=arch)
    expected = ((a.float() @ a.float().T).relu().reshape(64, 4, 16) * w).sum(-1)
    torch.testing.assert_close(b, expected, rtol=1e-3, atol=1e-2)


def test_a_reshape_that_cuts_across_threads():
    @T.prim_func
    def main(A: T.Tensor((64, 48), "float16"), B: T.Tensor((48, 64), "float32"), R: T.Tensor((48,), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 48), "float16")
            c = T.alloc_fragment((64, 48), "float32")
            other = T.reshape(c, (48, 64))
            rows = T.alloc_fragment((48,), "float32")
            T.copy(A, a)
            T.copy(a, c)
            for i, j in T.Parallel(64, 48):
                c[i, j] = c[i, j] * 2
            for i, j in T.Parallel(48, 64):
                other[i, j] = other[i, j] + i
            T.copy(other, B)
            T.reduce_sum(other, rows, dim=1)
            T.copy(rows, R)

    a, b, r = _halves(64, 48), torch.zeros(48, 64), torch.zeros(48)
    simulate(main, a, b, r)
    expected = (2 * a.float()).reshape(48, 64) + torch.arange(48.0)[:, None]
    torch.testing.assert_close(b, expected)
    torch.testing.assert_close(r, expected.sum(1))


def test_a_gather_from_a_fragment():
    @T.prim_func
    def main(A: T.Tensor((256,), "float32"), P: T.Tensor((256,), "int32"), B: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_fragment((256,), "float32"), T.alloc_fragment((256,), "float32")
            T.copy(A, a)
            for i in T.Parallel(256):
                b[i] = a[P[i]]
            T.copy(b, B)

    a, b = torch.randn(256), torch.zeros(256)
    order = torch.randperm(256, dtype=torch.int32)
    simulate(main, a, order, b)
    assert torch.equal(b, a[order.long()])


@pytest.mark.parametrize("half", [0, 1])
def test_a_loop_that_a_condition_cuts_short_reads_half_of_a_fragment_where_it_is(half: int) -> None:
    @T.prim_func
    def main(A: T.Tensor((32, 64), "float16"), B: T.Tensor((16, 64), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((32, 64), "float16")
            other = T.alloc_shared((16, 64), "float32")
            product = T.alloc_fragment((32, 32), "float32")
            T.copy(A, tile)
            T.gemm(tile, tile, product, transpose_B=True, policy=T.GemmWarpPolicy.FullCol, clear_accum=True)
            for i, j in T.Parallel(32, 32):
                if i < 16:
                    other[i, j] = product[i + half * 16, j]
            for i, j in T.Parallel(16, 64):
                if j < 32 and i < 64:
                    B[i, j] = other[i, j]

    a, b = torch.randn(32, 64).half(), torch.zeros(16, 64)
    simulate(main, a, b)
    expected = (a.float() @ a.float().T)[half * 16 : half * 16 + 16]
    torch.testing.assert_close(b[:, :32], expected, rtol=1e-3, atol=1e-2)
    assert not b[:, 32:].any() and "staged" not in source(main)


@pytest.mark.parametrize("arch", ARCHES)
def test_a_tile_replicated_in_some_threads_reaches_the_others(arch):
    """Sixty-four threads fill one, and all read it; eighty threads share columns of 40, and all read what those computed."""

    @T.prim_func
    def main(A: T.Tensor((32, 40), "float16"), B: T.Tensor((128,), "float32"), C: T.Tensor((32, 40), "float16")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            small, rows = T.alloc_fragment((4,), "float32"), T.alloc_fragment((32,), "float32")
            tile = T.alloc_fragment((32, 40), "float16")
            if tx < 64:
                T.fill(small, 3)
            for i in T.Parallel(128):
                B[i] = small[1]
            T.copy(A, tile)
            T.fill(rows, -2)
            for i in T.serial(32):
                for j in T.Parallel(40):
                    tile[i, j] = tile[i, j] - T.cast(rows[i], "float16")
            for i in T.Parallel(128):
                B[i] = B[i] + rows[i % 32]
            T.copy(tile, C)

    a, b, c = torch.randn(32, 40).half(), torch.zeros(128), torch.zeros(32, 40).half()
    simulate(main, a, b, c, arch=arch)
    assert torch.equal(b, torch.ones(128)) and torch.equal(c, a + 2)


@pytest.mark.parametrize("arch", ARCHES)
def test_replicated_threads_do_not_read_what_the_first_of_them_stored(arch):
    @T.prim_func
    def main(M: T.Tensor((20, 32), "float32"), Best: T.Tensor((32, 4), "float32")):
        with T.Kernel(1, threads=128):
            best = T.alloc_fragment((32, 4), "float32")
            m = T.alloc_fragment((32,), "float32")
            x = T.alloc_fragment((32, 64), "float32")
            T.fill(best, T.infinity("float32"))
            for t in T.serial(20):
                for i, j in T.Parallel(32, 64):
                    x[i, j] = M[t, i]
                T.reduce_min(x, m, dim=1)
                for i in T.Parallel(32):
                    v = T.alloc_var("float32")
                    v = m[i]
                    for r in T.serial(4):
                        if v < best[i, r]:
                            displaced = T.alloc_var("float32")
                            displaced = best[i, r]
                            best[i, r] = v
                            v = displaced
            T.copy(best, Best)

    m, best = torch.randn(20, 32), torch.zeros(32, 4)
    simulate(main, m, best, arch=arch)
    assert torch.equal(best, m.sort(dim=0).values[:4].T)


def test_a_scalar_that_outlives_the_nest_is_computed_by_every_thread():
    @T.prim_func
    def main(A: T.Tensor((32, 64), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            x, m = T.alloc_fragment((32, 64), "float32"), T.alloc_fragment((32,), "float32")
            tile = T.alloc_shared((32,), "float32")
            last = T.alloc_var("float32", init=0.0)
            T.copy(A, x)
            T.clear(tile)
            T.reduce_sum(x, m, dim=1)
            for _ in T.Parallel(1):
                tile[3] = tile[3] + 2
                last = 7.0
            for i in T.Parallel(128):
                B[i] = last + m[i // 4] + tile[3]

    a, b = torch.randn(32, 64), torch.zeros(128)
    simulate(main, a, b)
    torch.testing.assert_close(b, (a.sum(1) + 9).repeat_interleave(4), rtol=1e-4, atol=1e-4)


def test_columns_that_a_run_time_loop_fills_are_summed():
    rounds = T.dynamic("rounds")

    @T.prim_func
    def main(X: T.Tensor((rounds, 32, 40), "float32"), S: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=128):
            x, m = T.alloc_fragment((32, 40), "float32"), T.alloc_fragment((32,), "float32")
            w, s = T.alloc_fragment((32, 6), "float32"), T.alloc_fragment((32,), "float32")
            for r in T.serial(rounds):
                T.copy(X[r, :, :], x)
                T.reduce_max(x, m, dim=1)
                for i in T.Parallel(32):
                    w[i, r] = m[i]
            T.reduce_sum(w, s, dim=1)
            T.copy(s, S)

    x, s = torch.randn(6, 32, 40), torch.zeros(32)
    with tilelang.simulator(checks="all"):
        simulate(main, x, s)
    torch.testing.assert_close(s, x.amax(2).sum(0))
