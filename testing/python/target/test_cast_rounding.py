"""``T.cast(x, dtype, round=…)`` on every target: the neighbours of a value that a narrower type has."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.frontend.support import error_at_mark
from testing.python.target.every_target import every_target, run
from tilelang.errors import CompileError

TYPES = {"float16": torch.int16, "bfloat16": torch.int16, "float8_e4m3fn": torch.int8}
MODES = ("rz", "rp", "rm")


def _neighbours(values: torch.Tensor, dtype: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest number of a type that is not above each value, and the smallest that is not below it."""
    of_type = getattr(torch, dtype)
    half = 1 << (8 * of_type.itemsize - 1)
    every = torch.arange(-half, half).to(TYPES[dtype]).view(of_type).double()
    every = every[~every.isnan()].unique()
    last = len(every) - 1
    below = (torch.searchsorted(every, values.double(), right=True) - 1).clamp(0, last)
    above = torch.searchsorted(every, values.double()).clamp(0, last)
    return every[below], every[above]


@every_target
@pytest.mark.parametrize("dtype", TYPES)
def test_floats_become_narrower_toward_zero_up_and_down(target, dtype):
    edges = [0.0, -0.0, 65504.0, 65505, 65519, 65520, -65519, 1e9, -1e9, 447, 449, 1e-9, -1e-9, float("inf"), -float("inf")]
    generator = torch.Generator().manual_seed(0)
    x = torch.cat([torch.tensor(edges), *(torch.randn(37, generator=generator) * scale for scale in (1, 1e5, 1e-6))])

    @T.prim_func
    def main(A: T.Tensor((len(x),), "float32"), B: T.Tensor((3, len(x)), dtype)):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(len(x)):
                for row, mode in enumerate(MODES):
                    B[row, i] = T.cast(A[i], dtype, round=mode)

    below, above = _neighbours(x, dtype)
    want = torch.stack([torch.where(x < 0, above, below), above, below])
    assert torch.equal(run(main, target, x).double(), want)


@every_target
def test_doubles_and_what_is_no_number(target):
    @T.prim_func
    def main(A: T.Tensor((4,), "float64"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                B[i] = T.cast(A[i], "float32", round="rp") + T.cast(T.float16(1), "float32", round="rz")
                if i == 0:
                    B[i] += T.cast(65519.0, "float16", round="rz") - 65504

    got = run(main, target, torch.tensor([0.1, -0.1, float("nan"), 1 + 2.0**-40], dtype=torch.float64))
    up = torch.tensor([0.1, -0.1, 0.0, 1 + 2.0**-23])
    up[0] = torch.nextafter(torch.tensor(0.1), torch.tensor(0.0)) if float(torch.tensor(0.1)) < 0.1 else up[0]
    up[1] = torch.nextafter(torch.tensor(-0.1), torch.tensor(0.0))
    assert got[2].isnan() and torch.equal(got[[0, 1, 3]], up[[0, 1, 3]] + 1)


@pytest.mark.parametrize(
    ("dtype", "mode", "said"),
    [
        ("float16", "ru", "the modes are 'rn'"),
        ("int32", "rp", "float32 to int32"),
        ("int32", "rn", "float32 to int32"),
    ],
)
def test_other_modes_are_refused(dtype, mode, said):
    with error_at_mark(CompileError, said):

        @T.prim_func
        def main(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
            with T.Kernel(1, threads=32):
                B[0] = T.cast(A[0], dtype, round=mode)  # <- error
