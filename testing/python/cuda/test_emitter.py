"""Products of tensor cores that programs write themselves: emitters, and T.ptx_mma in both orders of its arguments."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate
from tilelang import interpreter
from tilelang.cuda.intrinsics import (
    TensorCoreIntrinEmitter,
    TensorCoreIntrinEmitterWithLadderTransform,
    TransformKind,
    make_mma_swizzle_layout,
    maps,
)
from tilelang.cuda.intrinsics.maps import _held, mma_store_index_map, operand_element
from tilelang.errors import CompileError

M, N, K = 64, 64, 64


def product(emitter: TensorCoreIntrinEmitter):
    """C = A B by an emitter of 2 x 2 warps, from swizzled shared tiles."""
    e, kind, accumulator = emitter, emitter.a_dtype, emitter.accum_dtype
    rows, columns = 2 * e.warp_row_tiles, 2 * e.warp_col_tiles
    a_tile = (e.chunk, rows) if e.a_transposed else (rows, e.chunk)
    b_tile = (columns, e.chunk) if e.b_transposed else (e.chunk, columns)

    @T.prim_func
    def main(
        A: T.Tensor((K, M) if e.a_transposed else (M, K), kind),
        B: T.Tensor((N, K) if e.b_transposed else (K, N), kind),
        C: T.Tensor((M, N), accumulator),
    ):
        with T.Kernel(N // columns, M // rows, threads=e.threads) as (bx, by):
            a, b = T.alloc_shared(a_tile, kind), T.alloc_shared(b_tile, kind)
            x = T.alloc_local((e.warp_rows * e.local_size_a,), kind)
            y = T.alloc_local((e.warp_cols * e.local_size_b,), kind)
            c = T.alloc_local((e.warp_rows * e.warp_cols * e.local_size_out,), accumulator)
            T.annotate_layout({a: make_mma_swizzle_layout(a), b: make_mma_swizzle_layout(b)})
            T.clear(c)
            for ko in T.Pipelined(K // e.chunk, num_stages=2):
                if e.a_transposed:
                    T.copy(A[ko * e.chunk, by * rows], a)
                else:
                    T.copy(A[by * rows, ko * e.chunk], a)
                if e.b_transposed:
                    T.copy(B[bx * columns, ko * e.chunk], b)
                else:
                    T.copy(B[ko * e.chunk, bx * columns], b)
                for ki in T.serial(e.chunk // e.micro_size_k):
                    e.ldmatrix_a(x, a, ki)
                    e.ldmatrix_b(y, b, ki)
                    e.mma(x, y, c)
            e.stmatrix(c, C, by, bx)

    return main


@pytest.mark.parametrize(
    ("kind", "accumulator", "a_transposed", "b_transposed", "columns", "n_first"),
    [
        ("float16", "float32", False, True, 32, False),
        ("float16", "float16", True, False, 32, True),
        ("bfloat16", "float32", False, False, 8, False),
        ("float32", "float32", False, True, 16, False),
        ("int8", "int32", True, False, 16, False),
        ("float64", "float64", False, True, 32, True),
    ],
)
def test_an_emitter_multiplies(kind, accumulator, a_transposed, b_transposed, columns, n_first):
    emitter = TensorCoreIntrinEmitter(
        kind,
        kind,
        accumulator,
        a_transposed,
        b_transposed,
        warp_row_tiles=32,
        warp_col_tiles=columns,
        chunk=32,
        is_m_first=n_first,
    )
    torch.manual_seed(0)
    a, b = (torch.randint(-3, 4, shape).to(getattr(torch, kind)) for shape in ((M, K), (K, N)))
    c = torch.zeros(M, N, dtype=getattr(torch, accumulator))
    simulate(product(emitter), a.T.contiguous() if a_transposed else a, b.T.contiguous() if b_transposed else b, c)
    assert torch.equal(c.double(), a.double() @ b.double())


def test_sizes_that_instructions_do_not_divide_are_an_error():
    with pytest.raises(CompileError, match="warp_row_tiles=8 is no multiple of 16"):
        TensorCoreIntrinEmitter(warp_row_tiles=8)


def by_lanes(matrix, tiles):
    """Tiles of 16 x 16, each with a lane's eight elements after those of the lane before, by the figures of the PTX ISA."""
    places = [operand_element(matrix, 2, lane, register) for lane in range(32) for register in range(8)]
    rows, steps = tiles.shape[0] // 16, tiles.shape[1] // 16
    blocks = tiles.reshape(rows, 16, steps, 16).permute(0, 2, 1, 3)
    return torch.stack([blocks[..., side, k] for side, k in places], dim=-1).reshape(rows, steps, 16, 16)


