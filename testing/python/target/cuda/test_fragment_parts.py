"""Operators on parts of fragments, and products of fragments that no instruction takes, against the CPU."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import simulate, source
from testing.python.target.definition import check_meaning
from tilelang.ir import nodes as ir
from tilelang.layout.fragment import REGISTER, FragmentLayout, on_register, on_thread
from tilelang.target.cuda.inference.loop_layout import (
    Dimension,
    LoopLayout,
    fragment_from_loop,
    free_loop,
    loop_from_fragment,
    register_form,
)
from tilelang.target.cuda.inference.verify import is_bijective
from tilelang.target.cuda.tile.nest import Axis


def _agree(program, *inputs, results, arch):
    found = []
    for target in ("cpu", arch):
        outputs = [torch.zeros(shape) for shape in results]
        if target == "cpu":
            tilelang.compile(program, target="cpu")(*inputs, *outputs)
        else:
            simulate(program, *inputs, *outputs, arch=arch)
        found.append(outputs)
    for ours, expected in zip(*found[::-1]):
        assert expected.abs().sum() > 0
        torch.testing.assert_close(ours, expected, rtol=0, atol=0)


def _integers(*shape, dtype=torch.float32):
    return torch.randint(-3, 4, shape).to(dtype)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("dim, clear", [(1, True), (1, False), (0, True)])
def test_reductions_of_parts(arch, dim, clear):
    rows, length = (32, 64) if dim == 1 else (64, 32)

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), R: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_fragment((64, 64), "float32")
            found = T.alloc_fragment((64,), "float32")
            T.copy(A, tile)
            T.fill(found, 1)
            if dim == 1:
                T.reduce_sum(tile[16:48, :], found[8:40], dim=1, clear=clear)
            else:
                T.reduce_max(tile[32:64, :], found, dim=0, clear=clear)
            T.copy(found, R)

    _agree(main, _integers(64, 64), results=[(64,)], arch=arch)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_padding_of_a_fragment_in_local_memory_is_defined(arch):
    """NVVM keeps the array of the last loop in registers, and loads it without the condition that each of its uses has."""

    @T.prim_func
    def main(A: T.Tensor((33, 63), "float32"), B: T.Tensor((2, 2, 33, 64), "float32")):
        with T.Kernel(2, threads=256) as bx:
            tile = T.alloc_fragment((2, 33, 64), "float32")
            T.fill(tile, 1)
            for i, j in T.Parallel(33, 63):
                tile[bx, i, j] = tile[bx, i, j] + A[i, j]
            for k in T.serial(2):
                tile[1 - bx, 0, bx] = A[bx, k]
            T.copy(tile, B[bx, :, :, :])

    _agree(main, _integers(33, 63), results=[(2, 2, 33, 64)], arch=arch)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_copies_of_parts(arch):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32"), C: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_fragment((64, 64), "float32")
            other = T.alloc_fragment((64, 64), "float32")
            corner = T.alloc_fragment((32, 32), "float32")
            shared = T.alloc_shared((64, 64), "float32")
            T.copy(A, tile)
            T.clear(other)
            T.copy(tile[0:32, :], other[32:64, :])
            T.copy(tile[32:64, 32:64], corner)
            T.copy(corner, other[0:32, 0:32])
            T.copy(other[16:48, :], shared[0:32, :])
            T.copy(tile[0:32, 16:48], shared[32:64, 0:32])
            T.copy(shared[:, 0:32], other[:, 32:64])
            T.copy(other, B)
            T.copy(corner, C)

    a = _integers(64, 64)
    program = main
    outputs = [torch.zeros(64, 64), torch.zeros(32, 32)]
    # One quarter of the shared tile is never written, and never read.
    simulate(program, a, *outputs, arch=arch)
    expected = [torch.zeros(64, 64), torch.zeros(32, 32)]
    tilelang.compile(program, target="cpu")(a, *expected)
    for ours, wanted in zip(outputs, expected):
        torch.testing.assert_close(ours, wanted, rtol=0, atol=0)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("tile, part", [((64, 32, 32), 32), ((20, 12, 12), 10)])
def test_products_of_parts(arch, tile, part):
    """A, B and C are parts of fragments; the smaller sizes are none of an instruction."""
    m, n, k = tile

    @T.prim_func
    def main(A: T.Tensor((m, k), "float16"), B: T.Tensor((2 * k, n), "float16"), C: T.Tensor((m, n), "float32")):
        with T.Kernel(1, threads=64):
            left = T.alloc_fragment((m, k), "float16")
            right = T.alloc_fragment((2 * k, n), "float16")
            total = T.alloc_fragment((m, n), "float32")
            T.copy(A, left)
            T.copy(B, right)
            T.fill(total, 2)
            T.gemm(left[m - part : m, :], right[k : 2 * k, :], total[0:part, :])
            T.copy(total, C)

    _agree(main, _integers(m, k, dtype=torch.float16), _integers(2 * k, n, dtype=torch.float16), results=[(m, n)], arch=arch)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("fragments", ["a", "b", "ab"])
def test_scalar_products_of_fragments(arch, fragments):
    @T.prim_func
    def main(A: T.Tensor((20, 12), "float32"), B: T.Tensor((10, 12), "float32"), C: T.Tensor((20, 10), "float32")):
        with T.Kernel(1, threads=96):
            left = (T.alloc_fragment if "a" in fragments else T.alloc_shared)((20, 12), "float32")
            right = (T.alloc_fragment if "b" in fragments else T.alloc_shared)((10, 12), "float32")
            total = T.alloc_fragment((20, 10), "float32")
            T.copy(A, left)
            T.copy(B, right)
            for i, j in T.Parallel(20, 12):
                left[i, j] = left[i, j] + 1
            T.gemm(left, right, total, transpose_B=True, clear_accum=True)
            T.copy(total, C)

    _agree(main, _integers(20, 12), _integers(10, 12), results=[(20, 10)], arch=arch)


def test_rows_of_a_fragment_reach_a_swizzled_tile():
    """A thread's first row may lie before the part: the swizzle must not be simplified for rows of the tile there."""

    @T.prim_func
    def main(A: T.Tensor((10, 8), "int32"), B: T.Tensor((8, 8), "int32")):
        with T.Kernel(1, threads=32):
            rows = T.alloc_fragment((10, 8), "int32")
            part = T.alloc_shared((8, 8), "int32")
            T.copy(A, rows)
            T.copy(rows[2:10, :], part)
            T.copy(part, B)

    rows = torch.arange(80, dtype=torch.int32).reshape(10, 8)
    assert torch.equal(check_meaning(main, rows, torch.zeros(8, 8, dtype=torch.int32))[1], rows[2:])


