"""Smallest programs whose fragments are used in ways that one distribution over the threads does not suit."""

from __future__ import annotations

import itertools
import re

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import cuda, simulate, source
from tilelang import interpreter
from tilelang.execution.simulated import last_reports
from tilelang.target.cuda.inference import search

ARCHES = ("sm_80", "sm_90a")


def _numbers(*shape, seed=0):
    """Small whole numbers, of which sums are exact."""
    return torch.randint(-3, 4, shape, generator=torch.Generator().manual_seed(seed)).float()


@pytest.mark.parametrize("arch", ARCHES)
def test_one_row_of_a_fragment(arch):
    @T.prim_func
    def main(X: T.Tensor((4, 256), "float32"), Y: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=128):
            x, y = T.alloc_fragment((4, 256), "float32"), T.alloc_fragment((256,), "float32")
            T.copy(X, x)
            for j in T.Parallel(256):
                y[j] = x[3, j] * 2
            T.copy(y, Y)

    x, y = _numbers(4, 256), torch.zeros(256)
    simulate(main, x, y, arch=arch)
    assert torch.equal(y, x[3] * 2)


@pytest.mark.parametrize("arch", ARCHES)
def test_a_diagonal_in_a_loop_that_another_tile_distributes(arch):
    """The loop has ``i`` as one digit of the thread's number, and ``a[i, i]`` needs it as two."""

    @T.prim_func
    def main(
        A: T.Tensor((2, 2), "float32"),
        B: T.Tensor((4, 4), "float32"),
        bias: T.Tensor((1,), "float32"),
        Y: T.Tensor((2, 4), "float32"),
    ):
        with T.Kernel(1, threads=32):
            a, b, y = (
                T.alloc_fragment((2, 2), "float32"),
                T.alloc_fragment((4, 4), "float32"),
                T.alloc_fragment((2, 4), "float32"),
            )
            T.copy(A, a)
            T.copy(B, b)
            for i, j in T.Parallel(2, 4):
                y[i, j] = a[i, i] * b[0, i] + bias[0]
            T.copy(y, Y)

    a, b, bias, y = _numbers(2, 2), _numbers(4, 4, seed=1), _numbers(1, seed=2), torch.zeros(2, 4)
    simulate(main, a, b, bias, y, arch=arch)
    assert torch.equal(y, (a.diagonal() * b[0, :2] + bias)[:, None].expand(2, 4))


@pytest.mark.parametrize("arch", ARCHES)
def test_rows_that_a_serial_loop_names(arch):
    @T.prim_func
    def main(X: T.Tensor((4, 256), "float32"), M: T.Tensor((4,), "float32"), Y: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=128):
            m, x = T.alloc_fragment((4,), "float32"), T.alloc_fragment((4, 256), "float32")
            y = T.alloc_fragment((256,), "float32")
            T.copy(M, m)
            T.copy(X, x)
            T.clear(y)
            for i in T.serial(4):
                for j in T.Parallel(256):
                    y[j] += m[i] * x[i, j]
            T.copy(y, Y)

    x, m, y = _numbers(4, 256), _numbers(4, seed=1), torch.zeros(256)
    simulate(main, x, m, y, arch=arch)
    assert torch.equal(y, m @ x)


@pytest.mark.parametrize("arch", ARCHES)
def test_rows_that_two_serial_loops_name(arch):
    @T.prim_func
    def main(A: T.Tensor((4, 4), "float32"), X: T.Tensor((4, 256), "float32"), Y: T.Tensor((4, 256), "float32")):
        with T.Kernel(1, threads=128):
            a, x = T.alloc_fragment((4, 4), "float32"), T.alloc_fragment((4, 256), "float32")
            y = T.alloc_fragment((4, 256), "float32")
            T.copy(A, a)
            T.copy(X, x)
            T.clear(y)
            for i in T.serial(4):
                for o in T.serial(4):
                    for j in T.Parallel(256):
                        y[i, j] += a[i, o] * x[o, j]
            T.copy(y, Y)

    a, x, y = _numbers(4, 4), _numbers(4, 256, seed=1), torch.zeros(4, 256)
    simulate(main, a, x, y, arch=arch)
    assert torch.equal(y, a @ x)
    text = source(main, arch)
    assert "pool" not in text and "__shfl" not in text  # every thread holds the rows that it needs, and all of ``a``


