"""Factories and eager functions that the JIT's tests compile; in a file of their own, as source keys need their text."""

from __future__ import annotations

import tilelang
import tilelang.language as T

SCALE = 2.0


def offset() -> float:
    """A helper that a kernel reaches."""
    return SCALE + 1.0


@tilelang.jit(out_idx=[-1], target="cpu")
def scaled_add(n: int, block: int = 64):
    """``C = A + B * SCALE``: reads a global and a helper."""

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=64) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i] * SCALE + offset()

    return main


@tilelang.jit(out_idx=[-1], target="cpu")
def dynamic_copy():
    """A copy of any length."""
    m = T.dynamic("m")

    @T.prim_func
    def main(A: T.Tensor((m,), "float32"), B: T.Tensor((m,), "float32")):
        with T.Kernel(T.ceildiv(m, 64), threads=64) as bx:
            T.copy(A[bx * 64 : (bx + 1) * 64], B[bx * 64 : (bx + 1) * 64])

    return main


@tilelang.jit(target="cpu")
def eager_add(A, B, block: int = 32, dtype="float32"):
    """An eager program with constant sizes."""
    M, N = T.const("M, N")
    A: T.Tensor((M, N), dtype)
    B: T.Tensor[[M, N], dtype]
    C = T.empty((M, N), dtype)
    with T.Kernel(T.ceildiv(M, block), threads=64) as bx:
        for i, j in T.Parallel(block, N):
            C[bx * block + i, j] = A[bx * block + i, j] + B[bx * block + i, j]
    return C


@tilelang.jit(target="cpu")
def eager_two(A, factor: T.float32):
    """An eager program with a scalar, a dynamic size, a workspace and two outputs in the other order."""
    m = T.dynamic("m")
    A: T.Tensor((m,), "float32")
    work = T.empty((m,), "float32")
    double = T.empty((m,), "float32")
    scaled = T.empty((m,), "float32")
    with T.Kernel(T.ceildiv(m, 32), threads=32) as bx:
        for i in T.Parallel(32):
            work[bx * 32 + i] = A[bx * 32 + i] * factor
    with T.Kernel(T.ceildiv(m, 32), threads=32) as bx:
        for i in T.Parallel(32):
            scaled[bx * 32 + i] = work[bx * 32 + i]
            double[bx * 32 + i] = A[bx * 32 + i] * 2
    return scaled, double
