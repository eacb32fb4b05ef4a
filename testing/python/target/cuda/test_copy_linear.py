"""``T.tma_copy`` of consecutive bytes: tensors at addresses that the kernel reads, and rows that no descriptor has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate, source
from tilelang.errors import CompileError, SimulatorError

PART = 256


def moved(low: Callable[[Any, Any], Any]) -> Any:
    """Each of two blocks copies a part of A, from ``low(block, step)`` on, to its part of C, by their addresses alone."""

    @T.prim_func
    def main(
        A: T.Tensor((2 * PART,), "float32"), C: T.Tensor((2 * PART,), "float32"),
        table: T.Tensor((2,), "int64"), step: T.Tensor((1,), "int32"),
    ):  # fmt: skip
        with T.Kernel(2, threads=64) as bx:
            tile = T.alloc_shared((4, PART // 4), "float32")
            flat = T.view(tile, (PART,))
            full = T.alloc_barrier(1)
            src = T.make_tensor_from_addr(table[0], (2 * PART,), "float32")
            dst = T.make_tensor_from_addr(table[1], (2 * PART,), "float32")
            at = low(bx, step[0])
            T.tma_copy(src[at : at + PART], flat, barrier=full)
            if T.shuffle_elect(64):
                T.barrier_arrive(full)
            T.mbarrier_wait_parity(full, 0)
            T.tma_copy(flat, dst[bx * PART : (bx + 1) * PART])
            T.tma_store_arrive()
            T.tma_store_wait()

    return main


def run(low: Callable[[Any, Any], Any], step: int) -> tuple[torch.Tensor, torch.Tensor]:
    a, c = torch.randn(2 * PART), torch.zeros(2 * PART)
    table = torch.tensor([a.data_ptr(), c.data_ptr()])
    simulate(moved(low), a, c, table, torch.tensor([step], dtype=torch.int32), arch="sm_90a")
    return a, c


@pytest.mark.parametrize(("low", "starts"), [
    (lambda bx, step: T.max(T.min((bx + 1) * step, PART), 0), (64, 128)),
    (lambda bx, step: bx * PART, (0, PART)),
])  # fmt: skip
def test_tensors_at_addresses_of_a_table(low: Any, starts: tuple[int, int]) -> None:
    a, c = run(low, 64)
    assert torch.equal(c, torch.cat([a[start : start + PART] for start in starts]))


def test_a_start_between_the_multiples_of_16_bytes_is_found() -> None:
    with pytest.raises(SimulatorError, match="align"):
        run(lambda bx, step: T.max(T.min((bx + 1) * step, PART), 0), 65)


def test_what_may_leave_the_tensor_is_refused() -> None:
    with pytest.raises(CompileError, match="and certainly inside"):
        source(moved(lambda bx, step: bx * step), "sm_90a")


@pytest.mark.parametrize(("columns", "loaded"), [(36, True), (38, False)])
def test_single_rows_of_a_multiple_of_16_bytes(columns: int, loaded: bool) -> None:
    """No box of a descriptor can begin at such a row of the tile."""

    @T.prim_func
    def main(A: T.Tensor((8, columns), "float32"), C: T.Tensor((8, columns), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((8, columns), "float32")
            full = T.alloc_barrier(64)
            for row in T.serial(8):
                T.tma_copy(A[7 - row, :], tile[row, :], barrier=full)
            T.barrier_arrive(full)
            T.mbarrier_wait_parity(full, 0)
            T.copy(tile, C)

    if not loaded:
        with pytest.raises(CompileError, match="rows of A are 152 bytes apart, and it needs a multiple of 16"):
            source(main, "sm_90a")
        return
    a, c = torch.randn(8, columns), torch.zeros(8, columns)
    simulate(main, a, c, arch="sm_90a")
    assert torch.equal(c, a.flip(0))


def test_an_axis_longer_than_a_box_is_one_operation() -> None:
    @T.prim_func
    def main(A: T.Tensor((4096,), "float16"), C: T.Tensor((4096,), "float16")):
        with T.Kernel(2, threads=64) as bx:
            tile = T.alloc_shared((2048,), "float16")
            full = T.alloc_barrier(64)
            T.tma_copy(A[bx * 2048 : (bx + 1) * 2048], tile, barrier=full)
            T.barrier_arrive(full)
            T.mbarrier_wait_parity(full, 0)
            T.tma_copy(tile, C[bx * 2048 : (bx + 1) * 2048])
            T.tma_store_arrive()
            T.tma_store_wait()

    text = source(main, "sm_90a")
    assert text.count("tl::tma_load") == text.count("tl::tma_load_bytes(") == 1
    assert text.count("tl::tma_store_bytes(") == 1 and "CUtensorMap" not in text
    a, c = torch.randn(4096).half(), torch.zeros(4096).half()
    simulate(main, a, c, arch="sm_90a")
    assert torch.equal(c, a)
