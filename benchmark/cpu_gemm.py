"""GEMM on the CPU beside torch's at equal threads: float32, bfloat16 and int8, 256^3 and 1024^3.

    python benchmark/cpu_gemm.py [--target c] [--transpose-b] [--seconds 1.0]

Both sides take turns in one process. One thread is measured in processor time, so that a busy machine disturbs little, two are
measured by the clock; rates are those of the best time of each side, and the ratio of the medians stands beside theirs.
The kernel is an ordinary tile program; its tile sizes are chosen for a cache, not for a GPU.
"""

from __future__ import annotations

import argparse
import statistics
import time
from functools import partial

import torch

import tilelang
import tilelang.language as T

TILES = {
    # (dtype, size) -> block rows, columns, depth
    ("float32", 256): (256, 64, 256),
    ("float32", 1024): (256, 128, 256),
    ("bfloat16", 256): (256, 64, 256),
    ("bfloat16", 1024): (256, 128, 1024),
    ("int8", 256): (256, 64, 256),
    ("int8", 1024): (256, 128, 512),
}


def gemm(M, N, K, block_M, block_N, block_K, dtype, transpose_B=False):
    accumulator = "int32" if dtype == "int8" else "float32"
    result = "int32" if dtype == "int8" else dtype

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K) if transpose_B else (K, N), dtype), C: T.Tensor((M, N), result)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K) if transpose_B else (block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accumulator)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                if transpose_B:
                    T.copy(B[bx * block_N, k * block_K], B_shared)
                else:
                    T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=transpose_B)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def taken(functions, seconds: float, threads: int) -> list[list[float]]:
    """The times of each function, in seconds; they take turns for about ``seconds`` each."""
    torch.set_num_threads(threads)
    clock = time.thread_time if threads == 1 else time.perf_counter
    times: list[list[float]] = [[] for _ in functions]
    for function in functions:
        function()
    end = time.perf_counter() + seconds * len(functions)
    while time.perf_counter() < end:
        for function, own in zip(functions, times):
            start = clock()
            function()
            own.append(clock() - start)
    return times


def ratios(times: list[list[float]]) -> str:
    """How many times as fast the second is as the first: by the best times, and by the medians."""
    theirs, ours = times
    return f"{min(theirs) / min(ours):>6.2f} {statistics.median(theirs) / statistics.median(ours):>7.2f}"


def operands(dtype: str, size: int, transpose_b: bool):
    """Two matrices, and B as a kernel takes it."""
    if dtype == "int8":
        a, b = (torch.randint(-128, 128, (size, size), dtype=torch.int8) for _ in range(2))
    else:
        a, b = (torch.randn(size, size).to(getattr(torch, dtype)) for _ in range(2))
    return a, (b.T, b) if transpose_b else (b, b)


def main() -> None:
    """Prints one line for each type, size and number of threads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cpu", help="cpu (LLVM) or c")
    parser.add_argument("--transpose-b", action="store_true", help="B is stored as its transpose")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each side of each line")
    options = parser.parse_args()
    print(f"{'type':<9} {'size':>5} {'threads':>7} {'torch G/s':>10} {'ours G/s':>9} {'ratio':>6} {'medians':>7}")
    for (dtype, size), (bm, bn, bk) in TILES.items():
        kernel = tilelang.compile(gemm(size, size, size, bm, bn, bk, dtype, options.transpose_b), target=options.target)
        a, (b, given) = operands(dtype, size, options.transpose_b)
        c = torch.empty(size, size, dtype=torch.int32 if dtype == "int8" else a.dtype)
        kernel(a, given, c)
        want = torch._int_mm(a, b.contiguous()) if dtype == "int8" else a @ b
        tolerance = {"bfloat16": 2e-2, "float32": 1e-4, "int8": 0}[dtype]
        torch.testing.assert_close(c, want, rtol=tolerance, atol=tolerance * size**0.5)

        theirs = partial(torch._int_mm, a, b) if dtype == "int8" else partial(torch.matmul, a, b, out=torch.empty_like(c))
        for threads in (1, 2):
            times = taken([theirs, partial(kernel, a, given, c)], options.seconds, threads)
            rate = [2 * size**3 / min(own) / 1e9 for own in times]
            print(f"{dtype:<9} {size:>5} {threads:>7} {rate[0]:>10.0f} {rate[1]:>9.0f} {ratios(times)}", flush=True)


if __name__ == "__main__":
    main()
