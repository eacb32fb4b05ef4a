"""Products that clear their accumulator, and sum where the result goes, for themselves; and those that must not."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T

from .support import build, on_both

M, N, K, STEP = 24, 40, 64, 32


def looped(dtype: str, accumulator: str, result: str, rows: int = M, transposed: bool = False):
    """Cleared, summed over a loop, copied out."""

    b_shape = (N, K) if transposed else (K, N)

    @T.prim_func
    def main(A: T.Tensor((2 * rows, K), dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((2 * rows, N), result)):
        with T.Kernel(2, threads=128) as by:
            a = T.alloc_shared((rows, STEP), dtype)
            b = T.alloc_shared((N, STEP) if transposed else (STEP, N), dtype)
            c = T.alloc_fragment((rows, N), accumulator)
            T.clear(c)
            for k in T.Pipelined(K // STEP, num_stages=2):
                T.copy(A[by * rows, k * STEP], a)
                if transposed:
                    T.copy(B[0, k * STEP], b)
                else:
                    T.copy(B[k * STEP, 0], b)
                T.gemm(a, b, c, transpose_B=transposed)
            T.copy(c, C[by * rows, 0])

    return main


def matrix(dtype: str, *shape: int) -> torch.Tensor:
    return torch.randint(0 if dtype.startswith("u") else -3, 4, shape).to(getattr(torch, dtype))


@on_both
@pytest.mark.parametrize(
    "types",
    [("int8", "int32", "int32"), ("uint8", "int32", "int32"), ("int16", "int32", "int32"), ("float32", "float32", "float32"),
     ("bfloat16", "float32", "bfloat16"), ("bfloat16", "bfloat16", "bfloat16"), ("int32", "int32", "int32")],
    ids="-".join,
)  # fmt: skip
def test_exact(types, target):
    torch.manual_seed(1)
    a, b = matrix(types[0], 2 * M, K), matrix(types[0], K, N)
    c = torch.full((2 * M, N), 99).to(getattr(torch, types[2]))
    build(looped(*types), target)(a, b, c)
    assert torch.equal(c.double(), (a.double() @ b.double()).to(c.dtype).double())


@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("dtype", ["int8", "float32", "bfloat16"])
def test_few_rows(dtype, transposed):
    accumulator = "int32" if dtype == "int8" else "float32"
    a, b = matrix(dtype, 6, K), matrix(dtype, *((N, K) if transposed else (K, N)))
    c = torch.full((6, N), 99).to(getattr(torch, accumulator))
    build(looped(dtype, accumulator, accumulator, 3, transposed))(a, b, c)
    assert torch.equal(c.double(), a.double() @ (b.T if transposed else b).double())


def test_the_accumulator_of_integers_is_the_result():
    text = build(looped("int8", "int32", "int32"), "c").get_kernel_source()
    assert "int32_t c[" not in text
    assert " c[" in build(looped("float32", "float32", "float32"), "c").get_kernel_source()


@pytest.mark.parametrize("place", ["one", "halves", "overlapping"])
def test_blocks_that_share_a_place_do_not_sum_there(place):
    """Two may store the same sums to one place, but one must not add to those of the other."""
    first = {"one": lambda by: 0, "halves": lambda by: by // 2 * M, "overlapping": lambda by: by * (M // 2)}[place]

    @T.prim_func
    def main(A: T.Tensor((3 * M, K), "int8"), B: T.Tensor((K, N), "int8"), C: T.Tensor((3 * M, N), "int32")):
        with T.Kernel(4, threads=128) as by:
            a, b = T.alloc_shared((M, STEP), "int8"), T.alloc_shared((STEP, N), "int8")
            c = T.alloc_fragment((M, N), "int32")
            T.clear(c)
            for k in T.Pipelined(K // STEP):
                T.copy(A[0, k * STEP], a)
                T.copy(B[k * STEP, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C[first(by), 0])

    assert "int32_t c[" in build(main, "c").get_kernel_source()


def used_otherwise(kind: str):
    """Programs in which a clear, or the accumulator, may not go."""

    i8, i32, i64 = "int8", "int32", "int64"

    @T.prim_func
    def main(A: T.Tensor((M, K), i8), B: T.Tensor((K, N), i8), C: T.Tensor((M, N), i32), D: T.Tensor((M, N), i64)):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((M, STEP), "int8"), T.alloc_shared((STEP, N), "int8")
            c = T.alloc_fragment((M, N), "int32")
            T.clear(c)
            for k in T.serial(K // STEP):
                T.copy(A[0, k * STEP], a)
                T.copy(B[k * STEP, 0], b)
                if kind == "read first":
                    for i, j in T.Parallel(M, N):
                        D[i, j] = c[i, j]
                if kind == "under a condition":
                    if k > 0:
                        T.gemm(a, b, c)
                elif kind == "part":
                    T.gemm(a[0:8, :], b, c[0:8, :])
                else:
                    T.gemm(a, b, c)
                if kind == "left":
                    if k == 0:
                        break
            if kind == "copied twice":
                T.copy(c, D)
            if kind == "result is read":
                for i, j in T.Parallel(M, N):
                    D[i, j] = C[i, j]
            T.copy(c, C)

    return main


@pytest.mark.parametrize("kind", ["read first", "under a condition", "part", "left", "copied twice", "result is read"])
def test_results_equal_those_of_the_interpreter(kind):
    torch.manual_seed(2)
    a, b = matrix("int8", M, K), matrix("int8", K, N)
    results = []
    for target in ("cpu", "interpret"):
        c, d = torch.full((M, N), 7, dtype=torch.int32), torch.full((M, N), 8, dtype=torch.int64)
        build(used_otherwise(kind), target)(a, b, c, d)
        results.append((c, d))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])


def test_a_loop_without_iterations_leaves_zeros():
    @T.prim_func
    def main(A: T.Tensor((M, K), "float32"), C: T.Tensor((M, M), "float32"), turns: T.int32):
        with T.Kernel(1, threads=128):
            c = T.alloc_fragment((M, M), "float32")
            T.clear(c)
            for _ in T.serial(turns):
                T.gemm(A, A, c, transpose_B=True)
            T.copy(c, C)

    a = matrix("float32", M, K)
    for turns in (0, 2):
        c = torch.full((M, M), 5.0)
        build(main)(a, c, turns)
        assert torch.equal(c, turns * (a @ a.T))
