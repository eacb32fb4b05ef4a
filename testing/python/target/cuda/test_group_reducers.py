"""Reducers that groups of threads add to: each thread has partial values of its own."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate, source
from testing.python.target.definition import check_meaning
from tilelang import interpreter
from tilelang.errors import LayoutConflictError

ROWS, COLUMNS = 32, 12


def program(body):
    """A program that calls ``body(tx, X, acc, out)`` after a reducer is begun, and copies ``out`` to ``Y``."""
    inside = T.macro(body)

    @T.prim_func
    def main(X: T.Tensor((3, ROWS, COLUMNS), "float32"), Y: T.Tensor((ROWS,), "float32")):
        with T.Kernel(1, threads=128):
            acc, out = T.alloc_reducer((ROWS,), "float32", op="sum"), T.alloc_fragment((ROWS,), "float32")
            T.clear(acc)
            inside(T.get_thread_binding(), X, acc, out)
            T.copy(out, Y)

    return main


@T.macro
def add(X, part, acc):
    for i, j in T.Parallel(ROWS, COLUMNS):
        acc[i] += X[part, i, j]


def _one_warp(tx, X, acc, out):
    if tx // 32 == 1:
        add(X, 0, acc)
    T.finalize_reducer(acc, out)


def _both_sides(tx, X, acc, out):
    if tx < 64:
        add(X, 0, acc)
    else:
        add(X, 1, acc)
    T.finalize_reducer(acc, out)


def _threads_in_common_in_a_loop(tx, X, acc, out):
    for k in T.serial(3):
        if tx < 64:
            add(X, k, acc)
        if tx >= 32:
            add(X, 0, acc)
    add(X, 1, acc)
    T.finalize_reducer(acc, out)


def _finalised_by_the_group(tx, X, acc, out):
    if tx >= 64:
        add(X, 0, acc)
        T.finalize_reducer(acc, out)


def _one_after_the_other(tx, X, acc, out):
    if tx < 64:
        add(X, 0, acc)
    T.finalize_reducer(acc, out)
    T.clear(acc)
    if tx < 32:
        add(X, 1, acc)
    T.finalize_reducer(acc, out)


SUMS = {
    # what is added -> how often each part is in the result
    _one_warp: (1, 0, 0),
    _both_sides: (1, 1, 0),
    _threads_in_common_in_a_loop: (4, 2, 1),
    _finalised_by_the_group: (1, 0, 0),
    _one_after_the_other: (0, 1, 0),
}


@pytest.mark.parametrize("target", ["interpret", "sm_80", "sm_90a"])
@pytest.mark.parametrize("body", SUMS)
def test_what_groups_add_is_all_combined(body, target):
    x, y = torch.randint(-4, 5, (3, ROWS, COLUMNS)).float(), torch.zeros(ROWS)
    if target == "interpret":
        assert interpreter.run(program(body), x, y) == []
    else:
        simulate(program(body), x, y, arch=target)
    assert torch.equal(y, torch.einsum("pij,p->i", x, torch.tensor(SUMS[body]).float()))


@pytest.mark.parametrize("target", ["interpret", "sm_80", "sm_90a"])
def test_a_reducer_that_each_side_begins_and_finalises_is_its_own(target):
    @T.prim_func
    def main(X: T.Tensor((3, ROWS, COLUMNS), "float32"), Y: T.Tensor((2, ROWS), "float32")):
        with T.Kernel(1, threads=256):
            acc, out = T.alloc_reducer((ROWS,), "float32", op="sum"), T.alloc_fragment((ROWS,), "float32")
            for side in [0, 1]:
                with T.ws(side):
                    T.clear(acc)
                    add(X, side, acc)
                    T.sync_threads(side + 1, 128)
                    T.finalize_reducer(acc, out)
                    T.copy(out, Y[side, :])

    x, y = torch.randint(-4, 5, (3, ROWS, COLUMNS)).float(), torch.zeros(2, ROWS)
    if target == "interpret":
        assert interpreter.run(main, x, y) == []
    else:
        simulate(main, x, y, arch=target)
    assert torch.equal(y, x[:2].sum(2))


def _finalised_by_some(tx, X, acc, out):
    add(X, 0, acc)
    if tx < 64:
        T.finalize_reducer(acc, out)


def _finalised_by_others(tx, X, acc, out):
    if tx < 64:
        add(X, 0, acc)
    if tx >= 64:
        T.finalize_reducer(acc, out)


def _begun_again_by_some(tx, X, acc, out):
    add(X, 0, acc)
    if tx < 64:
        T.clear(acc)
    T.finalize_reducer(acc, out)


@pytest.mark.parametrize(
    "body, threads",
    [(_finalised_by_some, "0 to 63"), (_finalised_by_others, "64 to 127"), (_begun_again_by_some, "0 to 63")],
)
def test_some_of_the_threads_cannot_begin_or_finalise_it(body, threads):
    with pytest.raises(LayoutConflictError, match=f"threads {threads} run this, and threads 0 to .* use it as well") as raised:
        source(program(body))
    assert "begin and finalise a reducer where all threads run that add to it" in str(raised.value)


@pytest.mark.parametrize("sides", [1, 2])
def test_what_groups_of_a_group_add_is_all_combined(sides) -> None:
    """In the interpreter, what the group itself added was all."""

    @T.prim_func
    def main(X: T.Tensor((3, ROWS, COLUMNS), "int32"), Y: T.Tensor((ROWS,), "int32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            acc = T.alloc_reducer((ROWS,), "int32", op="sum", replication="all")
            if tx < 64:
                T.clear(acc)
                if tx < 32:
                    add(X, 0, acc)
                if sides == 2:
                    if tx >= 32:
                        add(X, 1, acc)
                add(X, 2, acc)
                T.finalize_reducer(acc)
                T.copy(acc, Y)

    check_meaning(main, torch.arange(3 * ROWS * COLUMNS).int().view(3, ROWS, COLUMNS), torch.zeros(ROWS).int())
