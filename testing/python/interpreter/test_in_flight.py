"""Asynchronous operations whose operands are written, or whose result is used, before something has waited for them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang.language as T
from tilelang import interpreter

SIZE = 64


def _products(count: int, left: int, overwritten: int | None, registers: bool = False) -> Any:
    """As many products of pairs of operands, then a wait, then a pair is overwritten, if one is named, and the rest awaited."""

    @T.prim_func
    def main(A: T.Tensor((SIZE, SIZE), "float16"), C: T.Tensor((SIZE, SIZE), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((SIZE, SIZE), "float16")
            f = T.alloc_fragment((SIZE, SIZE), "float16")
            b = T.alloc_shared((count, SIZE, SIZE), "float16")
            c = T.alloc_fragment((SIZE, SIZE), "float32")
            T.copy(A, a)
            T.copy(A, f)
            for i in T.unroll(count):
                T.copy(A, b[i, :, :])
            T.clear(c)
            for i in T.unroll(count):
                T.wgmma_gemm(f if registers else a, b[i, :, :], c)
            T.wait_wgmma(left)
            if overwritten is not None:
                T.fill(f if registers else b[overwritten, :, :], 0)
                T.wait_wgmma(0)
            T.copy(c, C)

    return main


def _messages(program: Any) -> list[str]:
    given = torch.ones(SIZE, SIZE, dtype=torch.float16)
    return [str(finding) for finding in interpreter.run(program, given, torch.zeros(SIZE, SIZE))]


@pytest.mark.parametrize(
    ("program", "named"),
    [
        (_products(1, left=1, overwritten=0), "b[0, 0, 0] is written"),
        (_products(2, left=1, overwritten=1), "b[1, 0, 0] is written"),
        (_products(1, left=1, overwritten=0, registers=True), "f[0, 0] is written"),
        (_products(2, left=1, overwritten=None), "c[0, 0] is used"),
    ],
)
def test_what_a_product_in_flight_reads_and_writes_is_not_free(program: Any, named: str):
    (message,) = _messages(program)
    assert "async" in message and named in message


@pytest.mark.parametrize(
    "program",
    [
        _products(1, left=0, overwritten=0),
        _products(2, left=1, overwritten=0),
        _products(1, left=0, overwritten=0, registers=True),
    ],
)
def test_a_wait_hands_back_the_operands_of_the_products_that_it_waits_for(program: Any):
    assert _messages(program) == []


def _stores(waits: bool) -> Any:
    @T.prim_func
    def main(A: T.Tensor((SIZE, SIZE), "float16"), C: T.Tensor((SIZE, SIZE), "float16")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((SIZE, SIZE), "float16")
            T.copy(A, a)
            T.tma_copy(a, C)
            if waits:
                T.tma_store_wait(0)
            T.fill(a, 0)
            T.tma_store_wait(0)

    return main


@pytest.mark.parametrize("waits", [False, True])
def test_a_bulk_store_reads_its_tile_until_it_is_waited_for(waits: bool):
    given, stored = torch.ones(SIZE, SIZE, dtype=torch.float16), torch.zeros(SIZE, SIZE, dtype=torch.float16)
    findings = interpreter.run(_stores(waits), given, stored)
    assert [finding.kind for finding in findings] == ([] if waits else ["async"])
    assert torch.equal(stored, given)


def test_a_copy_into_a_tile_that_a_product_reads_is_found_where_it_starts():
    @T.prim_func
    def main(A: T.Tensor((SIZE, SIZE), "float16"), C: T.Tensor((SIZE, SIZE), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((SIZE, SIZE), "float16")
            c = T.alloc_fragment((SIZE, SIZE), "float32")
            arrived = T.alloc_barrier(128)
            T.copy(A, a)
            T.clear(c)
            T.wgmma_gemm(a, a, c)
            T.tma_copy(A, a, barrier=arrived)
            T.mbarrier_arrive(arrived)
            T.mbarrier_wait_parity(arrived, 0)
            T.wait_wgmma(0)
            T.copy(c, C)

    (message,) = _messages(main)
    assert "async" in message and "a[0, 0] is written" in message