@pytest.mark.parametrize("start, columns", [(0, 64), (64, 64), (128, 64), (64, 128), (8, 64), (96, 32), (0, 192), (100, 3)])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_loop_over_columns_of_a_fragment(arch, start, columns):
    """Of an accumulator and of a copy, read and written, with sums of the rows and an atomic update."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 192), "float32"),
        B: T.Tensor((3, 64, columns), "float32"),
        R: T.Tensor((64,), "float32"),
    ):
        with T.Kernel(1, threads=128):
            tile, doubled = T.alloc_fragment((64, 192), "float32"), T.alloc_fragment((64, columns), "float32")
            rows = T.alloc_fragment((64,), "float32")
            T.copy(A, tile)
            for i, j in T.Parallel(64, columns):
                doubled[i, j] = tile[i, start + j] * 2
            for i, j in T.Parallel(64, columns):
                tile[i, start + j] = doubled[i, j] + tile[i, start + j]
            T.reduce_sum(tile, rows, dim=1)
            T.copy(rows, R)
            T.copy(doubled, B[0, :, :])
            for i, j in T.Parallel(64, columns):
                B[1, i, j] = tile[i, start + j] - 1
            for i, j in T.Parallel(64, columns):
                T.atomic_add(B[2, i, j], tile[i, start + j])

    _agree(main, _integers(64, 192), results=[(3, 64, columns), (64,)], arch=arch)


def _gated(threads):
    """A product, half of whose columns gate the other half."""

    @T.prim_func
    def main(A: T.Tensor((64, 32), "float16"), W: T.Tensor((128, 32), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=threads):
            a, w = T.alloc_shared((64, 32), "float16"), T.alloc_shared((128, 32), "float16")
            both = T.alloc_fragment((64, 128), "float32")
            T.copy(A, a)
            T.copy(W, w)
            T.gemm(a, w, both, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(64, 64):
                C[i, j] = T.max(both[i, j], 0) * both[i, 64 + j]

    return main


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_two_halves_of_an_accumulator_meet_in_registers(arch):
    text = source(_gated(128), arch)
    epilogue = text[text.rindex("wait<0>") :]
    assert "shared" not in epilogue and "if (" not in epilogue and "uint2" in epilogue
    _agree(
        _gated(128),
        _integers(64, 32, dtype=torch.float16),
        _integers(128, 32, dtype=torch.float16),
        results=[(64, 64)],
        arch=arch,
    )


def test_columns_of_a_fragment_are_moved_as_vectors():
    @T.prim_func
    def main(A: T.Tensor((64, 192), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_fragment((64, 192), "float16")
            T.copy(A, tile)
            for i, j in T.Parallel(64, 64):
                B[i, j] = tile[i, 128 + j] * 2

    text = source(main)
    assert "if (" not in text and "*reinterpret_cast<uint4*>(B " in text


_PARTS = {
    # modes of a row -> the parts (first column, columns) that some threads hold whole, all of them alike
    "vectors": (
        (on_register(4, 1), on_thread(8, 1), on_register(3, 4)),
        {(0, 32), (32, 32), (64, 32), (0, 64), (32, 64), (0, 96)},
    ),
    "pairs": ((on_register(2, 1), on_thread(4, 1), on_register(8, 4), on_thread(2, 32)), {(0, 128)}),
    "threads": (
        (on_thread(4, 1), on_register(2, 1), on_register(4, 2)),
        {(start, 4) for start in range(0, 32, 4)}
        | {(start, 8) for start in range(0, 32, 8)}
        | {(0, 16), (8, 16), (16, 16), (0, 32)},
    ),
}


@pytest.mark.parametrize("modes, whole", _PARTS.values(), ids=_PARTS)
def test_a_loop_over_a_part_of_a_row_runs_where_the_elements_are(modes, whole):
    """Without guards over the parts that are whole digits of the layout, and values of one digit in registers."""
    size = math.prod(mode.extent for mode in modes)
    layout, column, unguarded = FragmentLayout((size,), (modes,)), ir.Var("j", "int32"), set()
    for start, columns in itertools.product(range(0, size, 2), (4, 8, 16, 32, 64, 96, 128)):
        if start + columns > size:
            continue
        loop = loop_from_fragment([Axis(column, columns)], [column + start], layout)
        assert loop is not None and register_form([column + start], layout, loop) is not None
        if loop.dims[0].size == columns:
            unguarded.add((start, columns))
    assert unguarded == whole
    beyond = loop_from_fragment([Axis(column, 4)], [column + size], layout)
    assert beyond is not None and beyond.dims[0].is_shifted


@pytest.mark.parametrize("step", [2, 3, 4, 8])
@pytest.mark.parametrize("modes", [modes for modes, _ in _PARTS.values()], ids=_PARTS)
def test_a_loop_over_every_second_column_runs_where_the_elements_are(modes, step):
    size = math.prod(mode.extent for mode in modes)
    layout, column, found = FragmentLayout((size,), (modes,)), ir.Var("j", "int32"), 0
    for start, columns in itertools.product(range(step), (2, 4, 8, 16, 32, 64)):
        index = column * step + start
        loop = loop_from_fragment([Axis(column, columns)], [index], layout)
        if columns * step <= size and loop is not None:
            assert loop.dims[0].size == columns and register_form([index], layout, loop) is not None
            found += 1
    # The elements between must be registers: of the first digit, where that is one.
    assert (found > 0) == (modes[0].coord == REGISTER and modes[0].extent % step == 0)


@pytest.mark.parametrize(
    "step, start, columns", [(1, 0, 32), (1, 32, 32), (1, 96, 32), (2, 0, 64), (2, 1, 64), (2, 65, 32), (4, 3, 32)]
)
@pytest.mark.parametrize("vector", [1, 2, 4])
def test_a_fragment_of_which_a_loop_uses_a_part(step, start, columns, vector):
    """Each element has a place, those of the part where the loop runs."""
    column = ir.Var("j", "int32")
    loop = free_loop([Axis(column, columns)], 8, vector)
    index = column * step + start if step > 1 else column + start
    layout = fragment_from_loop((128,), [index], loop)
    assert layout is not None and is_bijective(layout)
    assert register_form([index], layout, loop) is not None
    assert math.prod(mode.extent for mode in layout.modes[0]) == 128


def test_a_loop_of_more_threads_than_columns_places_a_whole_fragment():
    column = ir.Var("j", "int32")
    loop = LoopLayout((Dimension(column, (on_thread(12, 1), on_register(2, 1)), 16),))
    layout = fragment_from_loop((16,), [column], loop)
    assert layout is not None and register_form([column], layout, loop) is not None


def test_no_fragment_consists_of_parts_that_do_not_divide_it():
    column = ir.Var("j", "int32")
    loop = free_loop([Axis(column, 32)], 8, 1)
    for size, start, step in ((100, 0, 1), (128, 16, 1), (96, 0, 2), (128, 0, 3)):
        assert fragment_from_loop((size,), [column * step + start], loop) is None


def _rotated(pairs, product):
    """A rotation of pairs of columns: neighbours, or those of the two halves."""

    @T.prim_func
    def main(
        Q: T.Tensor((64, 32), "float16"),
        W: T.Tensor((32, 32), "float16"),
        S: T.Tensor((64, 16), "float32"),
        R: T.Tensor((64, 32), "float32"),
    ):
        with T.Kernel(1, threads=128):
            left, right = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 32), "float16")
            q, o = T.alloc_fragment((64, 32), "float32"), T.alloc_fragment((64, 32), "float32")
            if product:
                T.copy(Q, left)
                T.copy(W, right)
                T.gemm(left, right, q, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
            else:
                T.copy(Q, q)
            for i, j in T.Parallel(64, 16):
                first, second = (2 * j, 2 * j + 1) if pairs == "neighbours" else (j, j + 16)
                o[i, first] = q[i, first] - q[i, second] * S[i, j]
                o[i, second] = q[i, first] * S[i, j] + q[i, second]
            T.copy(o, R)

    return main


@pytest.mark.parametrize("product", [True, False], ids=["of a product", "of a tensor"])
@pytest.mark.parametrize("pairs", ["neighbours", "halves"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_pairs_of_columns_are_rotated_in_registers(arch, pairs, product):
    program = _rotated(pairs, product)
    text = source(program, arch)
    assert "q_shared" not in text and "o_shared" not in text and text.count("__syncthreads()") == product
    q, w, s = _integers(64, 32, dtype=torch.float16), _integers(32, 32, dtype=torch.float16), _integers(64, 16)
    _agree(program, q, w, s, results=[(64, 32)], arch=arch)
