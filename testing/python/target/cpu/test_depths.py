"""Products of a long K, of which the caches hold a part at a time, and panels that the first row of tiles packs."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

import tilelang.language as T
from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.visit import walk
from tilelang.target.cpu.dot import STEPS, choose_dot_product
from tilelang.target.host import SLOW_BF16_DOT
from tilelang.target.info import parse_target

from .support import WIDE, build, lowered, on_both

TYPES = [
    ("float32", "float32"),
    ("bfloat16", "float32"),
    ("float16", "float16"),
    ("int8", "int32"),
    ("int32", "int32"),
    ("float64", "float64"),
]


def product(m, n, k, dtype, accumulator, start="cleared", transposed=False):
    """One product of tiles that hold all of K; ``start`` says what it is added to."""

    @T.prim_func
    def main(
        A: T.Tensor((m, k), dtype),
        B: T.Tensor((n, k) if transposed else (k, n), dtype),
        C: T.Tensor((m, n), accumulator),
        add: T.int32,
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((m, k), dtype), T.alloc_shared((n, k) if transposed else (k, n), dtype)
            c = T.alloc_fragment((m, n), accumulator)
            T.copy(A, a)
            T.copy(B, b)
            T.copy(C, c)
            if start == "cleared":
                T.gemm(a, b, c, transpose_B=transposed, clear_accum=True)
            elif start == "added":
                T.gemm(a, b, c, transpose_B=transposed)
            else:
                T.gemm(a, b, c, transpose_B=transposed, clear_accum=add == 0)
            T.copy(c, C)

    return main


def check(program, target, types, m, n, k, transposed=False, adds=(False,)):
    dtype, accumulator = (getattr(torch, name) for name in types)
    kernel = build(program, target)
    for add in adds:
        # Small integers: sums are exact in every type and in any order.
        a = torch.randint(-1, 2, (m, k)).to(dtype)
        b = torch.randint(-1, 2, (n, k) if transposed else (k, n)).to(dtype)
        c = torch.randint(-3, 4, (m, n)).to(accumulator)
        want = a.double() @ (b.double().T if transposed else b.double()) + (c.double() if add else 0)
        kernel(a, b, c, int(add))
        assert torch.equal(c.double(), want)


@on_both
@pytest.mark.parametrize("m", [3, 8, 21])
@pytest.mark.parametrize("types", TYPES, ids="-".join)
def test_a_long_k(types, m, target):
    # 2200: several whole parts and a last one for ways that sum one, two or four products in a step.
    check(product(m, 40, 2200, *types), target, types, m, 40, 2200)


@on_both
@pytest.mark.parametrize(("start", "adds"), [("added", (True,)), ("asked", (False, True))])
@pytest.mark.parametrize("types", TYPES[:3], ids="-".join)
def test_only_the_first_part_may_clear(types, start, adds, target):
    check(product(17, 24, 600, *types, start), target, types, 17, 24, 600, adds=adds)


@on_both
@pytest.mark.parametrize("n", [1, 7, 16, 50, 96])
@pytest.mark.parametrize("types", [*TYPES[:2], TYPES[-1]], ids="-".join)
def test_panels_of_every_width(types, n, target):
    check(product(21, n, 40, *types), target, types, 21, n, 40)


@on_both
@pytest.mark.parametrize("k", [32, 50, 330])
@pytest.mark.parametrize("m", [2, 20])
@pytest.mark.parametrize("slow", [False, True])
def test_transposed_bfloat16_with_and_without_dot_products(slow, m, k, target):
    info = parse_target({"kind": target})
    features = [feature for feature in info.features if feature != SLOW_BF16_DOT] + [SLOW_BF16_DOT] * slow
    types = ("bfloat16", "float32")
    machine = {"kind": target, "features": features}
    check(product(m, 50, k, *types, transposed=True), machine, types, m, 50, k, transposed=True)


def panels(program):
    """The shapes of B's panels."""
    found = [each.buffer for each in walk(lowered(program)) if isinstance(each, ir.AllocBuffer) and each.buffer.name == "b_panel"]
    return [tuple(as_int(extent) for extent in buffer.shape) for buffer in found]


def test_panels_fit_the_first_level_cache():
    shapes = panels(product(64, 512, 2048, "float32", "float32"))
    assert shapes
    assert all(steps <= STEPS for _, steps, _ in shapes)


def test_a_product_with_one_row_of_tiles_packs_nothing():
    assert not panels(product(8, 512, 2048, "float32", "float32"))


def test_the_first_row_of_tiles_stores_the_registers_that_it_has_loaded():
    body = lowered(product(64, 512, 2048, "float32", "float32"))
    stores = [each for each in walk(body) if isinstance(each, ir.BufferStore) and each.buffer.name == "b_panel"]
    assert stores
    assert all(canonical(str(each.value.ty)).lanes > 1 for each in stores)


@pytest.mark.parametrize("m, is_fetched", [(8, True), (64, False)])
def test_a_b_in_place_is_fetched_ahead_where_it_is_read_once(m, is_fetched):
    # B is as wide as a panel, so that several rows of tiles read it in place, too.
    program = product(m, WIDE.lanes(32) * 2, 512, "float32", "float32")
    assert not panels(program)
    fetches = [each for each in walk(lowered(program)) if isinstance(each, ir.Evaluate) and '"tl_fetch_far"' in str(each.value)]
    assert bool(fetches) == is_fetched


@pytest.mark.parametrize("is_slow, few_rows, depth", [(False, False, 2), (True, False, 1), (True, True, 2)])
def test_slow_dot_products_of_bfloat16_are_for_few_rows(is_slow, few_rows, depth):
    context = SimpleNamespace(vectors=replace(WIDE, bf16_dot=True, slow_bf16_dot=is_slow))
    assert choose_dot_product("bfloat16", "bfloat16", "float32", 64, context, loads_bind=few_rows).depth == depth
