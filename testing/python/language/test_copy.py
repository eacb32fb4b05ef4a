"""``T.copy`` and its relatives against torch: ragged tiles, every way to write a region, conversions, strides."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tilelang
import tilelang.language as T
from testing.python.target.definition import check_meaning
from tilelang.errors import CompileError, CopyShapeError, OperandError

from .support import name_of, random, run

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.int64, torch.int32,
    torch.int16, torch.int8, torch.uint8, torch.bool,
]  # fmt: skip


def through_tile(M, N, block_M, block_N, dtype, scope="shared"):
    """B = A by way of a tile."""

    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            tile = (T.alloc_shared if scope == "shared" else T.alloc_fragment)((block_M, block_N), dtype)
            T.copy(A[by * block_M, bx * block_N], tile)
            T.copy(tile, B[by * block_M, bx * block_N])

    return main


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.view(torch.uint8), b.view(torch.uint8))


@pytest.mark.parametrize("scope", ["shared", "fragment"])
@pytest.mark.parametrize("dtype", DTYPES, ids=name_of)
def test_every_dtype_ragged(dtype, scope):
    a = random((37, 53), dtype)
    assert same_bits(run(through_tile(37, 53, 16, 32, name_of(dtype), scope), a, out_idx=-1), a)


@pytest.mark.property
@settings(max_examples=25, deadline=None)
@given(st.integers(1, 70), st.integers(1, 70), st.integers(1, 40), st.integers(1, 40))
def test_any_shape_and_tile(M, N, block_M, block_N):
    a = random((M, N), torch.int32)
    assert torch.equal(run(through_tile(M, N, block_M, block_N, "int32"), a, out_idx=-1), a)


def test_out_of_bounds_reads_zero_and_writes_nothing():
    @T.prim_func
    def main(A: T.Tensor((10,), "float32"), tile_out: T.Tensor((16,), "float32"), B: T.Tensor((20,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((16,), "float32")
            T.fill(tile, 7.0)
            T.copy(A[4], tile)
            T.copy(tile, tile_out)
            T.copy(tile, B[12])

    a, b, out = torch.arange(10.0), torch.full((20,), -1.0), torch.empty(16)
    run(main, a, out, b)
    assert out.tolist() == [4, 5, 6, 7, 8, 9, *[0] * 10]
    assert b.tolist() == [*[-1] * 12, 4, 5, 6, 7, 8, 9, 0, 0]


def test_safe_value():
    @T.prim_func
    def main(A: T.Tensor((10,), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((16,), "float32")
            T.annotate_safe_value({A: -3.0})
            T.copy(A[0], tile)
            T.copy(tile, B)

    b = run(main, torch.arange(10.0), out_idx=-1)
    assert b.tolist() == [*range(10), *[-3] * 6]


def test_guarded_element_access():
    @T.prim_func
    def main(A: T.Tensor((10,), "float32"), B: T.Tensor((10,), "float32")):
        with T.Kernel(2, threads=32) as bx:
            for i in T.Parallel(8):
                B[bx * 8 + i] = A[bx * 8 + i + 1] + 1

    b = run(main, torch.arange(10.0), out_idx=-1)
    assert b.tolist() == [*range(2, 11), 1]


def test_between_elements_of_a_parallel_loop_it_is_an_assignment():
    @T.prim_func
    def main(A: T.Tensor((6, 7), "float32"), B: T.Tensor((8, 8), "float16")):
        with T.Kernel(1, threads=32):
            T.annotate_safe_value({A: -99})
            for i, j in T.Parallel(8, 8):
                T.copy(A[i, j], B[i, j])

    a, b = random((6, 7), torch.float32), torch.zeros(8, 8, dtype=torch.float16)
    run(main, a, b)
    assert torch.equal(b, torch.nn.functional.pad(a, (0, 1, 0, 2), value=-99).half())


def test_ways_to_write_a_region():
    @T.prim_func
    def main(A: T.Tensor((4, 8, 16), "int32"), B: T.Tensor((6, 8, 16), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8, 16), "int32")
            row = T.alloc_shared((16,), "int32")
            T.copy(A[0, :, :], tile)
            T.copy(tile, B[0, 0, 0])
            T.copy(A[1, 0:8, 0:16], tile)
            T.copy(tile[0:8, :], B[1, 0:8, 0:16])
            T.copy(A[2], tile)
            T.copy(tile, B[2, ...])
            for i in T.serial(8):
                T.copy(A[3, i, :], row)
                T.copy(row, B[3, i, :])
            B[4, :, :] = A[0, :, :]
            B[5, 0:8, :] = 42

    a = random((4, 8, 16), torch.int32)
    b = run(main, a, out_idx=-1)
    assert torch.equal(b[:4], a) and torch.equal(b[4], a[0]) and (b[5] == 42).all()


def test_axes_of_length_one_are_dropped():
    @T.prim_func
    def main(A: T.Tensor((2, 1, 8), "int32"), B: T.Tensor((8, 2), "int32")):
        with T.Kernel(2, threads=32) as bx:
            tile = T.alloc_shared((8,), "int32")
            T.copy(A[bx, 0, 0:8], tile)
            T.copy(tile, B[0:8, bx])

    a = random((2, 1, 8), torch.int32)
    assert torch.equal(run(main, a, out_idx=-1), a[:, 0].T)


@pytest.mark.parametrize("target", [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.int32], ids=name_of)
def test_conversion(target):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), name_of(target))):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((64,), "float32")
            T.copy(A, tile)
            T.copy(tile, B)

    a = random((64,), torch.float32)
    assert same_bits(run(main, a, out_idx=-1), a.to(target))


def test_transpose():
    @T.prim_func
    def main(A: T.Tensor((12, 20), "float16"), B: T.Tensor((20, 12), "float16")):
        with T.Kernel(1, threads=32):
            tile, turned = T.alloc_shared((12, 20), "float16"), T.alloc_shared((20, 12), "float16")
            T.copy(A, tile)
            T.transpose(tile, turned)
            T.copy(turned, B)

    a = random((12, 20), torch.float16)
    assert torch.equal(run(main, a, out_idx=-1), a.T)


@pytest.mark.parametrize("given", ["part of A", "the tile image"])
def test_im2col_takes_a_whole_tensor(given):
    with pytest.raises(CompileError, match=f"T.c2d_im2col reads a whole tensor, got {given}"):

        @T.prim_func
        def main(A: T.Tensor((2, 5, 6, 4), "float32")):
            with T.Kernel(2, threads=32) as by:
                image, tile = T.alloc_shared((1, 5, 6, 4), "float32"), T.alloc_shared((16, 36), "float32")
                T.copy(A[by, :, :, :], image)
                T.c2d_im2col(image if "tile" in given else A[1:2, :, :, :], tile, by, 0, 3, 1, 1, 1)


def test_async_copy_is_a_copy():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((64,), "float32")
            T.async_copy(A, tile)
            T.copy(tile, B)

    a = random((64,), torch.float32)
    assert torch.equal(run(main, a, out_idx=-1), a)


@pytest.mark.property
@settings(max_examples=15, deadline=None)
@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 7), st.booleans())
def test_strided_tensor(M, N, padding, transposed):
    m, n, s0, s1 = T.dynamic("m, n, s0, s1")

    @T.prim_func
    def main(A: T.StridedTensor((m, n), (s0, s1), "float32"), B: T.Tensor((m, n), "float32")):
        with T.Kernel(T.ceildiv(n, 8), T.ceildiv(m, 8), threads=32) as (bx, by):
            tile = T.alloc_shared((8, 8), "float32")
            T.copy(A[by * 8, bx * 8], tile)
            for i, j in T.Parallel(8, 8):
                B[by * 8 + i, bx * 8 + j] = tile[i, j] + A[by * 8 + i, bx * 8 + j]

    storage = random((N, M + padding) if transposed else (M, N + padding), torch.float32)
    a = storage[:, :M].T if transposed else storage[:, :N]
    out = torch.empty(M, N)
    _strided_kernel(main)(a, out)
    assert torch.equal(out, a + a)


_COMPILED = {}


def _strided_kernel(program):
    """One kernel serves every shape and stride."""
    return _COMPILED.setdefault("strided", tilelang.compile(program, target="cpu"))


def test_im2col_matches_unfold():
    @T.prim_func
    def main(A: T.Tensor((1, 5, 6, 4), "float32"), B: T.Tensor((30, 36), "float32")):
        with T.Kernel(2, threads=32) as by:
            tile = T.alloc_shared((16, 36), "float32")
            T.c2d_im2col(A, tile, by, 0, 3, 1, 1, 1)
            T.copy(tile, B[by * 16, 0])

    a = random((1, 5, 6, 4), torch.float32)
    unfolded = torch.nn.functional.unfold(a.permute(0, 3, 1, 2), 3, padding=1).reshape(4, 9, 30)
    assert torch.equal(run(main, a, out_idx=-1), unfolded.permute(2, 1, 0).reshape(30, 36))


@pytest.mark.parametrize(("columns", "padded"), [(40, 48), (33, 48)])
def test_a_slice_that_ends_with_its_tensor_fits_a_longer_tile(columns, padded):
    """The columns beyond the tensor read as zero, and are not written."""

    @T.prim_func
    def main(
        A: T.Tensor((2, 20, 3, columns), "float16"),
        tiles: T.Tensor((3, 2, 16, padded), "float16"),
        B: T.Tensor((2, 20, 3, columns), "float16"),
    ):
        with T.Kernel(3, 2, threads=64) as (h, b):
            tile = T.alloc_shared((16, padded), "float16")
            part = T.alloc_fragment((16, padded), "float16")
            T.copy(A[b, 4:20, h, :], tile)
            T.copy(tile, tiles[h, b, :, :])
            T.copy(tile, part)
            T.copy(part, B[b, 2:18, h, 0:columns])

    a = random((2, 20, 3, columns), torch.float16)
    tiles, b = check_meaning(main, a, torch.zeros(3, 2, 16, padded).half(), torch.zeros_like(a))[1:]
    assert torch.equal(tiles[..., :columns], a[:, 4:].permute(2, 0, 1, 3)) and (tiles[..., columns:] == 0).all()
    assert torch.equal(b[:, 2:18], a[:, 4:]) and (b[:, :2] == 0).all() and (b[:, 18:] == 0).all()


@pytest.mark.parametrize("rows", [13, 16, None])
def test_a_whole_tensor_fits_a_longer_tile(rows):
    """Also one of run-time size; what is beyond the tensor reads as zero, and is not written."""
    size = T.dynamic("n") if rows is None else rows

    @T.prim_func
    def main(A: T.Tensor((size, 20), "float16"), tiles: T.Tensor((16, 32), "float16"), B: T.Tensor((size, 20), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((16, 32), "float16")
            part = T.alloc_fragment((16, 32), "float32")
            T.copy(A, tile)
            T.copy(tile, tiles)
            T.copy(tile, part)
            T.copy(part, B)

    a = random((rows or 9, 20), torch.float16)
    tiles, b = check_meaning(main, a, torch.ones(16, 32).half(), torch.zeros(a.shape))[1:]
    assert torch.equal(tiles[: len(a), :20], a) and (tiles[len(a) :] == 0).all() and (tiles[:, 20:] == 0).all()
    assert torch.equal(b, a.float())


@pytest.mark.parametrize("last", [39, 41])
def test_a_slice_that_ends_elsewhere_must_agree(last):
    with pytest.raises(CopyShapeError):

        @T.prim_func
        def main(A: T.Tensor((16, 40 if last < 40 else 64), "float16")):
            with T.Kernel(1):
                tile = T.alloc_shared((16, 48), "float16")
                T.copy(A[:, 0:last], tile)


def test_fixed_lengths_beside_a_run_time_one_must_agree():
    n = T.dynamic("n")
    with pytest.raises(CopyShapeError):

        @T.prim_func
        def main(A: T.Tensor((n, 64), "float16")):
            with T.Kernel(1):
                tile = T.alloc_shared((16, 32), "float16")
                T.copy(A[0:n, 0:20], tile)


def test_more_axes_than_the_buffer():
    with pytest.raises(CompileError, match="A has 1 axes, the other side has 2"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                tile = T.alloc_shared((4, 2), "float32")
                T.copy(A[0], tile)


def test_dynamic_extents_must_agree():
    n, m = T.dynamic("n, m")
    with pytest.raises(CopyShapeError, match=r"\(n,\) and the destination is \(m,\)"):

        @T.prim_func
        def main(A: T.Tensor((n,), "float32"), B: T.Tensor((m,), "float32")):
            with T.Kernel(1):
                T.copy(A, B)


def test_copy_of_no_buffer():
    with pytest.raises(CompileError, match="T.copy takes a buffer, a slice or an element of one, got float"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                T.copy(1.0, A)


def test_transpose_exchanges_the_last_two_axes():
    @T.prim_func
    def main(A: T.Tensor((2, 3, 4), "float32"), B: T.Tensor((2, 4, 3), "float32"), C: T.Tensor((4, 3), "float32")):
        with T.Kernel(1, threads=32):
            T.transpose(A, B)
            T.transpose(A[1, :, :], C)

    a = torch.arange(24.0).reshape(2, 3, 4)
    for target in ("cpu", {"kind": "cuda", "arch": "sm_80"}):
        b, c = torch.zeros(2, 4, 3), torch.zeros(4, 3)
        with tilelang.simulator():
            tilelang.compile(main, target=target)(a, b, c)
        assert torch.equal(b, a.transpose(1, 2))
        assert torch.equal(c, a[1].T)


def test_a_tile_is_not_transposed_in_place():
    with pytest.raises(OperandError, match="the destination is the source itself"):

        @T.prim_func
        def main(A: T.Tensor((4, 4), "float32")):
            with T.Kernel(1, threads=32):
                T.transpose(A, A)
