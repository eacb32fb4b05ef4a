"""Foreign code that gets the registers of a fragment: those of the layout that the program annotates."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate, source
from tilelang.errors import MisplacedError
from tilelang.layout import Fragment

ARCHS = ("sm_80", "sm_90a")

ROW_SUMS = """
extern "C" __device__ void row_sums(float *tile, float *sums) {
  sums[0] = sums[1] = 0;
  for (int i = 0; i < 32; ++i) sums[i / 2 % 2] += tile[i] *= 2;
  for (int row = 0; row < 2; ++row)
    for (int lane = 1; lane < 4; lane *= 2) sums[row] += __shfl_xor_sync(~0u, sums[row], lane);
}
"""

TWICE = 'extern "C" __device__ void twice(float *tile) { for (int i = 0; i < 32; ++i) tile[i] *= 2; }\n'


def accumulator(first: int) -> Fragment:
    """A tile of 64 x 64 as the tensor cores' products have it, from thread ``first`` on."""
    return Fragment(
        [64, 64],
        forward_fn=lambda i, j: (first + i // 16 * 32 + i % 8 * 4 + j % 8 // 2, j // 8 * 4 + i % 16 // 8 * 2 + j % 2),
    )


def of_rows(first: int) -> Fragment:
    """A number for each of its rows, in the four threads that hold the row."""
    return Fragment([64], forward_fn=lambda i, lane: (first + i // 16 * 32 + i % 8 * 4 + lane, i % 16 // 8), replicate=4)


def columns_first() -> Fragment:
    """A tile of 64 x 64 in another layout."""
    return Fragment([64, 64], forward_fn=lambda i, j: (j % 8 * 16 + i % 16, i // 16 * 8 + j // 8))


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("first", [0, 128])
def test_groups_of_threads_give_their_registers(arch: str, first: int) -> None:
    @T.prim_func
    def main(A: T.Tensor((2, 64, 64), "float32"), B: T.Tensor((2, 64), "float32"), C: T.Tensor((2, 64, 64), "float32")):
        with T.Kernel(1, threads=256 + first):
            T.import_source(ROW_SUMS)
            thread = T.get_thread_binding()
            for group in (0, 1):
                begin = first + 128 * group
                tile, sums = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64,), "float32")
                T.annotate_layout({tile: accumulator(begin), sums: of_rows(begin)})
                if thread >= begin and thread < begin + 128:
                    T.copy(A[group, :, :], tile)
                    T.call_extern("handle", "row_sums", tile.data, sums.data)
                    for i in T.Parallel(64):
                        sums[i] = sums[i] + 1.0
                    T.copy(sums, B[group, :])
                    T.copy(tile, C[group, :, :])

    a, b, c = torch.randn(2, 64, 64), torch.zeros(2, 64), torch.zeros(2, 64, 64)
    simulate(main, a, b, c, arch=arch)
    assert torch.equal(c, 2 * a)
    torch.testing.assert_close(b, 2 * a.sum(-1) + 1)


def repeated(annotated: bool) -> Any:
    """Rounds in which foreign code changes a tile that other statements want in another layout."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), W: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            T.import_source(TWICE)
            a, w = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64, 64), "float32")
            T.annotate_layout({a: accumulator(0), w: columns_first()} if annotated else {w: columns_first()})
            T.copy(A, a)
            T.copy(W, w)
            for _ in T.serial(3):
                for i, j in T.Parallel(64, 64):
                    w[i, j] = w[i, j] + a[i, j]
                T.call_extern("handle", "twice", a.data)
                for i, j in T.Parallel(64, 64):
                    a[i, j] = a[i, j] + w[i, j]
            T.copy(a, B)

    return main


@pytest.mark.parametrize("arch", ARCHS)
def test_copies_in_another_layout_follow_what_foreign_code_changes(arch: str) -> None:
    a, w, b = torch.randn(64, 64), torch.randn(64, 64), torch.zeros(64, 64)
    simulate(repeated(True), a, w, b, arch=arch)
    for _ in range(3):
        w = w + a
        a = 2 * a + w
    torch.testing.assert_close(b, a)


def test_a_fragment_that_the_compiler_lays_out_has_no_registers_to_give() -> None:
    with pytest.raises(MisplacedError, match=r"a.data: which elements are in a thread's registers(.|\n)*T.annotate_layout"):
        source(repeated(False), "sm_80")
