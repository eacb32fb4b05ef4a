"""GEMM on the CPU beside ``torch.matmul`` at equal threads: float32 and bfloat16, 256^3 and 1024^3.

    python benchmark/cpu_gemm.py [--target c] [--seconds 1.0]

Both sides take turns in one process; the best time of each counts, since what disturbs a run only ever makes it slower.
The kernel is an ordinary tile program; its tile sizes are chosen for a cache, not for a GPU.
"""

from __future__ import annotations

import argparse
import time

import torch

import tilelang
import tilelang.language as T

TILES = {
    # (dtype, size) -> block rows, columns, depth
    ("float32", 256): (128, 64, 256),
    ("float32", 1024): (128, 128, 256),
    ("bfloat16", 256): (128, 64, 256),
    ("bfloat16", 1024): (256, 128, 512),
}


def gemm(M, N, K, block_M, block_N, block_K, dtype):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def best(functions, seconds: float) -> list[float]:
    """The shortest time of each function, in seconds; they take turns for about ``seconds`` each."""
    times = [float("inf")] * len(functions)
    for function in functions:
        function()
    end = time.perf_counter() + seconds * len(functions)
    while time.perf_counter() < end:
        for position, function in enumerate(functions):
            start = time.perf_counter()
            function()
            times[position] = min(times[position], time.perf_counter() - start)
    return times


def main() -> None:
    """Prints one line for each type, size and number of threads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="cpu", help="cpu (LLVM) or c")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each side of each line")
    options = parser.parse_args()
    print(f"{'type':<9} {'size':>5} {'threads':>7} {'torch GF/s':>11} {'ours GF/s':>10} {'ratio':>6}")
    for (dtype, size), (bm, bn, bk) in TILES.items():
        kernel = tilelang.compile(gemm(size, size, size, bm, bn, bk, dtype), target=options.target)
        kind = getattr(torch, dtype)
        a, b = torch.randn(size, size).to(kind), torch.randn(size, size).to(kind)
        c, reference = torch.empty_like(a), torch.empty_like(a)
        kernel(a, b, c)
        tolerance = 2e-2 if dtype == "bfloat16" else 1e-4
        torch.testing.assert_close(c, a @ b, rtol=tolerance, atol=tolerance * size**0.5)
        for threads in (1, 2):
            torch.set_num_threads(threads)
            theirs, ours = best(
                [lambda a=a, b=b, r=reference: torch.matmul(a, b, out=r), lambda k=kernel, a=a, b=b, c=c: k(a, b, c)],
                options.seconds,
            )
            rate = [2 * size**3 / t / 1e9 for t in (theirs, ours)]
            print(f"{dtype:<9} {size:>5} {threads:>7} {rate[0]:>11.0f} {rate[1]:>10.0f} {theirs / ours:>6.2f}", flush=True)


if __name__ == "__main__":
    main()
