"""Copies that a ``T.Parallel`` makes element by element: rows by number, and under conditions, ahead in pipelined loops."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import source
from testing.python.target.definition import check_meaning

ARCHES = ("sm_80", "sm_90a")
ROWS, DEPTH, COLUMNS = 64, 32, 64
AHEAD = {
    # What a row, or an element, of the tile is: of the tensor, the row numbers, the tile's row and column, a run-time number.
    "a row": lambda A, R, i, j, n: A[i, j],
    "a row by its number": lambda A, R, i, j, n: A[R[i], j],
    "under a condition": lambda A, R, i, j, n: T.if_then_else(i < n, A[i, j], 0),
    "under two conditions": lambda A, R, i, j, n: T.if_then_else((i < n) & (R[i] >= 0), A[i, j], 0),
    "by a number under a condition": lambda A, R, i, j, n: T.if_then_else(R[i] >= 0, A[R[i], j], 0),
    "selected": lambda A, R, i, j, n: T.Select(i < n, A[i, j], T.cast(0, "float16")),
}  # fmt: skip
HERE = {
    "columns under a condition": lambda A, R, i, j, n: T.if_then_else(j % DEPTH < n, A[i, j], 0),
    "another value": lambda A, R, i, j, n: T.if_then_else(i < n, A[i, j], 1),
    "a negative zero": lambda A, R, i, j, n: T.if_then_else(i < n, A[i, j], T.cast(-0.0, "float16")),
    "in other order": lambda A, R, i, j, n: A[i, j ^ 1],
    "computed": lambda A, R, i, j, n: A[i, j] + 1,
}  # fmt: skip


def product(element: Any, stages: int = 3) -> Any:
    """C = A' @ B, where ``element`` gives the elements of A'."""

    @T.prim_func
    def main(
        A: T.Tensor((ROWS, 4 * DEPTH), "float16"),
        R: T.Tensor((ROWS,), "int32"),
        B: T.Tensor((4 * DEPTH, COLUMNS), "float16"),
        C: T.Tensor((ROWS, COLUMNS), "float32"),
        N: T.Tensor((1,), "int32"),
    ):
        with T.Kernel(1, threads=128):
            n = N[0]
            a, b = T.alloc_shared((ROWS, DEPTH), "float16"), T.alloc_shared((DEPTH, COLUMNS), "float16")
            c = T.alloc_fragment((ROWS, COLUMNS), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=stages):
                for i, j in T.Parallel(ROWS, DEPTH):
                    a[i, j] = element(A, R, i, k * DEPTH + j, n)
                T.copy(B[k * DEPTH, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    return main


def _arguments(negative: bool) -> list[Any]:
    numbers = torch.randint(-2 if negative else 0, ROWS, (ROWS,), dtype=torch.int32)
    a, b = (torch.randint(-2, 3, shape).half() for shape in ((ROWS, 4 * DEPTH), (4 * DEPTH, COLUMNS)))
    return [a, numbers, b, torch.zeros(ROWS, COLUMNS), torch.full((1,), 20, dtype=torch.int32)]


@pytest.mark.parametrize("kind", [*AHEAD, *HERE])
def test_gathers_in_a_pipelined_loop(kind: str) -> None:
    check_meaning(product({**AHEAD, **HERE}[kind]), *_arguments("condition" in kind))


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("kind", AHEAD)
def test_gathers_are_made_ahead_by_cp_async(kind: str, arch: str) -> None:
    text = source(product(AHEAD[kind]), arch)
    loop = text[text.rindex("for (int k =") :]
    assert "warp_group" not in text and "setmaxnreg" not in text
    assert loop.count("cp_async_16") == 2
    assert "ahead_slot * 2048" in loop


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("kind", HERE)
def test_what_is_no_move_of_whole_vectors_is_no_asynchronous_copy(kind: str, arch: str) -> None:
    text = source(product(HERE[kind]), arch)
    assert not any("cp_async" in line and "A +" in line for line in text.splitlines())


@pytest.mark.parametrize("arch", ARCHES)
def test_columns_of_a_tensor_are_not_gathered(arch: str) -> None:
    """Single elements of two bytes are no asynchronous copies, and take as long ahead as in their place."""
    text = source(product(lambda A, R, i, j, n: A[j % ROWS, i]), arch)
    assert not any("A[" in line and "ahead_slot" in line for line in text.splitlines())


def test_row_numbers_in_registers() -> None:
    @T.prim_func
    def main(A: T.Tensor((ROWS, DEPTH), "float32"), R: T.Tensor((ROWS,), "int32"), B: T.Tensor((ROWS, DEPTH), "float32")):
        with T.Kernel(1, threads=128):
            tile, numbers = T.alloc_shared((ROWS, DEPTH), "float32"), T.alloc_fragment((ROWS,), "int32")
            T.copy(R, numbers)
            for i, j in T.Parallel(ROWS, DEPTH):
                tile[i, j] = A[numbers[i], j]
            T.copy(tile, B)

    numbers = torch.randint(0, ROWS, (ROWS,), dtype=torch.int32)
    check_meaning(main, torch.randn(ROWS, DEPTH), numbers, torch.zeros(ROWS, DEPTH))


@pytest.mark.parametrize("changed", ["the numbers", "the tensor", "the tile", "part of the tile"])
def test_a_gather_that_depends_on_the_loop_is_made_in_its_place(changed: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((ROWS, DEPTH), "float32"), R: T.Tensor((ROWS,), "int32"), B: T.Tensor((4, ROWS, DEPTH), "float32")):
        with T.Kernel(1, threads=128):
            tile, numbers = T.alloc_shared((ROWS, DEPTH), "float32"), T.alloc_shared((ROWS,), "int32")
            T.copy(R, numbers)
            if changed == "part of the tile":
                T.fill(tile, 5)
            for k in T.Pipelined(4, num_stages=2):
                if changed == "part of the tile":
                    for i, j in T.Parallel(ROWS // 2, DEPTH):
                        tile[i, j] = A[numbers[i], j]
                else:
                    for i, j in T.Parallel(ROWS, DEPTH):
                        tile[i, j] = A[numbers[i], j]
                T.copy(tile, B[k, 0, 0])
                if changed == "the numbers":
                    for i in T.Parallel(ROWS):
                        numbers[i] = (numbers[i] + 1) % ROWS
                if changed == "the tensor":
                    for i, j in T.Parallel(ROWS, DEPTH):
                        A[i, j] += 1
                if changed == "the tile":
                    for i, j in T.Parallel(ROWS, DEPTH):
                        tile[i, j] += 1

    numbers = torch.randint(0, ROWS, (ROWS,), dtype=torch.int32)
    check_meaning(main, torch.randint(-2, 3, (ROWS, DEPTH)).float(), numbers, torch.zeros(4, ROWS, DEPTH))


def test_row_numbers_that_are_only_set_where_the_condition_holds() -> None:
    """The address is not computed from the others."""

    @T.prim_func
    def main(A: T.Tensor((ROWS, DEPTH), "float16"), R: T.Tensor((ROWS,), "int32"), B: T.Tensor((ROWS, DEPTH), "float16")):
        with T.Kernel(1, threads=128):
            n = R[ROWS - 1]
            tile, numbers = T.alloc_shared((ROWS, DEPTH), "float16"), T.alloc_shared((ROWS,), "int32")
            for i in T.Parallel(ROWS):
                if i < n:
                    numbers[i] = R[i]
            for i, j in T.Parallel(ROWS, DEPTH):
                tile[i, j] = T.if_then_else(i < n, A[numbers[i], j], 0)
            T.copy(tile, B)

    a, numbers = torch.randn(ROWS, DEPTH).half(), torch.randint(0, ROWS, (ROWS,), dtype=torch.int32)
    numbers[-1] = 20
    check_meaning(main, a, numbers, torch.zeros(ROWS, DEPTH).half())


def test_a_small_gather_beside_large_tiles_leaves_them_to_the_accelerator() -> None:
    @T.prim_func
    def main(
        A: T.Tensor((64, 512), "float16"), S: T.Tensor((8, 64), "float16"), B: T.Tensor((512, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            a, b, scales = (T.alloc_shared(shape, "float16") for shape in ((64, 64), (64, 64), (64,)))
            part, total = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64, 64), "float32")
            T.clear(total)
            for k in T.Pipelined(8, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                for i in T.Parallel(64):
                    scales[i] = S[k, i]
                T.gemm(a, b, part, clear_accum=True)
                for i, j in T.Parallel(64, 64):
                    total[i, j] += part[i, j] * scales[i]
            T.copy(total, C)

    assert source(main, "sm_90a").count("tl::tma_load") == 2
    a, s, b = (torch.randint(-2, 3, shape).half() for shape in ((64, 512), (8, 64), (512, 64)))
    check_meaning(main, a, s, b, torch.zeros(64, 64))


def test_a_tile_of_which_only_one_fits_is_filled_in_its_place() -> None:
    """Three slots of the tile would take 192 KiB of the 163 KiB that a block of sm_80 may have."""

    @T.prim_func
    def main(A: T.Tensor((64, 1024), "float16"), R: T.Tensor((64,), "int32"), B: T.Tensor((64, 512), "float16")):
        with T.Kernel(1, threads=128):
            tile, total = T.alloc_shared((64, 512), "float16"), T.alloc_fragment((64, 512), "float16")
            T.clear(total)
            for k in T.Pipelined(2, num_stages=3):
                for i, j in T.Parallel(64, 512):
                    tile[i, j] = A[R[i], k * 512 + j]
                for i, j in T.Parallel(64, 512):
                    total[i, j] += tile[i, j]
            T.copy(total, B)

    assert "_slot" not in source(main, "sm_80") and "slot" in source(main, "sm_90a")
    rows = torch.randint(0, 64, (64,), dtype=torch.int32)
    check_meaning(main, torch.randint(-2, 3, (64, 1024)).half(), rows, torch.zeros(64, 512).half())


def convolution(channels: int, step: int, is_named: bool) -> Any:
    """A convolution of 3 by 3 as a product, whose columns are gathered ``step`` at a time."""
    height, width, filters = 5, 6, 32

    @T.prim_func
    def main(
        X: T.Tensor((2, height, width, channels), "float16"),
        W: T.Tensor((9 * channels, filters), "float16"),
        Y: T.Tensor((2 * height * width, filters), "float32"),
    ):
        with T.Kernel(1, threads=128):
            columns, weights = T.alloc_shared((64, step), "float16"), T.alloc_shared((step, filters), "float16")
            y = T.alloc_fragment((64, filters), "float32")
            T.clear(y)
            for ko in T.Pipelined(T.ceildiv(9 * channels, step), num_stages=2):
                for m, j in T.Parallel(64, step):
                    k = ko * step + j
                    h = m % (height * width) // width + k // (3 * channels) - 1
                    w = m % width + k // channels % 3 - 1
                    inside = h >= 0 and w >= 0 and h < height and w < width and m < 60 and k < 9 * channels
                    if is_named:
                        columns[m, j] = T.if_then_else(inside, X[m // (height * width), h, w, k % channels], 0)
                    elif inside:
                        columns[m, j] = X[m // (height * width), h, w, k % channels]
                    else:
                        columns[m, j] = 0
                T.copy(W[ko * step, 0], weights)
                T.gemm(columns, weights, y)
            T.copy(y[0:60, :], Y)

    return main


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize(
    ("channels", "step", "copied"), [(32, 16, 16), (8, 32, 16), (96, 64, 16), (4, 32, 8), (6, 32, 4), (5, 32, 0)]
)
def test_columns_of_a_convolution_are_gathered_in_vectors(channels: int, step: int, copied: int, is_named: bool) -> None:
    program = convolution(channels, step, is_named)
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(-3, 4, (2, 5, 6, channels), generator=generator).half()
    w = torch.randint(-3, 4, (9 * channels, 32), generator=generator).half()
    image, kernels = x.float().permute(0, 3, 1, 2), w.float().view(3, 3, channels, 32).permute(3, 2, 0, 1)
    wanted = torch.nn.functional.conv2d(image, kernels, padding=1).permute(0, 2, 3, 1).reshape(60, 32)
    assert torch.equal(check_meaning(program, x, w, torch.zeros(60, 32))[-1], wanted)
    for arch in ARCHES:
        text = source(program, arch)
        found = [
            size for size in (16, 8, 4) if any(f"cp_async_{size}_zfill(" in line and "X" in line for line in text.splitlines())
        ]
        assert found == [copied] * (copied > 0)


@pytest.mark.parametrize("is_used", [True, False])
def test_a_named_value_with_an_effect_is_made_once(is_used: bool) -> None:
    @T.prim_func
    def main(A: T.Tensor((32, 64), "float16"), count: T.Tensor((32, 64), "int32"), B: T.Tensor((32, 64), "float16")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((32, 64), "float16")
            for i, j in T.Parallel(32, 64):
                old = T.atomic_add(count[i, j], 1, return_prev=True)
                tile[i, j] = T.if_then_else(old > 0 and old < 3, A[i, j], 0) if is_used else A[i, j]
            T.copy(tile, B)

    count = torch.arange(32 * 64, dtype=torch.int32).view(32, 64) % 5
    found = check_meaning(main, torch.randn(32, 64).half(), count, torch.zeros(32, 64).half())
    assert torch.equal(found[1], count + 1)
