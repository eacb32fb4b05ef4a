"""Whole kernels rewritten at random: what is changed, what counts, and a fixed share of them on every target."""

from __future__ import annotations

import ast
import time
from typing import Any

import pytest

import tilelang
from testing.fuzz import whole_kernels
from testing.fuzz.campaign import Campaign
from testing.fuzz.execute import INTERPRETER, TARGETS
from testing.fuzz.outcome import BAD, DIFFERENT, RIGHT
from testing.fuzz.rewrites import CHANGES, rewritten

KERNEL = """
import torch
import tilelang
import tilelang.language as T

@tilelang.jit(out_idx=[-1])
def twice(M, N):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, N), "float32")
            T.copy(A, a)
            for i, j in T.Parallel(M, N):
                B[i, j] = a[i, j] * 2
    return main

def main(M, N):
    twice(M, N)(torch.randn(M, N))
    raise AssertionError("what a rewritten program asserts does not count")
"""


def test_every_change_is_drawn_and_leaves_a_program():
    kinds = set()
    for seed in range(150):
        _, text = whole_kernels.drawn(seed)
        ast.parse(text)
        assert text == whole_kernels.drawn(seed)[1]
        kinds |= {line.split(":")[0] for line in text.splitlines()[1:4]}
    assert {change.__name__.strip("_") for change in CHANGES} <= kinds


def test_a_change_of_a_parallel_loop_names_no_threads():
    for seed in range(100):
        text, changes = rewritten(KERNEL, seed)
        assert not any(change.startswith("restrict: B[i, j]") for change in changes), text


def test_a_right_kernel_is_right_on_every_target():
    outcomes = whole_kernels.run("example_elementwise", KERNEL, TARGETS)
    assert {target: outcome.status for target, outcome in outcomes.items()} == dict.fromkeys(TARGETS, RIGHT)


def test_a_kernel_without_a_meaning_is_not_compared():
    outcomes = whole_kernels.run("example_elementwise", KERNEL.replace("T.copy(A, a)", "pass"), TARGETS)
    assert outcomes.keys() == {INTERPRETER} and outcomes[INTERPRETER].status == whole_kernels.NO_MEANING
    assert "uninitialised: a[0, 0] is read" in outcomes[INTERPRETER].message


def test_a_kernel_of_threads_is_no_failure_of_a_cpu_target():
    text = KERNEL.replace("T.copy(A, a)", "T.copy(A, a); T.alloc_barrier(128)")
    outcomes = whole_kernels.run("example_elementwise", text, ("cpu", "sm_80"))
    assert [outcome.status for outcome in outcomes.values()] == [whole_kernels.NAMES_THREADS, RIGHT]


@pytest.mark.parametrize("by", [1, 1e-3])
def test_another_value_is_a_difference(by: float, monkeypatch: pytest.MonkeyPatch):
    compile_kernel = tilelang.compile

    def wrong(*args: Any, **options: Any) -> Any:
        kernel = compile_kernel(*args, **options)

        def call(*tensors: Any) -> Any:
            result = kernel(*tensors)
            result[3, 5] += by
            return result

        return call

    monkeypatch.setattr(tilelang, "compile", wrong)
    (outcome,) = whole_kernels.run("example_elementwise", KERNEL, ["cpu"]).values()
    assert outcome.status == (DIFFERENT if by == 1 else RIGHT)


def test_a_campaign_of_whole_kernels():
    said: list[str] = []
    campaign = Campaign(("cpu",), None, said.append, whole=True)
    assert campaign.run(iter([1, 19]), 1, time.monotonic() + 300), said  # one that is right, one without a meaning
    assert campaign.counts == {("cpu", RIGHT): 1, (INTERPRETER, whole_kernels.NO_MEANING): 1}
    assert campaign.summary().splitlines()[0].endswith("whole kernels rewritten")


@pytest.mark.parametrize("seed", range(5, 400, 33))
def test_a_share_of_them_is_right(seed: int):
    outcomes, text = whole_kernels.judge(seed, TARGETS)
    assert not any(outcome.status in BAD for outcome in outcomes.values()), (outcomes, text)
