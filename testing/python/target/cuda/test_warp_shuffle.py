"""Conversions between layouts that the lanes of a warp carry out by shuffles."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate, source
from tilelang import interpreter
from tilelang.errors import LayoutProofError
from tilelang.layout.digits import Form
from tilelang.layout.fragment import FragmentLayout, on_register, on_thread
from tilelang.target.cuda.inference.warp_shuffle import brings_each_element, warp_shuffle
from tilelang.target.cuda.ops import convert_layout

SHAPE = (16, 32)
LAYOUTS = {
    "rows of four": lambda i, j: (i * 8 + j // 4, j % 4),
    "every second row": lambda i, j: (i // 2 * 16 + i % 2 + j // 4 * 2, j % 4),
    "columns of a quarter": lambda i, j: (i * 8 + j % 8, j // 8),
    "columns": lambda i, j: (i // 4 * 32 + j, i % 4),
}


def between(first, second, dtype="float32"):
    """A copy between fragments of two layouts."""

    @T.prim_func
    def main(X: T.Tensor(SHAPE, dtype), Y: T.Tensor(SHAPE, dtype)):
        with T.Kernel(1, threads=128):
            x, y = T.alloc_fragment(SHAPE, dtype), T.alloc_fragment(SHAPE, dtype)
            T.annotate_layout({x: T.Fragment(SHAPE, LAYOUTS[first]), y: T.Fragment(SHAPE, LAYOUTS[second])})
            T.copy(X, x)
            T.copy(x, y)
            T.copy(y, Y)

    return main


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "float64"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_lanes_exchange_elements_by_shuffles(dtype, arch):
    program = between("rows of four", "every second row", dtype)
    x = (torch.arange(512) % 100).reshape(SHAPE).to(getattr(torch, dtype))
    y = torch.zeros_like(x)
    simulate(program, x, y, arch=arch)
    assert torch.equal(x, y)
    text = source(program, arch)
    assert text.count("tl::shfl_idx") == 1 and "pool" not in text and "__syncthreads" not in text


@pytest.mark.parametrize("second", ["columns of a quarter", "columns"])
def test_lanes_that_want_different_registers_of_one_another(second, monkeypatch):
    """Shared memory is cheaper there, unless shuffles cost nothing."""
    assert "tl::shfl_idx" not in source(between("rows of four", second))
    monkeypatch.setattr("tilelang.target.cuda.inference.warp_shuffle.SHUFFLE", 0)
    program = between("rows of four", second, "int32")
    x = torch.arange(512, dtype=torch.int32).reshape(SHAPE)
    y = torch.zeros_like(x)
    simulate(program, x, y)
    assert torch.equal(x, y)
    assert source(program).count("tl::shfl_idx") == 4


def _random_layout(rng):
    """A layout of a tile of 8 x 32 on 64 threads: bits of the indices in random places, some threads with copies."""
    copies = rng.choice([1, 2, 4])
    lanes = [on_thread(2, 1 << bit) for bit in range(6)]
    rng.shuffle(lanes)
    places, register = lanes[: 6 - copies.bit_length() + 1], 1
    while len(places) < 8:
        places.append(on_register(2, register))
        register *= 2
    rng.shuffle(places)
    replicas = sorted(lanes[6 - copies.bit_length() + 1 :], key=lambda mode: mode.stride)
    return FragmentLayout((8, 32), (tuple(places[:3]), tuple(places[3:])), tuple(replicas))


def _elements(layout):
    """(thread, register) -> index, by enumeration."""
    indices = [(i, j) for i in range(8) for j in range(32)]
    return {(thread, layout.locate(index)[1]): index for index in indices for thread in layout.owners(index)}


@pytest.mark.parametrize("seed", range(40))
def test_exchanges_by_enumeration(seed):
    rng = random.Random(seed)
    first, second = _random_layout(rng), _random_layout(rng)
    found = warp_shuffle(first, second)
    if found is None:  # some thread needs what no thread of its warp holds
        warps = {index: {thread // 32 for thread in first.owners(index)} for index in _elements(first).values()}
        assert any(thread // 32 not in warps[index] for (thread, _), index in _elements(second).items())
        return
    assert brings_each_element(found, first, second)
    held = _elements(first)
    for (thread, register), index in _elements(second).items():
        values = {}
        for axis, position in enumerate(index):
            for digit, _ in found.loop.digits[axis]:
                position, values[digit] = divmod(position, digit.extent)
        values |= {term.digit: thread // term.digit.stride % term.digit.extent for term in found.thread}
        lane, old = (sum(values[t.digit] // t.low % t.extent * t.weight for t in form) for form in (found.lane, found.register))
        assert lane < 32 and held[thread // 32 * 32 + lane, old] == index, (seed, thread, register)


def test_a_wrong_exchange_makes_no_code(monkeypatch):
    program = between("rows of four", "every second row")
    source(program)
    right = convert_layout.warp_shuffle
    for wrong in ({"register": Form()}, {"lane": Form()}):
        monkeypatch.setattr(convert_layout, "warp_shuffle", lambda *layouts, wrong=wrong: replace(right(*layouts), **wrong))
        with pytest.raises(LayoutProofError, match="a conversion does not bring every element to its threads"):
            source(program)


@pytest.mark.parametrize("changed", ["nothing", "source", "destination"])
def test_a_conversion_that_every_iteration_repeats_is_hoisted_out_of_the_loop(changed):
    @T.prim_func
    def main(X: T.Tensor(SHAPE, "float32"), Y: T.Tensor(SHAPE, "float32"), Z: T.Tensor((3, *SHAPE), "float32")):
        with T.Kernel(1, threads=128):
            x, y = T.alloc_fragment(SHAPE, "float32"), T.alloc_fragment(SHAPE, "float32")
            T.annotate_layout({x: T.Fragment(SHAPE, LAYOUTS["rows of four"]), y: T.Fragment(SHAPE, LAYOUTS["every second row"])})
            T.copy(X, x)
            for k in T.serial(3):
                T.copy(x, y)
                for i, j in T.Parallel(*SHAPE):
                    Z[k, i, j] = y[i, j] * 2
                if changed == "source":
                    for i, j in T.Parallel(*SHAPE):
                        x[i, j] = x[i, j] + 1
                if changed == "destination":
                    for i, j in T.Parallel(*SHAPE):
                        y[i, j] = y[i, j] + 1
            T.copy(y, Y)

    x = torch.arange(512.0).reshape(SHAPE)
    outputs, right = ((torch.zeros_like(x), torch.zeros(3, *SHAPE)) for _ in range(2))
    simulate(main, x, *outputs)
    assert interpreter.run(main, x, *right) == []
    assert torch.equal(outputs[0], right[0]) and torch.equal(outputs[1], right[1])
    before, _, inside = source(main).partition("< 3; ")
    assert ("tl::shfl_idx" in inside) == (changed != "nothing") and "tl::shfl_idx" in before + inside


@pytest.mark.parametrize("index", [lambda i: i // 8, lambda i: i % 32, lambda i: i // 8 * 8 + i % 4], ids=["//", "%", "both"])
def test_an_element_at_a_quotient_or_remainder_of_the_iteration(index):
    @T.prim_func
    def main(A: T.Tensor((256,), "int32"), B: T.Tensor((256,), "int32")):
        with T.Kernel(1, threads=64):
            tile, found = T.alloc_fragment((256,), "int32"), T.alloc_fragment((256,), "int32")
            T.copy(A, tile)
            for i in T.Parallel(256):
                found[i] = tile[index(i)]
            T.copy(found, B)

    a, b = torch.arange(256, dtype=torch.int32), torch.zeros(256, dtype=torch.int32)
    simulate(main, a, b)
    assert torch.equal(b, a[index(torch.arange(256))])
