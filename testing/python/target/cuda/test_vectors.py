"""Nests whose stores are collected into vectors: what the body reads is memory, not the vector that is being collected."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate, source


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("scope", ["shared", "global"])
def test_a_condition_around_a_read_of_the_element_that_is_stored(dtype, scope):
    @T.prim_func
    def main(A: T.Tensor((60, 64), dtype), B: T.Tensor((60, 64), dtype)):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), dtype) if scope == "shared" else B
            T.copy(A, tile[0:60, :])
            for i, j in T.Parallel(60 if scope == "shared" else 64, 64):
                tile[i, j] = T.if_then_else(i < j, 0, tile[i, j])
            for i, j in T.Parallel(60, 64):
                tile[i, j] = T.if_then_else(j % 2 == 0, tile[i, j] + A[i, j], tile[i, j])
            if scope == "shared":
                T.copy(tile[0:60, :], B)

    a = torch.randint(-50, 50, (60, 64), generator=torch.Generator().manual_seed(0)).to(getattr(torch, dtype))
    b = torch.zeros_like(a)
    simulate(main, a, b)
    lower = a.float().tril()
    lower[:, ::2] += a.float()[:, ::2]
    assert torch.equal(b.float(), lower)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_places_that_are_loaded_do_not_narrow_vectors(arch):
    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"), table: T.Tensor((4,), "int32"), B: T.Tensor((64, 64), "float16"),
        C: T.Tensor((4, 16, 64), "float16"),
    ):  # fmt: skip
        with T.Kernel(4, threads=128) as bx:
            tile = T.alloc_shared((16, 64), "float16")
            T.copy(A[table[bx], 0], tile)
            T.copy(tile, B[table[3 - bx], 0])
            for i, j in T.Parallel(16, 64):
                C[bx, i, j] = A[table[bx] + i, j]

    a, table = torch.randn(64, 64).half(), torch.tensor([48, 0, 32, 16], dtype=torch.int32)
    b, c = torch.zeros(64, 64).half(), torch.zeros(4, 16, 64).half()
    simulate(main, a, table, b, c, arch=arch)
    tiles = torch.stack([a[row : row + 16] for row in table])
    assert torch.equal(c, tiles) and torch.equal(b.reshape(4, 16, 64)[table.flip(0) // 16], tiles)
    text = source(main, arch)
    assert "half(0)" not in text and "cp_async_16_zfill" in text


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_places_that_a_variable_holds_do_not_narrow_vectors(arch):
    """A variable is a value as any other, unless the nest itself changes it."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"), table: T.Tensor((4,), "int32"), B: T.Tensor((64, 64), "float16"),
        C: T.Tensor((4, 16, 64), "float16"), D: T.Tensor((4, 64), "float16"),
    ):  # fmt: skip
        with T.Kernel(4, threads=128) as bx:
            row = T.alloc_var("int32")
            row = table[bx]
            tile = T.alloc_shared((16, 64), "float16")
            for i, j in T.Parallel(16, 64):
                tile[i, j] = A[row + i, j]
            for i, j in T.Parallel(16, 64):
                C[bx, i, j] = tile[i, j]
            row = table[3 - bx]
            for i, j in T.Parallel(16, 64):
                B[row + i, j] = tile[i, j]
            for j in T.Parallel(64):
                row = table[j % 4]
                D[bx, j] = A[row, j]

    a, table = torch.randn(64, 64).half(), torch.tensor([48, 0, 32, 16], dtype=torch.int32)
    b, c, d = torch.zeros(64, 64).half(), torch.zeros(4, 16, 64).half(), torch.zeros(4, 64).half()
    simulate(main, a, table, b, c, d, arch=arch)
    tiles = torch.stack([a[row : row + 16] for row in table])
    assert torch.equal(c, tiles) and torch.equal(b.reshape(4, 16, 64)[table.flip(0) // 16], tiles)
    assert torch.equal(d[0], a[table[torch.arange(64) % 4], torch.arange(64)])
    text = source(main, arch)
    assert "reinterpret_cast<uint4*>(B" in text and "reinterpret_cast<uint4*>(D" not in text


def _guarded(width, guarded):
    n = T.dynamic("n")

    @T.prim_func
    def main(X: T.Tensor((n, width), "float16"), Y: T.Tensor((n, width), "float16")):
        with T.Kernel(T.ceildiv(n, 32), T.ceildiv(width, 64), threads=64) as (bi, bj):
            x = T.alloc_fragment((32, 64), "float16")
            T.copy(X[bi * 32, bj * 64], x)
            for ti, tj in T.Parallel(32, 64):
                i, j = bi * 32 + ti, bj * 64 + tj
                if guarded(i, j, n):
                    Y[i, j] = x[ti, tj] + 1

    return main


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    ("guarded", "taken", "whole"),
    [
        (lambda i, j, n: T.And(i < n, j < 128), lambda i, j: i < 40, True),
        (lambda i, j, n: T.And(i % 3 == 0, j >= 8), lambda i, j: (i % 3 == 0) & (j >= 8), True),
        (lambda i, j, n: T.And(n > i, j >= 16), lambda i, j: j >= 16, True),
        (lambda i, j, n: j >= 4, lambda i, j: j >= 4, False),
        (lambda i, j, n: j % 3 == 0, lambda i, j: j % 3 == 0, False),
    ],
)
def test_a_condition_that_is_uniform_over_a_vector_is_hoisted_around_it(guarded, taken, whole, arch):
    x = torch.arange(40 * 128).reshape(40, 128).remainder(7).half()
    y = torch.zeros_like(x)
    simulate(_guarded(128, guarded), x, y, arch=arch)
    chosen = taken(torch.arange(40)[:, None], torch.arange(128)).expand(40, 128)
    assert torch.equal(y, torch.where(chosen, x + 1, 0))
    assert ("uint4*>(Y" in source(_guarded(128, guarded), arch)) == whole


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    ("count", "offset", "dtype", "moved"),
    [(8, 0, "float16", "uint4"), (16, 0, "int8", "uint4"), (8, 2, "float16", "uint"), (5, 1, "float32", None)],
)
def test_a_vectorised_loop_of_a_thread_moves_vectors(count, offset, dtype, moved, arch):
    @T.prim_func
    def main(X: T.Tensor((64, 32), dtype), Y: T.Tensor((64, 32), dtype)):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            own = T.alloc_local((count + offset,), dtype)
            for j in T.vectorized(count):
                own[j + offset] = X[tx, j + offset]
            for j in T.vectorized(count):
                Y[tx, j] = own[j + offset]

    x = torch.arange(64 * 32).reshape(64, 32).remainder(7).to(getattr(torch, dtype))
    y = torch.zeros_like(x)
    simulate(main, x, y, arch=arch)
    assert torch.equal(y[:, :count], x[:, offset : offset + count]) and not y[:, count:].any()
    text = source(main, arch)
    assert "reinterpret_cast" not in text if moved is None else f"const {moved}*>(X" in text


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint4"])
@pytest.mark.parametrize("loop", [T.serial, T.unroll])
def test_an_element_that_a_loop_updates_is_read_again(dtype, loop):
    """The read before the loop may be a vector's; those in the loop follow its stores."""

    @T.prim_func
    def main(A: T.Tensor((16, 32), dtype), B: T.Tensor((16, 32), dtype), C: T.Tensor((16, 32), dtype)):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((16, 32), dtype)
            T.copy(A, tile)
            for i, j in T.Parallel(16, 32):
                B[i, j] = tile[i, j]
                for _ in loop(2):
                    tile[i, j] = T.cast(T.cast(tile[i, j], "int32") * 2 + 1, dtype)
            T.copy(tile, C)

    shape = (16, 16) if dtype == "uint4" else (16, 32)
    stored = torch.int8 if dtype == "uint4" else getattr(torch, dtype)
    a = torch.randint(0, 4, shape, generator=torch.Generator().manual_seed(0)).to(stored)
    if dtype == "uint4":
        a = a * 17  # both elements of a byte
    b, c = torch.zeros_like(a), torch.zeros_like(a)
    simulate(main, a, b, c)

    def digits(tensor):
        return torch.stack([tensor % 16, tensor // 16 % 16]).int() if dtype == "uint4" else tensor.int()

    assert torch.equal(b, a) and torch.equal(digits(c), digits(a) * 4 + 3 if dtype != "uint4" else (digits(a) * 4 + 3) % 16)


def test_a_vectorised_loop_of_a_thread_over_a_fragment_moves_elements():
    """Vectors of two would end beyond the three elements, and begin where none is aligned."""

    @T.prim_func
    def main(A: T.Tensor((3,), "float32"), B: T.Tensor((96,), "float32")):
        with T.Kernel(1, threads=32):
            tx, tile = T.get_thread_binding(0), T.alloc_fragment((3,), "float32")
            for j in T.serial(3):
                tile[j] = A[j]
            for j in T.vectorized(3):
                B[tx * 3 + j] = tile[j]

    a, b = torch.arange(3.0), torch.zeros(96)
    simulate(main, a, b)
    assert torch.equal(b, a.repeat(32))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_vectors_lie_along_the_axis_of_stride_one(arch):
    n = T.dynamic("n")

    @T.prim_func
    def main(
        A: T.StridedTensor((64, n), (1, 64), "float32"), B: T.StridedTensor((64, n), (1, 64), "float32"),
        C: T.StridedTensor((62, n), (1, 64), "float32"), D: T.StridedTensor((64, n), (1, 66), "float32"),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(n, 128), threads=128) as bx:
            tile = T.alloc_fragment((64, 128), "float32")
            column = bx * 128 + T.get_thread_binding(0)
            for row in T.vectorized(64):
                B[row, column] = A[row, column]
            T.copy(A[0, bx * 128], tile)
            for i, j in T.Parallel(64, 128):
                tile[i, j] += 1
            T.copy(tile, C[0, bx * 128])  # 16 bytes would leave the columns
            T.copy(tile, D[0, bx * 128])  # columns begin at multiples of 8 bytes

    def by_columns(rows, step):
        return torch.zeros(200 * step + 64).as_strided((rows, 200), (1, step))

    a, b, c, d = by_columns(64, 64), by_columns(64, 64), by_columns(62, 64), by_columns(64, 66)
    a.copy_(torch.randn(64, 200))
    simulate(main, a, b, c, d, arch=arch)
    assert torch.equal(b, a) and torch.equal(c, a[:62] + 1)
    assert torch.equal(d, a + 1)
    text = source(main, arch)
    assert text.count("uint4") == 6 and text.count("uint2") == 4, text  # zeros beyond the edge count, too


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_several_axes_of_stride_one_and_a_size_of_the_call(arch):
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n, 1), "float32"), B: T.Tensor((n, 1), "float32")):
        with T.Kernel(T.ceildiv(n, 128), threads=128) as bx:
            tile = T.alloc_shared((128, 1), "float32")
            T.copy(A[bx * 128, 0], tile)
            T.copy(tile, B[bx * 128, 0])

    a, b = torch.randn(150, 1), torch.zeros(150, 1)
    simulate(main, a, b, arch=arch)
    assert torch.equal(a, b)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_lanes_of_a_parallel_loop_are_an_axis_of_it(arch):
    """The halves of a product's elements stay in the registers of the threads that hold the product."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            product, half = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64, 64), "uint16")
            T.copy(A, a)
            T.gemm(a, a, product, clear_accum=True)
            for i, j in T.Parallel(64, 64):
                half[i, j] = T.reinterpret(product[i, j], dtype="uint32") >> 16
            for i, j in T.Parallel(64, 32):
                for lane in T.vectorized(2):
                    b[i, j * 2 + lane] = T.reinterpret(half[i, j * 2 + lane], dtype="float16")
            for i, j in T.Parallel(64, 32):
                for lane in T.vectorized(2):
                    half[i, j * 2 + lane] = T.reinterpret(b[j * 2 + lane, i], dtype="uint16")
            for i, j in T.Parallel(64, 64):
                product[i, j] = T.reinterpret(T.cast(half[i, j], "uint32") << 16, dtype="float32")
            T.copy(product, B)

    a, b = torch.randn(64, 64, generator=torch.Generator().manual_seed(0)).half(), torch.zeros(64, 64)
    simulate(main, a, b, arch=arch)
    product = a.float() @ a.float()
    assert torch.equal(b, (product.view(torch.int32) >> 16 << 16).view(torch.float32).T)
    text = source(main, arch)
    assert "half_shared" not in text and "uint*>(b" in text


@pytest.mark.parametrize("case", ["neighbour", "view", "sum", "overlap"])
def test_lanes_that_need_each_other_run_in_order(case):
    @T.prim_func
    def main(A: T.Tensor((32, 8), "float32"), B: T.Tensor((32, 8), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((32, 8), "float32")
            other = T.view(tile, (256,))
            T.copy(A, tile)
            for i in T.Parallel(32):
                for lane in T.vectorized(8):
                    if case == "neighbour":
                        tile[i, lane] = tile[i, T.max(lane - 1, 0)] + 1
                    elif case == "view":
                        tile[i, lane] = other[i * 8 + T.max(lane - 1, 0)] + 1
                    elif case == "sum":
                        tile[i, 0] = tile[i, 0] + A[i, lane]
                    else:
                        tile[i, lane // 2] = A[i, lane]
            T.copy(tile, B)

    a, b = torch.arange(256.0).reshape(32, 8), torch.zeros(32, 8)
    simulate(main, a, b)
    expected = a.clone()
    if case in ("neighbour", "view"):
        expected = a[:, :1] + torch.arange(1.0, 9.0)
    elif case == "sum":
        expected[:, 0] += a.sum(1)
    else:
        expected[:, :4] = a[:, 1::2]
    assert torch.equal(b, expected)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_vectors_do_not_straddle_the_end_of_a_row_in_registers(arch):
    """Each thread has twelve elements of a row, and a fragment of six that are used twice: a vector of four has parts of both."""

    @T.prim_func
    def main(A: T.Tensor((32, 6), "int32"), C: T.Tensor((32, 12), "int32")):
        with T.Kernel(1, threads=32):
            half, whole = T.alloc_fragment((32, 6), "int32"), T.alloc_fragment((32, 12), "int32")
            T.annotate_layout({whole: T.Fragment((32, 12), forward_thread_fn=lambda i, j: i)})
            T.fill(whole, 3)
            T.copy(A, half)
            for i, j in T.Parallel(32, 12):
                C[i, j] = half[i, j % 6] + whole[i, j]

    a, c = torch.arange(192).view(32, 6).int(), torch.zeros(32, 12).int()
    simulate(main, a, c, arch=arch)
    assert torch.equal(c, torch.cat([a, a], 1) + 3)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("group", "bits"), [(8, 128), (12, 64), (6, 32), (5, 16)])
def test_an_element_for_a_whole_vector_does_not_narrow_it(group, bits, arch):
    """Scales of groups of columns, in a type of which a vector has fewer elements."""

    @T.prim_func
    def main(A: T.Tensor((16, 480), "float16"), S: T.Tensor((16, 96), "float32"), B: T.Tensor((16, 480), "float16")):
        with T.Kernel(2, threads=32) as bx:
            for i, j in T.Parallel(16, 240):
                if (bx * 240 + j) // group % 3 != 1:
                    B[i, bx * 240 + j] = A[i, bx * 240 + j] * S[i, (bx * 240 + j) // group]

    a, s = torch.randint(-9, 9, (16, 480)).half(), torch.randint(-9, 9, (16, 96)).float()
    b = torch.zeros_like(a)
    simulate(main, a, s, b, arch=arch)
    groups = torch.arange(480) // group
    assert torch.equal(b, torch.where(groups % 3 != 1, (a * s[:, groups]).half(), 0))
    vector = {128: "uint4", 64: "uint2", 32: "uint", 16: None}[bits]
    text = source(main, arch)
    moved = [name for name in ("uint4", "uint2", "uint") if f"reinterpret_cast<{name}*>(B" in text]
    assert moved == [vector] * (vector is not None)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_product_that_wraps_around_is_no_multiple_of_its_factor(arch):
    @T.prim_func
    def main(A: T.Tensor((16, 512), "float16"), U: T.Tensor((16,), "uint8"), B: T.Tensor((16, 64), "float16")):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(16, 64):
                B[i, j] = A[i, (U[i] * T.uint8(6)) // T.uint8(3) + j]

    a, u, b = torch.randn(16, 512).half(), torch.arange(80, 96).to(torch.uint8), torch.zeros(16, 64).half()
    simulate(main, a, u, b, arch=arch)
    first = u.int() * 6 % 256 // 3
    assert torch.equal(b, torch.stack([a[row, start : start + 64] for row, start in enumerate(first)]))
