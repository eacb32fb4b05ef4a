"""``kernel.as_jax()``: kernels inside of ``jax.jit``, where JAX is installed; what is refused without it."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import ArgumentError, ExecutionError

HAS_JAX = importlib.util.find_spec("jax_tvm_ffi") is not None
with_jax = pytest.mark.skipif(not HAS_JAX, reason="JAX is not installed: dev.py test --latest has it")


def scaled(out_idx, backend="tvm_ffi"):
    """``B = A * s + t`` and the sum of each row of A."""
    n = T.dynamic("n")

    @T.prim_func
    def scale(
        A: T.Tensor((n, 64), "float32"), s: T.float32, total: T.Tensor((n,), "float32"), B: T.Tensor((n * 2, 64), "float32"),
        t: T.int32,
    ):  # fmt: skip
        with T.Kernel(n, threads=64) as i:
            row, part = T.alloc_fragment((64,), "float32"), T.alloc_fragment((1,), "float32")
            T.copy(A[i, 0], row)
            T.reduce_sum(row, part)
            total[i] = part[0]
            for half, j in T.Parallel(2, 64):
                B[i * 2 + half, j] = row[j] * s + t

    return tilelang.compile(scale, target="cpu", out_idx=out_idx, execution_backend=backend)


@with_jax
def test_a_kernel_in_a_jitted_function():
    import jax

    kernel = scaled([2, 3]).as_jax()

    @jax.jit
    def program(x):
        total, scaled_twice = kernel(x + 1, 0.5, 3)
        return scaled_twice.sum(axis=1), total * 2

    for rows in (5, 30):
        x = np.random.default_rng(rows).normal(size=(rows, 64)).astype("float32")
        first, second = program(x)
        assert np.allclose(first, np.repeat(((x + 1) * 0.5 + 3).sum(1), 2), atol=1e-3)
        assert np.allclose(second, (x + 1).sum(1) * 2, atol=1e-3)


@with_jax
def test_arguments_in_the_order_of_the_library_are_passed_as_they_are():
    @tilelang.jit(target="cpu", out_idx=[1])
    def doubled(n, kind):
        @T.prim_func
        def main(A: T.Tensor((n,), kind), B: T.Tensor((n,), kind)):
            with T.Kernel(1):
                for i in T.Parallel(n):
                    B[i] = A[i] + A[i]

        return main

    import jax

    for kind in ("float16", "bfloat16", "int8"):
        assert doubled(8, kind).as_jax()(jax.numpy.arange(8, dtype=kind)).tolist() == [*range(0, 16, 2)]


@with_jax
def test_wrong_arguments():
    kernel = scaled([2, 3]).as_jax()
    with pytest.raises(ArgumentError, match="expected 3 arguments, got 1"):
        kernel(np.zeros((4, 64), "float32"))
    with pytest.raises(ArgumentError, match="A has 1 axes, expected 2"):
        kernel(np.zeros(64, "float32"), 1.0, 2)
    with pytest.raises(Exception, match=r"Mismatched A.dtype on argument #0"):
        kernel(np.zeros((4, 64), "float16"), 1.0, 2)[0].block_until_ready()


def test_what_jax_cannot_call():
    with pytest.raises(ExecutionError, match="scale: JAX needs a kernel that returns what it writes"):
        scaled(None).as_jax()
    with pytest.raises(ExecutionError, match="JAX calls the entry of the execution backend tvm_ffi, not ctypes"):
        scaled([2, 3], "ctypes").as_jax()


def test_without_jax(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax_tvm_ffi", None)  # as if it were not installed
    with pytest.raises(ExecutionError, match="JAX cannot call kernels: .*jax_tvm_ffi"):
        scaled([2, 3]).as_jax()
