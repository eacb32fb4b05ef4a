"""A user's program, which the type checker reads as an editor does: the types that it must find (``python dev.py lint``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from typing_extensions import assert_type

import tilelang
import tilelang.language as T
from tilelang.interpreter.findings import Finding
from tilelang.layout.fragment import FragmentLayout
from tilelang.profiler import Profiler
from tilelang.simulator import Module


@tilelang.jit(out_idx=[-1])
def relu(rows: int, columns: int, block: int = 64, dtype: str = "float16"):
    """The positive part of a matrix."""

    @T.prim_func
    def main(A: T.Tensor((rows, columns), dtype), B: T.Tensor((rows, columns), dtype)):
        with T.Kernel(T.ceildiv(rows, block), threads=128) as bx:
            tile = T.alloc_fragment((block, columns), dtype)
            count = T.alloc_var("int32", init=0)
            count = count + 1
            T.copy(A[bx * block, 0], tile)
            for i, j in T.Parallel(block, columns):
                tile[i, j] = T.max(tile[i, j], 0)
            T.copy(tile, B[bx * block, 0])

    return main


@tilelang.jit
def add(A, B, block: int = 256):
    """The sum of two vectors."""
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    B: T.Tensor((N,), "float32")
    C = T.empty((N,), "float32")
    with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
        for i in T.Parallel(block):
            C[bx * block + i] = A[bx * block + i] + T.exp(B[bx * block + i])
    return C


@tilelang.autotune(configs=[{"block": 32}, {"block": 64}])
@tilelang.jit(out_idx=-1)
def tuned(rows: int, block: int = 32):
    """A copy, with the block that is fastest."""

    @T.prim_func
    def main(A: T.Tensor((rows,), "float32"), B: T.Tensor((rows,), "float32")):
        with T.Kernel(T.ceildiv(rows, block), threads=32) as bx:
            T.copy(A[bx * block], B[bx * block])

    return main


tuned_below = tilelang.jit(out_idx=-1)(tilelang.autotune(configs={"block": [256]})(add.function))


def use(a: torch.Tensor, path: Path) -> None:
    """What calls give."""
    kernel = relu(128, 64, dtype="float32")
    assert_type(kernel, tilelang.JITKernel)
    assert_type(kernel.get_kernel_source(), str)
    assert_type(kernel.get_profiler(), Profiler)
    assert_type(kernel.export_library(path), Path)
    assert_type(relu.compile(128, 64), tilelang.JITKernel)
    assert_type(relu.get_kernel_source(128, 64), str)
    assert_type(add(a, a), torch.Tensor)
    assert_type(tuned(128), tilelang.JITKernel)
    assert_type(tuned.compile(128), tilelang.JITKernel)
    assert_type(tuned.tune(128).latency, float)
    assert_type(tuned_below.tune(a, a).config, dict[str, Any])
    assert_type(tilelang.compile(relu.get_tir(128, 64), target="cpu"), tilelang.JITKernel)
    assert_type(T.Fragment((64,), forward_fn=lambda i: (i, 0)), FragmentLayout)
    assert_type(T.float16.bits, int)
    with tilelang.simulator(checks="all", seed=1) as settings:
        assert_type(settings.seed, int)
    assert_type(tilelang.simulator.load(""), Module)
    with tilelang.interpret() as run:
        assert_type(run.findings, list[Finding])


def mistakes(a: Any) -> None:
    """What an editor marks; the checker reports a comment here that hides nothing."""
    relu(128)  # pyright: ignore[reportCallIssue]
    relu(128, "64")  # pyright: ignore[reportArgumentType]
    tilelang.compile(a, taget="cpu")  # pyright: ignore[reportCallIssue]
    T.gemm(a, a)  # pyright: ignore[reportCallIssue]
    T.alloc_shred((64,), "float32")  # pyright: ignore[reportAttributeAccessIssue]
