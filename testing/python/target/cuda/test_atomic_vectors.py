"""Atomic additions of whole tiles: one instruction for neighbours where the architecture has one."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import source
from testing.python.target.definition import check_meaning

ROWS, COLUMNS = 24, 64
KINDS = ("shared", "fragment", "guarded", "converted", "scaled")
ALONE = ("odd guard", "maximum", "old values", "transposed", "of shared memory", "two statements", "rows", "all", "groups")


def program(kind: str, dtype: str) -> Any:
    """Two blocks that add a tile of small integers to one tensor."""
    other = "float32" if dtype == "float16" else "float16"

    @T.prim_func
    def main(A: T.Tensor((ROWS, COLUMNS), dtype), B: T.Tensor((ROWS, COLUMNS), dtype), C: T.Tensor((COLUMNS, ROWS), dtype)):
        with T.Kernel(2, threads=64):
            tile = T.alloc_shared((ROWS, COLUMNS), dtype)
            T.copy(A, tile)
            if kind == "shared":
                T.atomic_add(B, tile)
            elif kind == "fragment":
                held = T.alloc_fragment((ROWS, COLUMNS), dtype)
                T.copy(A, held)
                T.atomic_add(B, held, memory_order="release")
            elif kind == "converted":
                held = T.alloc_fragment((ROWS, COLUMNS), other)
                T.copy(A, held)
                T.atomic_add(B, held)
            elif kind == "of shared memory":
                T.atomic_add(tile, A)
                T.copy(tile, B)
            for i, j in T.Parallel(ROWS, COLUMNS):
                if kind == "guarded":
                    if i % 3 == 0 and j < 40:
                        T.atomic_add(B[i, j], tile[i, j] * tile[i, j // 8])
                elif kind == "scaled":
                    T.atomic_add(B[i, j], tile[i, j] * 2 + j % 3)
                elif kind == "odd guard":
                    if j < 39:
                        T.atomic_add(B[i, j], tile[i, j])
                elif kind == "maximum":
                    T.atomic_max(B[i, j], tile[i, j])
                elif kind == "old values":
                    tile[i, j] = T.atomic_add(B[i, j], tile[i, j], return_prev=True)
                elif kind == "transposed":
                    T.atomic_add(C[j, i], tile[i, j])
                elif kind == "rows":
                    T.atomic_add(B[i, 3], tile[i, j])
                elif kind == "all":
                    T.atomic_add(B[5, 3], tile[i, j])
                elif kind == "groups":
                    T.atomic_add(B[i, j // 16], tile[i, j])
                elif kind == "two statements":
                    T.atomic_add(B[i, j], tile[i, j])
                    T.atomic_add(C[j, i], tile[i, j])

    return main


def arguments(dtype: str) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = (ROWS, COLUMNS), (ROWS, COLUMNS), (COLUMNS, ROWS)
    return [torch.randint(-3, 4, shape, generator=generator).to(getattr(torch, dtype)) for shape in shapes]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("kind", [*KINDS, *ALONE])
def test_sums_of_two_blocks(kind: str, dtype: str) -> None:
    check_meaning(program(kind, dtype), *arguments(dtype))


@pytest.mark.parametrize(
    ("dtype", "arch", "lanes"),
    [
        ("float32", "sm_80", 1),
        ("float32", "sm_90a", 4),
        ("float16", "sm_80", 2),
        ("float16", "sm_90a", 8),
        ("bfloat16", "sm_90", 8),
        ("float64", "sm_90a", 1),
        ("int32", "sm_90a", 1),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_how_many_neighbours_an_instruction_adds(kind: str, dtype: str, arch: str, lanes: int) -> None:
    found = re.findall(r"tl::atomic_add(?:_global<(\d+))?", source(program(kind, dtype), arch))
    assert [int(size or 1) for size in found] == [lanes]


@pytest.mark.parametrize("kind", ALONE)
def test_what_is_added_element_by_element(kind: str) -> None:
    assert "atomic_add_global" not in source(program(kind, "float32"), "sm_90a")
