"""A condition of the program is its own guard: what it says is not tested again, and what it does not say still is."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T

from .support import simulate, source

N = 300  # tiles of 256 leave the tensor in the second block


def over_tiles(body):
    """Each position of two tiles of 256, some of which are beyond the tensors, in ``body(A, C, k)``."""

    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), C: T.Tensor((N,), "int32")):
        with T.Kernel(2, threads=128) as bx:
            for i in T.Parallel(256):
                body(A, C, bx * 256 + i)

    return main


def by_threads(body):
    """The same, of two positions for each thread."""

    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), C: T.Tensor((N,), "int32")):
        with T.Kernel(2, threads=128) as bx:
            tx = T.get_thread_binding()
            for half in T.serial(2):
                body(A, C, bx * 256 + half * 128 + tx)

    return main


@T.macro
def branch(A, C, k):
    if 1 <= k and k < N:
        C[k] = A[k - 1]


@T.macro
def named(A, C, k):
    inside = k < N and k > 0
    if inside:
        C[k] = A[k - 1]


@T.macro
def other_side(A, C, k):
    if k >= N or k < 1:
        A[0] = A[0]
    else:
        C[k] = A[k - 1]


@T.macro
def nested(A, C, k):
    if k < N:
        if not k < 1:
            C[k] = A[k - 1]


@T.macro
def choice(A, C, k):
    if k < N:
        C[k] = T.if_then_else(k >= 1, A[k - 1], 0)


@T.macro
def second_operand(A, C, k):
    if k < N and k >= 1 and A[k - 1] != 0:
        C[k] = A[k - 1]


@pytest.mark.parametrize("kernel", [over_tiles, by_threads])
@pytest.mark.parametrize("body", [branch, named, other_side, nested, choice, second_operand])
def test_what_the_program_tests_is_not_tested_again(kernel, body):
    func = kernel(body)
    text = source(func, "sm_80")
    assert text.count(f"< {N}") + text.count(f">= {N}") == 1, text
    a, c = torch.arange(1, N + 1, dtype=torch.int32), torch.zeros(N, dtype=torch.int32)
    simulate(func, a, c)
    assert torch.equal(c, torch.arange(N, dtype=torch.int32))


@T.macro
def too_weak(A, C, k):
    if k < N + 8 and k >= 1:
        C[k] = A[k - 1]


@T.macro
def of_another_value(A, C, k):
    if k >= 1 and k - 1 < N:
        C[k] = A[k - 1]


@T.macro
def beside(A, C, k):
    x = T.alloc_var("int32", init=0)
    if k < N and k >= 1:
        x = 1
    C[k] = A[k - 1] * x


@T.macro
def either(A, C, k):
    if k < N and k >= 1 or k == N + 3:
        C[k] = A[k - 1]


@T.macro
def second_of_or(A, C, k):
    if (k < N and k >= 1) or A[k - 1] == 7:
        C[k] = 1


@T.macro
def other_value(A, C, k):
    C[k] = T.if_then_else(k < N and k >= 1, 5, A[k - 1])


@T.macro
def from_memory(A, C, k):
    at = T.alloc_var("int32", init=k)
    if at < N and at >= 1:
        at = at + 400 * (at // 256)
        C[T.min(at, k)] = A[at - 1]


@pytest.mark.parametrize("kernel", [over_tiles, by_threads])
@pytest.mark.parametrize("body", [too_weak, of_another_value, beside, either, second_of_or, other_value, from_memory])
def test_what_the_program_does_not_test_is(kernel, body):
    func = kernel(body)
    a = torch.arange(1, N + 1, dtype=torch.int32)
    found, expected = (torch.zeros(N, dtype=torch.int32) for _ in range(2))
    simulate(func, a, found)  # an access outside of a tensor is a finding
    tilelang.compile(func, target="interpret")(a, expected)
    assert torch.equal(found, expected)


def test_columns_that_a_convolution_gathers_have_the_conditions_of_the_program():
    height, width, channels = 14, 14, 64

    @T.prim_func
    def main(X: T.Tensor((4, height, width, channels), "float16"), Y: T.Tensor((784, 9 * channels), "float16")):
        with T.Kernel(9 * channels // 32, 784 // 16, threads=64) as (bx, by):
            columns = T.alloc_shared((16, 32), "float16")
            for i, j in T.Parallel(16, 32):
                m, k = by * 16 + i, bx * 32 + j
                h = m % (height * width) // width + k // (3 * channels) - 1
                w = m % width + k // channels % 3 - 1
                inside = h >= 0 and w >= 0 and h < height and w < width
                columns[i, j] = T.if_then_else(inside, X[m // (height * width), h, w, k % channels], 0)
            T.copy(columns, Y[by * 16, bx * 32])

    text = source(main, "sm_80")
    (copy,) = (line for line in text.splitlines() if "cp_async_16_zfill" in line)
    assert copy.count(">= 0") == 2 and copy.count(f"< {height}") == 2, copy
    x, y = torch.randn(4, height, width, channels).half(), torch.zeros(784, 9 * channels).half()
    simulate(main, x, y)
    unfolded = torch.nn.functional.unfold(x.permute(0, 3, 1, 2).float(), 3, padding=1)
    expected = unfolded.view(4, channels, 9, height * width).permute(0, 3, 2, 1).reshape(784, 9 * channels)
    assert torch.equal(y, expected.half())
