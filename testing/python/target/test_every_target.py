"""Small programs whose result must be the same on the CPU, through C, and on the simulator of two architectures."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import cuda

TARGETS = {"cpu": "cpu", "c": "c", "sm_80": cuda("sm_80"), "sm_90a": cuda("sm_90a")}
every_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


def run(program: Any, target: Any, *tensors: Any) -> Any:
    """What a call returns; a finding of the simulator is an error."""
    with tilelang.simulator(strict=True):
        return tilelang.compile(program, target=target, out_idx=-1)(*tensors)


@every_target
@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint32, torch.uint64])
@pytest.mark.parametrize("kind", ["absmax", "abssum"])
def test_magnitudes_of_unsigned_values(kind, dtype, target):
    name = str(dtype).removeprefix("torch.")

    @T.prim_func
    def main(A: T.Tensor((8,), name), B: T.Tensor((1,), name)):
        with T.Kernel(1, threads=32):
            a, b = T.alloc_fragment((8,), name), T.alloc_fragment((1,), name)
            T.copy(A, a)
            getattr(T, f"reduce_{kind}")(a, b, dim=0)
            T.copy(b, B)

    a = torch.tensor([100, 10, 20, 30, 0, 1, 2, 3]).to(dtype)
    assert run(main, target, a).item() == (100 if kind == "absmax" else 166)


@every_target
@pytest.mark.parametrize("threads", [32, 128])
def test_negated_booleans(threads, target):
    @T.prim_func
    def main(A: T.Tensor((256,), "bool"), B: T.Tensor((256,), "bool")):
        with T.Kernel(1, threads=threads):
            for i in T.Parallel(256):
                B[i] = T.Not(A[i])

    a = torch.arange(256) % 3 == 0
    assert torch.equal(run(main, target, a), ~a)
