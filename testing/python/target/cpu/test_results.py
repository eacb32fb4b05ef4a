"""The last product of an accumulator fetches the part of the tensor that it is copied to, and stores there; where, and values."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.visit import walk
from tilelang.target.cpu.tiles import register_tile

from .support import WIDE, build, lowered, on_both

SIZE, DEPTH = 64, 256
FETCH = '"tl_fetch_rows"'


def product(kind="loop", turns=3, depth=DEPTH, rows=2 * SIZE, padding=0):
    """``C = A B`` with tiles of 64 x 64, in several products one after the other."""
    K = turns * depth
    left = T.StridedTensor((rows, K), (K + padding, 1), "float32") if padding else T.Tensor((rows, K), "float32")

    @T.prim_func
    def main(
        A: left,
        B: T.Tensor((K, SIZE), "float32"),
        C: T.Tensor((rows, SIZE), "float32"),
        D: T.Tensor((rows, SIZE), "float32"),
    ):
        with T.Kernel(T.ceildiv(rows, SIZE), threads=128) as block:
            a = T.alloc_shared((SIZE, depth), "float32")
            b = T.alloc_shared((depth, SIZE), "float32")
            c = T.alloc_fragment((SIZE, SIZE), "float32")
            T.clear(c)
            for k in T.Pipelined(turns, num_stages=2):
                T.copy(A[block * SIZE, k * depth], a)
                T.copy(B[k * depth, 0], b)
                T.gemm(a, b, c)
            if kind == "scaled":
                for i, j in T.Parallel(SIZE, SIZE):
                    c[i, j] *= 2
            T.copy(c, C[block * SIZE, 0])
            if kind == "twice":
                for k in T.Pipelined(turns, num_stages=2):
                    T.copy(A[block * SIZE, k * depth], a)
                    T.copy(B[k * depth, 0], b)
                    T.gemm(a, b, c)
                T.copy(c, D[block * SIZE, 0])

    return main


def fetches(program):
    """The statements that fetch, and the conditions around them."""
    body = lowered(program)
    calls = [stmt for stmt in walk(body) if isinstance(stmt, ir.Evaluate) and FETCH in str(stmt.value)]
    conditions = [
        stmt.condition
        for stmt in walk(body)
        if isinstance(stmt, ir.IfThenElse) and FETCH in str(stmt.then_case) and FETCH not in str(stmt.condition)
    ]
    return calls, conditions


def values(program, target, rows=2 * SIZE, K=3 * DEPTH):
    a, b = (torch.randint(-2, 3, shape).float() for shape in ((rows, K), (K, SIZE)))
    c, d = torch.zeros(rows, SIZE), torch.zeros(rows, SIZE)
    build(program, target)(a, b, c, d)
    return a @ b, c, d


@on_both
@pytest.mark.parametrize("kind", ["loop", "scaled", "twice"])
def test_values(kind, target):
    want, c, d = values(product(kind), target)
    assert torch.equal(c, want * (2 if kind == "scaled" else 1))
    assert torch.equal(d, want * 2 if kind == "twice" else torch.zeros_like(d))


@on_both
def test_a_tile_that_leaves_the_tensor(target):
    want, c, _ = values(product(rows=70), target, rows=70)
    assert torch.equal(c, want)


@pytest.mark.parametrize("kind", ["loop", "scaled"])
def test_the_last_turn_fetches_the_place_of_a_register_tile(kind):
    calls, conditions = fetches(product(kind))
    tile = register_tile(WIDE, "float32", SIZE, SIZE)
    # One register tile in a loop over rows, and perhaps the first one, which packs B, before it.
    assert len(calls) in (1, 2)
    assert all(list(map(as_int, call.value.args[3:])) == [tile.rows, 4 * tile.columns] for call in calls)
    assert conditions and all(str(condition).endswith("== 2") for condition in conditions)


def test_a_single_product_fetches_in_its_last_part():
    (calls, conditions), parts = fetches(product(turns=1, depth=4 * DEPTH)), 4
    assert calls and all(f"== {parts - 1}" in str(condition) for condition in conditions)


@pytest.mark.parametrize("options", [{"kind": "twice"}, {"turns": 1, "depth": 32}])
def test_products_that_do_not_fetch(options):
    """Those that come twice, with a copy after each, and those too short to hide it."""
    calls, _ = fetches(product(**options))
    assert not calls


STORES = "tl_are_disjoint"


@pytest.mark.parametrize("kind, is_stored", [("loop", True), ("scaled", False), ("twice", False)])
def test_an_accumulator_that_is_only_copied_is_stored_by_the_product(kind, is_stored):
    assert (STORES in str(lowered(product(kind)))) == is_stored


@pytest.mark.parametrize("options", [{"rows": 70}, {"padding": SIZE}])
def test_results_that_the_product_does_not_store(options):
    """A tile that leaves the tensor; beside an operand with padding, whose elements do not say what memory it has."""
    assert STORES not in str(lowered(product(**options)))


@on_both
@pytest.mark.parametrize("turns", [1, 3])
@pytest.mark.parametrize("place", ["start of A", "end of A", "start of B", "end of B", "behind B"])
def test_a_result_in_the_memory_of_an_operand(place, turns, target):
    """The product of all of A is known before the first element of it is overwritten."""
    K, count = turns * DEPTH, SIZE * SIZE
    memory = torch.randint(-2, 3, (2 * SIZE * K + count,)).float()
    a, b = memory[: SIZE * K].view(SIZE, K), memory[SIZE * K : 2 * SIZE * K].view(K, SIZE)
    first = {"start of A": 0, "end of A": SIZE * K - count, "start of B": SIZE * K, "end of B": 2 * SIZE * K - count}
    begin = first.get(place, 2 * SIZE * K)
    c = memory[begin : begin + count].view(SIZE, SIZE)
    want = a @ b
    build(product(turns=turns, rows=SIZE), target)(a, b, c, torch.zeros(SIZE, SIZE))
    assert torch.equal(c, want)


def left_early(turns=3):
    """A loop that may end before its last product."""

    @T.prim_func
    def main(
        A: T.Tensor((SIZE, turns * DEPTH), "float32"),
        B: T.Tensor((turns * DEPTH, SIZE), "float32"),
        C: T.Tensor((SIZE, SIZE), "float32"),
        most: T.int32,
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((SIZE, DEPTH), "float32")
            b = T.alloc_shared((DEPTH, SIZE), "float32")
            c = T.alloc_fragment((SIZE, SIZE), "float32")
            for k in T.serial(turns):
                T.copy(A[0, k * DEPTH], a)
                T.copy(B[k * DEPTH, 0], b)
                T.gemm(a, b, c, clear_accum=k == 0)
                if k == most:
                    break
            T.copy(c, C)

    return main


@on_both
@pytest.mark.parametrize("most", [0, 1, 5])
def test_a_loop_that_is_left_early(most, target):
    a, b = (torch.randint(-2, 3, shape).float() for shape in ((SIZE, 3 * DEPTH), (3 * DEPTH, SIZE)))
    c = torch.zeros(SIZE, SIZE)
    build(left_early(), target)(a, b, c, most)
    K = min(most + 1, 3) * DEPTH
    assert torch.equal(c, a[:, :K] @ b[:K])
