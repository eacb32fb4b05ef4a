"""Tiles that several copies of an iteration fill, and short rows, are loaded ahead like any other tile."""

from __future__ import annotations

import re

import pytest
import torch

import tilelang.language as T

from .support import simulate, source

ROWS, STEPS = 64, 4

both_archs = pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])


def joined(parts, between=None, used_as="product"):
    """Products with a tile of 96 columns, whose ``parts`` (first column, columns) are copied from two tensors.

    ``between`` is called with the tile before the last copy.
    """

    @T.prim_func
    def main(
        A: T.Tensor((ROWS, 96), "float16"),
        X: T.Tensor((STEPS * 64, 64), "float16"),
        Y: T.Tensor((STEPS * 64, 64), "float16"),
        C: T.Tensor((STEPS, ROWS, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            left = T.alloc_shared((ROWS, 96), "float16")
            tile = T.alloc_shared((64, 96), "float16")
            sums = T.alloc_fragment((ROWS, 64), "float32")
            T.copy(A, left)
            for k in T.Pipelined(STEPS, num_stages=2):
                for number, (first, columns) in enumerate(parts):
                    if between is not None and number == len(parts) - 1:
                        between(tile, C)
                    tensor = X if number % 2 == 0 else Y
                    T.copy(tensor[k * 64 : k * 64 + 64, :columns], tile[:, first : first + columns])
                T.gemm(left, tile, sums, transpose_B=True, clear_accum=True)
                T.copy(sums, C[k, :, :])

    return main


def tensors():
    generator = torch.Generator().manual_seed(0)
    whole = [(ROWS, 96), (STEPS * 64, 64), (STEPS * 64, 64)]
    a, x, y = (torch.randint(-3, 4, shape, generator=generator).half() for shape in whole)
    return a, x, y, torch.zeros(STEPS, ROWS, 64)


def loop_of(text):
    """The pipelined loop of all threads, or of the consumers, to the end of the function."""
    return text[text.rindex("#pragma unroll 1") :]


@both_archs
def test_two_parts_of_a_tile(arch):
    program = joined([(0, 64), (64, 32)])
    a, x, y, c = tensors()
    simulate(program, a, x, y, c, arch=arch)
    tile = torch.cat([x, y[:, :32]], 1).reshape(STEPS, 64, 96)
    assert torch.equal(c, torch.einsum("ik,njk->nij", a.float(), tile.float()))


def test_threads_copy_both_parts_ahead():
    text = loop_of(source(joined([(0, 64), (64, 32)])))
    copies = re.findall(r"cp_async_16\(tile \+ ahead_slot", text)
    assert len(copies) == 2
    first, last = (text.index(f"cp_async_16(tile + ahead_slot * 6144 + {lane}") for lane in ("copy_lane +", "copy_lane_1"))
    assert "cp_async_wait" not in text[first:last]
    assert "__syncthreads" not in text[first:last]


def test_the_accelerator_loads_both_parts_for_one_barrier():
    text = source(joined([(0, 64), (64, 32)]), "sm_90a")
    assert f"tile_full + slot, {64 * 96 * 2}" in text
    assert len(re.findall(r"tma_load_2d\(tile \+", text)) == 3  # panels of 32 columns
    assert "cp_async" not in loop_of(text)
    assert "named_barrier" not in loop_of(text)


def _is_copied(tile, C):
    T.copy(tile[0:64, 0:64], C[0, 0:64, 0:64])


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(joined([(0, 64), (32, 64)]), id="overlap"),
        pytest.param(joined([(0, 64), (72, 24)]), id="gap"),
        pytest.param(joined([(0, 64), (48, 32)]), id="overlap and gap"),
        pytest.param(joined([(0, 64), (64, 32)], _is_copied), id="used between"),
    ],
)
def test_tiles_that_are_not_filled_ahead(program):
    assert "tile + ahead_slot" not in source(program)
    assert "tile_full" not in source(program, "sm_90a")


@pytest.mark.parametrize("parts", [[(0, 64), (32, 64)], [(0, 64), (64, 32), (0, 32)]], ids=["overlap", "again"])
@both_archs
def test_the_last_of_two_copies_counts(parts, arch):
    a, x, y, c = tensors()
    simulate(joined(parts), a, x, y, c, arch=arch)
    tile = torch.zeros(STEPS * 64, 96, dtype=torch.float16)
    for number, (first, columns) in enumerate(parts):
        tile[:, first : first + columns] = (x, y)[number % 2][:, :columns]
    assert torch.equal(c, torch.einsum("ik,njk->nij", a.float(), tile.reshape(STEPS, 64, 96).float()))


@pytest.mark.parametrize("elements", [8, 24, 32, 64, 72])
@both_archs
def test_rows_that_do_not_fill_a_slot(elements, arch):
    """Each slot of a row of float16 begins at a multiple of 128 bytes."""

    @T.prim_func
    def main(
        A: T.Tensor((STEPS, 64, 64), "float16"),
        S: T.Tensor((STEPS, elements), "float16"),
        C: T.Tensor((STEPS, 64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            tile, row = T.alloc_shared((64, 64), "float16"), T.alloc_shared((elements,), "float16")
            for k in T.Pipelined(STEPS, num_stages=3):
                T.copy(A[k, :, :], tile)
                T.copy(S[k, :], row)
                for i, j in T.Parallel(64, 64):
                    C[k, i, j] = tile[i, j] * row[j % elements]

    generator = torch.Generator().manual_seed(0)
    a = torch.randint(-3, 4, (STEPS, 64, 64), generator=generator).half()
    s = torch.randint(-3, 4, (STEPS, elements), generator=generator).half()
    c = torch.zeros(STEPS, 64, 64)
    simulate(main, a, s, c, arch=arch)
    assert torch.equal(c, a.float() * s[:, torch.arange(64) % elements][:, None, :].float())
    if arch == "sm_90a":
        text = source(main, arch)
        assert re.search(rf"tma_load_2d\(row \+ slot \* {-(-elements // 64) * 64},", text)
        assert "cp_async" not in loop_of(text)


@both_archs
def test_parts_of_a_tile_need_no_barrier_between_them(arch):
    """Threads fill two halves of a tile, then read both."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 128), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 128), "float32")
            for i, j in T.Parallel(64, 64):
                tile[i, j] = A[i, j] + 1
            for j, i in T.Parallel(64, 64):
                tile[i, j + 64] = A[i, j] - 1
            for i, j in T.Parallel(64, 128):
                B[i, j] = tile[63 - i, 127 - j]

    a, b = torch.randn(64, 64, generator=torch.Generator().manual_seed(0)), torch.zeros(64, 128)
    simulate(main, a, b, arch=arch)
    assert torch.equal(b, torch.cat([a + 1, a - 1], 1).flip(0, 1))
    assert source(main, arch).count("__syncthreads") == 1


@both_archs
def test_a_tensor_of_run_time_size_is_no_tile(arch):
    """What a pipelined loop copies out of a tile, as the accelerator could."""
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n, 64), "float16"), B: T.Tensor((n, 3, 64), "float16")):
        with T.Kernel(n, threads=128) as bx:
            row = T.alloc_shared((64,), "float16")
            T.copy(A[bx, 0], row)
            for k in T.Pipelined(3, num_stages=2):
                T.copy(row, B[bx, k, 0])

    a, b = torch.randn(2, 64).half(), torch.zeros(2, 3, 64).half()
    simulate(main, a, b, arch=arch)
    assert torch.equal(b, a[:, None].expand(2, 3, 64))
