"""Random shapes, tiles and thread counts: the simulator and the CPU target must agree."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import simulate


def _rows(m, n, bm, bn, threads, kind):
    """Per row: a reduction of scaled elements, and the elements scaled by it."""

    @T.prim_func
    def main(A: T.Tensor((m, n), "float32"), R: T.Tensor((m,), "float32"), B: T.Tensor((m, n), "float16")):
        with T.Kernel(T.ceildiv(m, bm), threads=threads) as bx:
            tile = T.alloc_fragment((bm, bn), "float32")
            part = T.alloc_fragment((bm,), "float32")
            total = T.alloc_fragment((bm,), "float32")
            T.clear(total)
            for k in T.serial(T.ceildiv(n, bn)):
                T.copy(A[bx * bm, k * bn], tile)
                for i, j in T.Parallel(bm, bn):
                    tile[i, j] = tile[i, j] * 2 + 1
                getattr(T, f"reduce_{kind}")(tile, part, dim=1)
                for i in T.Parallel(bm):
                    total[i] = total[i] + part[i]
                for i, j in T.Parallel(bm, bn):
                    tile[i, j] = tile[i, j] + total[i]
                T.copy(tile, B[bx * bm, k * bn])
            T.copy(total, R[bx * bm])

    return main


@pytest.mark.property
@settings(max_examples=12, deadline=None)
@given(
    st.integers(1, 40), st.integers(1, 300), st.sampled_from([1, 3, 4, 16, 24]), st.sampled_from([5, 32, 96, 100, 256]),
    st.sampled_from([32, 96, 128, 256]), st.sampled_from(["sum", "max", "min", "absmax"]),
)  # fmt: skip
def test_rows(m, n, bm, bn, threads, kind):
    a = torch.randn(m, n)
    results = []
    for target in ("cpu", "cuda"):
        r, b = torch.zeros(m), torch.zeros(m, n, dtype=torch.float16)
        program = _rows(m, n, bm, bn, threads, kind)
        if target == "cpu":
            tilelang.compile(program, target="cpu")(a, r, b)
        else:
            simulate(program, a, r, b)
        results.append((r, b))
    torch.testing.assert_close(results[1][0], results[0][0], rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(results[1][1].float(), results[0][1].float(), rtol=4e-3, atol=4e-2)
