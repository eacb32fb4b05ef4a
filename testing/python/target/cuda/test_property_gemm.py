"""Random products on Ampere and Hopper: sizes, tiles, types, orders, stages, threads and policies, against torch and the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tilelang
import tilelang.language as T
from testing.python.target.cuda.programs import matmul
from testing.python.target.cuda.support import simulate
from tilelang.errors import CompileError

TYPES = {
    # operand -> (accumulator, tolerance)
    "float16": ("float32", 2e-2), "bfloat16": ("float32", 2e-2), "float32": ("float32", 2e-2), "int8": ("int32", 0),
    "uint8": ("int32", 0), "float8_e4m3fn": ("float32", 2e-2), "float8_e5m2": ("float32", 2e-2),
}  # fmt: skip
SWITCHES = ("", "", "", "tl.disable_warp_specialized", "tl.disable_tma_lower", "tl.disable_wgmma")


@dataclass(frozen=True)
class Case:
    """One program and how it is called."""

    sizes: tuple[int, int, int]
    dynamic: tuple[bool, bool, bool]
    tile: tuple[int, int, int]
    dtype: str
    arch: str
    switch: str
    options: tuple[tuple[str, Any], ...]

    def program(self) -> Any:
        """The program over these sizes, or over run-time ones."""
        sizes = [T.dynamic(name) if free else size for name, size, free in zip("mnk", self.sizes, self.dynamic)]
        accumulate = TYPES[self.dtype][0]
        return matmul(*sizes, self.tile, dtype=self.dtype, accumulate=accumulate, **dict(self.options))


@st.composite
def cases(draw: Any) -> Case:
    """Products whose tiles fit shared memory."""
    unit = draw(st.sampled_from([1, 8, 16]))
    sizes = tuple(unit * draw(st.integers(1, 200 // unit)) for _ in range(3))
    tile = (draw(st.sampled_from([16, 48, 64, 96, 128, 192])), 8 * draw(st.integers(1, 17)), 16 * draw(st.integers(1, 8)))
    options = {
        "transpose_a": draw(st.booleans()),
        "transpose_b": draw(st.booleans()),
        "stages": draw(st.integers(0, 4)),
        "threads": draw(st.sampled_from([32, 64, 128, 256, 384])),
        "policy": draw(st.integers(0, 2)),
        "relu": draw(st.booleans()),
        "through_shared": draw(st.booleans()),
    }
    dynamic = tuple(draw(st.booleans()) for _ in range(3)) if draw(st.booleans()) else (False,) * 3
    return Case(
        sizes, dynamic, tile, draw(st.sampled_from(list(TYPES))), draw(st.sampled_from(["sm_80", "sm_90a", "sm_90a"])),
        draw(st.sampled_from(SWITCHES)), tuple(options.items()),
    )  # fmt: skip


def operand(rows: int, columns: int, dtype: str) -> torch.Tensor:
    """Small values that every type holds."""
    if dtype in ("int8", "uint8"):
        return torch.randint(0 if dtype == "uint8" else -8, 8, (rows, columns)).to(getattr(torch, dtype))
    return torch.randint(-8, 9, (rows, columns)).div(8).to(getattr(torch, dtype))


def check(case: Case) -> None:
    """Runs a case on the simulator and on the CPU target and compares both with torch."""
    torch.manual_seed(0)
    options = dict(case.options)
    m, n, k = case.sizes
    a = operand(*((k, m) if options["transpose_a"] else (m, k)), case.dtype)
    b = operand(*((n, k) if options["transpose_b"] else (k, n)), case.dtype)
    accumulate, tolerance = TYPES[case.dtype]
    want = (a.T if options["transpose_a"] else a).double() @ (b.T if options["transpose_b"] else b).double()
    want = want.clamp(min=0) if options["relu"] else want
    c = torch.zeros(m, n, dtype=getattr(torch, accumulate))
    on_cpu = c.clone()
    try:
        simulate(case.program(), a, b, c, arch=case.arch, pass_configs={case.switch: True} if case.switch else None)
    except CompileError as error:
        assert "shared memory" in str(error), error
        return
    tilelang.compile(case.program(), target="cpu")(a, b, on_cpu)
    torch.testing.assert_close(c.double(), want, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(on_cpu.double(), want, rtol=tolerance, atol=tolerance)


@pytest.mark.property
@settings(max_examples=8, deadline=None)
@given(cases())
def test_products(case: Case) -> None:
    check(case)