def test_a_matrix_too_large_for_every_thread_is_shared_before_the_loops():
    @T.prim_func
    def main(A: T.Tensor((32, 32), "float32"), X: T.Tensor((32, 256), "float32"), Y: T.Tensor((32, 256), "float32")):
        with T.Kernel(1, threads=128):
            a, x = T.alloc_fragment((32, 32), "float32"), T.alloc_fragment((32, 256), "float32")
            y = T.alloc_fragment((32, 256), "float32")
            T.copy(A, a)
            T.copy(X, x)
            T.clear(y)
            for i in T.serial(32):
                for o in T.serial(32):
                    for j in T.Parallel(256):
                        y[i, j] += a[i, o] * x[o, j]
            T.copy(y, Y)

    a, x, y = _numbers(32, 32), _numbers(32, 256, seed=1), torch.zeros(32, 256)
    simulate(main, a, x, y)
    assert torch.equal(y, a @ x)
    before, _, loops = source(main).partition("for (int i = 0;")
    assert before.count("_shared + ") == 1 and loops.count("_shared") == loops.count("_shared[") == 1


@pytest.mark.parametrize("arch", ARCHES)
def test_an_element_that_all_threads_need_is_not_stored_by_its_owner_only(arch):
    @T.prim_func
    def main(A: T.Tensor((24, 33), "float32"), Y: T.Tensor((128, 32), "float32")):
        with T.Kernel(1, threads=128):
            held, tile = T.alloc_fragment((24, 33), "float32"), T.alloc_shared((128, 32), "float32")
            T.copy(A, held)
            for i, j in T.Parallel(128, 32):
                tile[i, j] = held[19, 3]
            T.copy(tile, Y)

    a, y = _numbers(24, 33), torch.zeros(128, 32)
    with tilelang.simulator(strict=True, counters=True):
        tilelang.compile(main, target=cuda(arch))(a, y)
    assert torch.equal(y, a[19, 3].expand(128, 32))
    assert last_reports()[0].counters.total["requests"] < 200  # its holder alone makes 1024 and more


@pytest.mark.parametrize("arch", ARCHES)
def test_a_tile_whose_rows_go_to_an_operand_has_no_bank_conflict(arch):
    @T.prim_func
    def main(X: T.Tensor((32, 64), "bfloat16"), W: T.Tensor((32, 64), "float32"), C: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=128):
            x, w = T.alloc_shared((32, 64), "bfloat16"), T.alloc_shared((32, 64), "float32")
            half, wide = T.alloc_fragment((32, 64), "bfloat16"), T.alloc_fragment((32, 64), "float32")
            acc = T.alloc_fragment((32, 32), "float32")
            T.copy(X, x)
            T.copy(W, w)
            T.copy(x, half)
            T.copy(half, wide)
            T.gemm(wide, w, acc, transpose_B=True, clear_accum=True)
            T.copy(acc, C)

    x, w, c = _numbers(32, 64).bfloat16(), _numbers(32, 64, seed=1), torch.zeros(32, 32)
    with tilelang.simulator(strict=True, counters=True):
        tilelang.compile(main, target=cuda(arch))(x, w, c)
    assert torch.equal(c, x.float() @ w.T)
    assert last_reports()[0].counters.total["bank_conflicts"] == 0


@pytest.mark.parametrize("arch", ARCHES)
def test_a_condition_chooses_the_iteration_that_writes(arch):
    """Each element of ``y`` is written by one iteration of four, in one of the groups of threads that hold a copy of it."""

    @T.prim_func
    def main(X: T.Tensor((4, 256), "float32"), Y: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=128):
            x, y = T.alloc_fragment((4, 256), "float32"), T.alloc_fragment((256,), "float32")
            T.copy(X, x)
            for i, j in T.Parallel(4, 256):
                if i == j % 4:
                    y[j] = x[i, j]
            T.copy(y, Y)

    x, y = _numbers(4, 256), torch.zeros(256)
    simulate(main, x, y, arch=arch)
    assert torch.equal(y, x[torch.arange(256) % 4, torch.arange(256)])


@pytest.mark.parametrize("arch", ARCHES)
def test_a_view_of_a_padded_fragment(arch):
    """Forty elements over 32 threads: the fragment's first axis is padded, and so is its view's."""

    @T.prim_func
    def main(Y: T.Tensor((5, 4, 2), "float32")):
        with T.Kernel(1, threads=32):
            f = T.alloc_fragment((5, 4, 2), "float32")
            v = T.reshape(f, (5, 8))
            T.fill(f, 1)
            for _ in T.Parallel(1):
                v[0, 0] = 0
            T.copy(f, Y)

    y = torch.zeros(5, 4, 2)
    simulate(main, y, arch=arch)
    assert y.sum() == 39 and y[0, 0, 0] == 0


@pytest.mark.parametrize("arch", ARCHES)
def test_an_axis_of_one_iteration(arch):
    @T.prim_func
    def main(Y: T.Tensor((2, 2), "float32")):
        with T.Kernel(1, threads=32):
            f = T.alloc_fragment((2, 2), "float32")
            T.fill(f, 1)
            for j, i in T.Parallel(2, 1):
                b = f[j, i]
                f[j, i] = b + 1
            T.copy(f, Y)

    y = torch.zeros(2, 2)
    simulate(main, y, arch=arch)
    assert y.tolist() == [[2, 1], [2, 1]]


