"""Constant tables that a run-time index looks up, on every target."""

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.frontend.support import error_at_mark
from testing.python.target.every_target import every_target, run
from tilelang.errors import IndexRangeError

LIST = [1.5, 2.0, 4.0, -8.0]
ROWS = [[1, 2, 3], [4, 5, 6]]
ARRAY = np.array([3, 5, 7, 9], dtype=np.int64)
TENSOR = torch.arange(256, dtype=torch.int32) * 7 % 251


@every_target
def test_small_and_large_tables(target):
    @T.prim_func
    def main(A: T.Tensor((256,), "int32"), B: T.Tensor((4, 256), "float32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(256):
                B[0, i] = LIST[A[i] % 4]
                B[1, i] = ROWS[i % 2][A[i] % 3] + ARRAY[i % 4] + ROWS[1][i % 3]
                B[2, i] = TENSOR[A[i]]
                row = ROWS[i % 2]
                B[3, i] = row[-1] + len(row)

    a, i = (torch.arange(256) * 37 % 256).int(), torch.arange(256)
    rows, array = torch.tensor(ROWS), torch.tensor(ARRAY)
    mixed = rows[i % 2, a % 3] + array[i % 4] + rows[1, i % 3]
    want = torch.stack([torch.tensor(LIST)[a % 4], mixed, TENSOR[a], rows[i % 2, 2] + 3])
    assert torch.equal(run(main, target, a), want.float())


@every_target
def test_a_large_table_in_two_kernels_of_one_program(target):
    @T.prim_func
    def main(A: T.Tensor((256,), "int32"), C: T.Tensor((256,), "int32"), B: T.Tensor((256,), "int32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(256):
                C[i] = TENSOR[A[i]]
        with T.Kernel(1, threads=128):
            for i in T.Parallel(256):
                B[i] = TENSOR[C[i]]

    a = torch.arange(256, dtype=torch.int32)
    assert torch.equal(run(main, target, a, torch.zeros_like(a)), TENSOR[TENSOR[a.long()].long()])


def test_a_changed_table_gives_another_kernel():
    table = [1, 2]

    @tilelang.jit(target="cpu", out_idx=-1)
    def looked_up():
        @T.prim_func
        def main(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32")):
            with T.Kernel(1):
                for i in T.Parallel(4):
                    B[i] = table[A[i] % 2]

        return main

    a = torch.arange(4, dtype=torch.int32)
    assert looked_up()(a).tolist() == [1, 2, 1, 2]
    table[1] = 5
    assert looked_up()(a).tolist() == [1, 5, 1, 5]


def test_mistakes():
    words = ["a", "b"]
    with error_at_mark(match="its items are no numbers"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1):
                for i in T.Parallel(4):
                    A[i] = words[i % 2]  # <- error

    with error_at_mark(IndexRangeError, match="index 7 is out of range for axis 1 of the table, which has 3"):

        @T.prim_func
        def other(A: T.Tensor((4,), "int32")):
            with T.Kernel(1):
                for i in T.Parallel(4):
                    A[i] = np.array(ROWS)[i % 2, 7]  # <- error


@pytest.mark.parametrize("ragged", [[[1], [2, 3]], []])
def test_ragged_and_empty_tables(ragged):
    with error_at_mark(match="a constant table"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1):
                for i in T.Parallel(4):
                    A[i] = ragged[i % 2]  # <- error


NUMBERS = [n * n for n in range(200)]
"""More than an int8 counts."""


@every_target
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int64"])
def test_an_index_of_any_type(dtype, target):
    """Those below zero count from the end."""

    @T.prim_func
    def main(A: T.Tensor((64,), dtype), B: T.Tensor((2, 64), "int32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                B[0, i] = NUMBERS[A[i]]
                B[1, i] = [1, -2, 4][T.abs(A[i]) % 3 - 1]

    a = (torch.arange(64) * 3 - 96 * (dtype != "uint8")).to(getattr(torch, dtype))
    want = [[NUMBERS[n], [1, -2, 4][abs(n) % 3 - 1]] for n in a.tolist()]
    assert torch.equal(run(main, target, a), torch.tensor(want, dtype=torch.int32).T)


@every_target
def test_narrow_lanes_as_indices(target):
    @T.prim_func
    def main(Places: T.Tensor((4,), "int8"), A: T.Tensor((200,), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            B[0:4] = A[Places[T.Ramp(0, 1, 4)]]

    index, a = torch.tensor([0, -1, 100, -100], dtype=torch.int8), torch.arange(200, dtype=torch.int32)
    assert torch.equal(run(main, target, index, a), a[index.long()])


@every_target
def test_zeros_of_both_signs_and_nan_are_entries_of_their_own(target):
    positive, negative = [1.0] + [0.0] * 99, [1.0] + [-0.0] * 99

    @T.prim_func
    def main(A: T.Tensor((4,), "int32"), B: T.Tensor((4, 4), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                B[0, i] = [0.0, -0.0, float("nan"), 1.0][A[i]]
                B[1, i] = [float("nan"), float("nan"), -0.0, 0.0][A[i]]
                B[2, i] = positive[A[i]]
                B[3, i] = negative[A[i]]

    nan = float("nan")
    want = torch.tensor([[0.0, -0.0, nan, 1.0], [nan, nan, -0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [1.0, -0.0, -0.0, -0.0]])
    found = run(main, target, torch.arange(4, dtype=torch.int32))
    assert torch.equal(found.isnan(), want.isnan())
    assert torch.equal(found.nan_to_num().view(torch.int32), want.nan_to_num().view(torch.int32))