def test_operands_that_lie_in_the_order_of_lanes():
    kind = TransformKind.LDMatrixTransform
    e = TensorCoreIntrinEmitterWithLadderTransform(
        accum_dtype="float32", b_transposed=True, warp_row_tiles=16, warp_col_tiles=32, chunk=32,
        transform_kind_a=kind, transform_kind_b=kind,
    )  # fmt: skip

    @T.prim_func
    def main(A: T.Tensor((2, 2, 16, 16), "float16"), B: T.Tensor((4, 2, 16, 16), "float16"), C: T.Tensor((32, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((2, 2, 16, 16), "float16"), T.alloc_shared((4, 2, 16, 16), "float16")
            x, y = T.alloc_local((8,), "float16"), T.alloc_local((16,), "float16")
            c = T.alloc_local((16,), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            for ki in T.serial(2):
                e.ldmatrix_a(x, a, ki)
                e.ldmatrix_b(y, b, ki)
                e.mma(x, y, c)
            e.stmatrix(c, C, 0, 0)

    torch.manual_seed(0)
    a, b, c = torch.randint(-3, 4, (32, 32)).half(), torch.randint(-3, 4, (64, 32)).half(), torch.zeros(32, 64)
    simulate(main, by_lanes("A", a), by_lanes("B", b), c)
    assert torch.equal(c, a.float() @ b.float().T)


@pytest.mark.parametrize("n_first", [False, True])
def test_the_layout_of_accumulators_matches_the_instructions(n_first):
    e = TensorCoreIntrinEmitter(warp_row_tiles=32, warp_col_tiles=32, is_m_first=n_first)
    layout = e.make_mma_store_layout(torch.empty(64, 64))
    for thread in range(e.threads):
        lane, warp_n, warp_m = e.extract_thread_binding(thread)
        for tile, register in ((tile, register) for tile in range(4) for register in range(8)):
            row, column = mma_store_index_map(lane, register)
            place = [warp_m * 32 + tile // 2 * 16 + row, warp_n * 32 + tile % 2 * 16 + column]
            assert layout.locate(place) == (thread, tile * 8 + register)


PUBLIC_MAPS = [
    # name, arguments, result
    ("ldmatrix_32x8_to_shared_16x16_layout", (25, 3), (9, 11)),
    ("ldmatrix_trans_32x8_to_shared_16x16_layout", (25, 3), (9, 11)),
    ("ldmatrix_trans_32x8_to_shared_16x16_layout", (9, 3), (1, 11)),
    ("ldmatrix_32x16_to_shared_16x32_layout_a", (9, 3), (9, 3)),
    ("ldmatrix_32x16_to_shared_16x32_layout_b", (9, 3), (1, 19)),
    ("ldmatrix_32x4_to_shared_16x8_layout_b", (16, 1), (8, 1)),
    ("shared_16x16_to_mma_32x8_layout", (9, 3), (5, 3)),
    ("shared_16x16_to_mma_32x8_layout_rs_b", (3, 9), (5, 5)),
    ("shared_16x16_to_mma_b_32x8_layout_trans", (3, 9), (5, 5)),
    ("shared_32x16_to_mma_a_32x16_layout_trans", (17, 9), (4, 13)),
    ("shared_32x16_to_mma_32x16_layout", (17, 9), (4, 13)),
    ("shared_16x16_to_mma_32x8_smoothlayout", (3, 9), (7, 1)),
    ("mma_store_32x8_to_shared_16x16_layout", (5, 6), (9, 10)),
    ("mma_store_index_map_fp64", (5, 1), (1, 3)),
]


@pytest.mark.parametrize(("name", "place", "expected"), PUBLIC_MAPS)
def test_maps_by_their_public_names(name, place, expected):
    assert getattr(maps, name)(*place) == expected


def test_names_that_no_map_has():
    for name in ("shared_8x64_to_mma_b_32x16_layout", "shared_16x16_to_nothing", "ldmatrix"):
        with pytest.raises(AttributeError, match=name):
            getattr(maps, name)


@pytest.mark.parametrize("matrix", ["A", "B"])
@pytest.mark.parametrize("near", [1, 2, 4])
def test_maps_of_operands_are_inverse_to_each_other(matrix, near):
    places = {operand_element(matrix, near, lane, register) for lane in range(32) for register in range(4 * near)}
    assert len(places) == 16 * 8 * near
    assert all(operand_element(matrix, near, *_held(matrix, near, *place)) == place for place in places)


def test_ptx_mma_takes_the_order_of_public_programs():
    @T.prim_func
    def main(A: T.Tensor((16, 16), "float16"), B: T.Tensor((8, 16), "float16"), C: T.Tensor((16, 8), "float32")):
        with T.Kernel(1, threads=32):
            a, b = T.alloc_shared((16, 16), "float16"), T.alloc_shared((8, 16), "float16")
            x, y, c = T.alloc_local((8,), "float16"), T.alloc_local((4,), "float16"), T.alloc_local((4,), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            t = T.get_thread_binding()
            T.ptx_ldmatrix(
                T.bool(False), 4, T.access_ptr(a[t % 16, t // 16 * 8], "r", extent=8), T.access_ptr(x[0], "w", extent=8)
            )
            T.ptx_ldmatrix(
                T.bool(False), 2, T.access_ptr(b[t % 8, t // 8 % 2 * 8], "r", extent=8), T.access_ptr(y[0], "w", extent=4)
            )
            T.ptx_mma("float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32", x.data, 0, y.data, 0, c.data, 0, T.bool(False))
            for r in T.serial(4):
                C[t // 4 + r // 2 * 8, t % 4 * 2 + r % 2] = c[r]

    torch.manual_seed(0)
    a, b, c = torch.randint(-3, 4, (16, 16)).half(), torch.randint(-3, 4, (8, 16)).half(), torch.zeros(16, 8)
    simulate(main, a, b, c)
    assert torch.equal(c, a.float() @ b.float().T)


@pytest.mark.parametrize("run", [simulate, interpreter.run], ids=["cuda", "interpreter"])
def test_ptx_ldmatrix_takes_the_order_of_tvm(run):
    """An address with an offset in elements; the address may be that of a name for an element."""

    @T.macro
    def load(registers, tile, k, lane):
        corner = tile[0, k * 16]
        T.ptx_ldmatrix(
            "float16", T.bool(False), 4, ".b16", registers.data, k * 8, T.address_of(corner), lane % 16 * 40 + lane // 16 * 8
        )

    @T.prim_func
    def main(A: T.Tensor((16, 40), "float16"), C: T.Tensor((16, 32), "float16")):
        with T.Kernel(1, threads=32):
            a, x = T.alloc_shared((16, 40), "float16"), T.alloc_local((16,), "float16")
            T.copy(A, a)
            t = T.get_thread_binding()
            for k in T.serial(2):
                load(x, a, k, t)
            for k, r in T.grid(2, 8):
                C[t // 4 + r // 2 % 2 * 8, k * 16 + r // 4 * 8 + t % 4 * 2 + r % 2] = x[k * 8 + r]

    a, c = torch.randn(16, 40).half(), torch.zeros(16, 32).half()
    run(main, a, c)
    assert torch.equal(c, a[:, :32])


@pytest.mark.parametrize("n_first", [False, True])
@pytest.mark.parametrize("matrix, transposed, dtype", [("A", False, "float16"), ("A", True, "float16"), ("B", False, "int8")])
def test_the_layout_of_an_operand_matches_the_instructions(matrix, transposed, dtype, n_first):
    """Warps that share rows hold copies."""
    e = TensorCoreIntrinEmitter(
        dtype, dtype, a_transposed=transposed, warp_row_tiles=32, warp_col_tiles=32, chunk=64, is_m_first=n_first
    )
    operand = e._operand(matrix)
    layout = e.make_mma_load_layout(torch.empty(64, 64), matrix)
    for thread in range(e.threads):
        lane, warp_n, warp_m = e.extract_thread_binding(thread)
        first = (warp_m if matrix == "A" else warp_n) * operand.count
        for tile, register in ((tile, register) for tile in range(operand.count) for register in range(operand.size)):
            side, k = operand.element(lane, register)
            place = ((first + tile) * operand.extent + side, e.micro_size_k + k)
            place = place[::-1] if operand.k_first else place
            assert layout.locate(place)[1] == (operand.count + tile) * operand.size + register
            assert thread in layout.owners(place)