@pytest.mark.parametrize("arch", ARCHES)
def test_two_products_that_one_element_a_thread_sums(arch):
    @T.prim_func
    def main(A: T.Tensor((16, 16), "float32"), Y: T.Tensor((16, 3), "float32")):
        with T.Kernel(1, threads=64):
            a, b = T.alloc_shared((16, 16), "float32"), T.alloc_shared((16, 3), "float32")
            c = T.alloc_fragment((16, 3), "float32")
            T.copy(A, a)
            T.fill(b, 1)
            T.clear(c)
            T.gemm(a, b, c)
            T.gemm(a, b, c)
            T.copy(c, Y)

    y = torch.zeros(16, 3)
    simulate(main, torch.ones(16, 16), y, arch=arch)
    assert (y == 32).all()


@pytest.mark.parametrize("arch", ARCHES)
def test_an_element_of_a_fragment_ends_a_loop(arch):
    @T.prim_func
    def main(X: T.Tensor((8,), "int32"), Y: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            f = T.alloc_fragment((8,), "int32")
            T.copy(X, f)
            count = T.alloc_var("int32", init=0)
            while count < 5 and f[3] < 4:
                count = count + 1
                for i in T.Parallel(8):
                    f[i] = f[i] + 1
            T.copy(f, Y)

    x, y = torch.arange(8, dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    simulate(main, x, y, arch=arch)
    assert torch.equal(y, x + 1)


@pytest.mark.parametrize("arch", ARCHES)
def test_elements_that_share_a_byte_are_stored_by_one_thread(arch):
    """More threads than elements of four bits: one that stored half a byte would need what nothing has written yet."""

    @T.prim_func
    def main(Y: T.Tensor((4, 16), "float32")):
        with T.Kernel(1, threads=256):
            s = T.alloc_shared((4, 16), "float4_e2m1fn")
            T.fill(s, 2)
            T.copy(s, Y)

    y = torch.zeros(4, 16)
    simulate(main, y, arch=arch)
    assert (y == 2).all() and "atomic" not in source(main, arch)


def _limit_solves(monkeypatch, most):
    """From here on, one solve more than so many fails."""
    left, solve = itertools.count(most, -1), search.solve

    def counted(*arguments):
        assert next(left) > 0, f"more than {most} solves"
        return solve(*arguments)

    monkeypatch.setattr(search, "solve", counted)


@pytest.mark.parametrize("arch", ARCHES)
def test_a_replicated_copy_is_not_copied_again(arch, monkeypatch):
    """A copy for the reduction that every thread holds whole suits the statements around it, but not the reduction itself."""

    @T.prim_func
    def main(X: T.Tensor((2, 2), "float32"), Y: T.Tensor((5,), "float32")):
        with T.Kernel(1, threads=32):
            s, f = T.alloc_shared((2, 2), "float32"), T.alloc_fragment((5,), "float32")
            T.copy(X, s)
            T.clear(f)
            for _ in T.serial(30):
                T.reduce_sum(s, f[1:3], dim=0, clear=False)
            T.copy(f, Y)

    _limit_solves(monkeypatch, 60)
    x, y, right = _numbers(2, 2), torch.zeros(5), torch.zeros(5)
    simulate(main, x, y, arch=arch)
    assert interpreter.run(main, x, right) == []
    assert torch.equal(y, right) and y.tolist() == [0, *(30 * x.sum(0)).tolist(), 0, 0]


@pytest.mark.parametrize("arch", ARCHES)
def test_a_slice_is_reduced_beside_a_fragment_that_is_converted_through_memory(arch, monkeypatch):
    G = T.dynamic("G")

    @T.prim_func
    def main(M: T.Tensor((G, 5), "float32"), Y: T.Tensor((5,), "float32")):
        with T.Kernel(1, threads=32) as bx:
            f, g = T.alloc_fragment((5,), "float32"), T.alloc_fragment((5,), "float32")
            s = T.alloc_shared((2, 2), "float32")
            T.fill(f, -3)
            T.fill(s, 2)
            T.clear(g)
            for _ in T.serial(G):
                T.copy(f, M[bx, 0])
                for i in T.Parallel(5):
                    f[i] = M[bx, i] - 1
                T.reduce_sum(s, g[1:3], dim=0, clear=False)
            T.copy(g, Y)

    _limit_solves(monkeypatch, 60)
    found, right = ((torch.zeros(3, 5), torch.zeros(5)) for _ in range(2))
    simulate(main, *found, arch=arch)
    assert interpreter.run(main, *right) == []
    assert torch.equal(found[0], right[0]) and torch.equal(found[1], right[1])
    assert found[0][0].tolist() == [-5] * 5 and found[1].tolist() == [0, 12, 12, 0, 0]


@pytest.mark.parametrize("apart", [True, False], ids=["apart", "neighbours"])
def test_nests_beside_a_product_share_one_conversion_or_need_none(monkeypatch, apart):
    """What sixteen nests, one after the other, need in other threads than the product is converted once for all of them.

    Neighbours of four columns are whole digits of the product's layout, and stay where they are.
    """

    @T.prim_func
    def main(
        X: T.Tensor((64, 256), "bfloat16"),
        W: T.Tensor((32, 256), "float32"),
        C: T.Tensor((64, 32), "float32"),
        S: T.Tensor((64,), "float32"),
    ):
        with T.Kernel(2, threads=128) as b:
            half, wide = T.alloc_fragment((32, 64), "bfloat16"), T.alloc_fragment((32, 64), "float32")
            x, w = T.alloc_shared((32, 64), "bfloat16"), T.alloc_shared((32, 64), "float32")
            acc, part = T.alloc_fragment((32, 32), "float32"), T.alloc_fragment((32, 4), "float32")
            total = T.alloc_fragment((32,), "float32")
            T.clear(acc)
            T.clear(part)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(X[b * 32, k * 64], x)
                T.copy(W[0, k * 64], w)
                T.copy(x, half)
                T.copy(half, wide)
                for g in T.serial(16):
                    for i, j in T.Parallel(32, 4):
                        column = j * 16 + g if apart else g * 4 + j
                        part[i, j] += wide[i, column] * wide[i, column]
                T.gemm(wide, w, acc, transpose_B=True)
            T.reduce_sum(part, total)
            T.copy(total, S[b * 32])
            T.copy(acc, C[b * 32, 0])

    x, w = _numbers(64, 256).bfloat16(), _numbers(32, 256, seed=1)
    c, s = torch.zeros(64, 32), torch.zeros(64)
    simulate(main, x, w, c, s)
    assert torch.equal(c, x.float() @ w.T) and torch.equal(s, (x.float() ** 2).sum(1))
    _limit_solves(monkeypatch, 8)
    text = source(main)
    assert ("wide_converted" in text) == apart and not re.search("wide_converted_\\d|wide_shared", text)


@pytest.mark.parametrize("arch", ARCHES)
def test_an_index_of_eight_bits_wraps(arch):
    """From ``i = 32`` on ``4 * i`` is negative in int8: the elements are those of ``x`` in another order, each once."""

    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            x, y = T.alloc_fragment((64,), "float32"), T.alloc_fragment((64,), "float32")
            T.copy(X, x)
            for i in T.Parallel(64):
                y[i] = x[T.cast(T.cast(i * 4, "int8"), "int32") // 4 + 32]
            T.copy(y, Y)

    x, y = _numbers(64), torch.zeros(64)
    simulate(main, x, y, arch=arch)
    assert torch.equal(y, torch.cat([x[32:], x[:32]]))


@pytest.mark.parametrize("arch", ARCHES)
def test_a_tile_of_narrow_elements_is_widened_in_vectors(arch):
    """The scale of a group keeps the loop from vectors of its own; the copies on both sides of it decide."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 128), "float16"), B: T.Tensor((64, 64), "uint8"), S: T.Tensor((64, 4), "float16"),
        C: T.Tensor((64, 64), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            a, packed = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 32), "uint8")
            bytes_, wide = T.alloc_fragment((64, 32), "uint8"), T.alloc_fragment((64, 64), "float16")
            b, c = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(B[0, k * 32], packed)
                T.copy(packed, bytes_)
                for i, j in T.Parallel(64, 64):
                    half = T.cast((bytes_[i, j // 2] >> (j % 2 * 4)) & 15, "float16")
                    wide[i, j] = (half - 8) * S[i, (k * 64 + j) // 32]
                T.copy(wide, b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C)

    text = source(main, arch)
    assert re.search(r"<uint4\*>\(b \+ .* = .*<const uint4\*>\(wide", text)
    assert re.search(r"<uint\*>\(bytes_.* = .*<const uint\*>\(packed", text)
    a, b = torch.randint(-2, 3, (64, 128)).half(), torch.randint(0, 256, (64, 64), dtype=torch.uint8)
    s, c = torch.randint(1, 3, (64, 4)).half(), torch.zeros(64, 64)
    simulate(main, a, b, s, c, arch=arch)
    halves = torch.stack([b & 15, b >> 4], -1).view(64, 128).double() - 8
    assert torch.equal(c.double(), a.double() @ (halves * s.double().repeat_interleave(32, 1)).T)
