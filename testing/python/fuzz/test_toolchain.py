"""The fast compilers of random programs do less work than the regular ones."""

from __future__ import annotations

import pytest

import tilelang
import tilelang.language as T
from testing.fuzz import toolchain


@T.prim_func
def doubled(x: T.Tensor((64,), "float32"), y: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(64):
            y[i] = x[i] * 2.0


def compiled(target: str, thorough: bool) -> dict[str, bytes]:
    kernel = tilelang.compile(doubled, target={"kind": "cuda", "arch": target}, **toolchain.options(target, thorough))
    return kernel.artifact.files


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_quick_programs_are_not_assembled(target, monkeypatch):
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    quick, regular = compiled(target, False), compiled(target, True)
    assert not quick["kernel.cubin"] and regular["kernel.cubin"]
    assert quick["kernel.ptx"] and "host_kernel.cu" not in quick
