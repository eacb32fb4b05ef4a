"""Softmax and RMS norm on the CPU beside torch's own, at equal threads.

    python benchmark/cpu_rows.py [--target c] [--seconds 0.5]

One block takes one row, which stays in the first-level cache. Both sides write into existing tensors where torch can;
cpu_gemm.py says how they are measured.
"""

from __future__ import annotations

import argparse

import torch
from cpu_gemm import ratios, taken

import tilelang
import tilelang.language as T

LOG2_E = 1.4426950408889634
SHAPES = ((512, 1000), (512, 1024), (2048, 2048))


def softmax(M, N):
    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(M, threads=128) as row:
            x = T.alloc_fragment((1, N), "float32")
            most = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(X[row, 0], x)
            T.reduce_max(x, most, dim=1)
            for i, j in T.Parallel(1, N):
                x[i, j] = T.exp2((x[i, j] - most[i]) * LOG2_E)
            T.reduce_sum(x, total, dim=1)
            for i in T.Parallel(1):
                total[i] = 1.0 / total[i]
            for i, j in T.Parallel(1, N):
                Y[row, j] = x[i, j] * total[i]

    return main


def rms_norm(M, N, epsilon=1e-5):
    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), W: T.Tensor((N,), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(M, threads=128) as row:
            x = T.alloc_fragment((1, N), "float32")
            squares = T.alloc_fragment((1, N), "float32")
            scale = T.alloc_fragment((1,), "float32")
            T.copy(X[row, 0], x)
            for i, j in T.Parallel(1, N):
                squares[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(squares, scale, dim=1)
            for i in T.Parallel(1):
                scale[i] = T.rsqrt(scale[i] / N + epsilon)
            for i, j in T.Parallel(1, N):
                Y[row, j] = x[i, j] * scale[i] * W[j]

    return main


def main() -> None:
    """Prints one line for each operation, shape and number of threads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="cpu", help="cpu (LLVM) or c")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each side of each line")
    options = parser.parse_args()
    print(f"{'operation':<10} {'shape':>12} {'threads':>7} {'torch us':>9} {'ours us':>9} {'ratio':>6} {'medians':>7}")
    for M, N in SHAPES:
        x, w, y = torch.randn(M, N), torch.randn(N), torch.empty(M, N)
        kernels = [tilelang.compile(program(M, N), target=options.target) for program in (softmax, rms_norm)]
        pairs = {
            "softmax": (lambda x=x, y=y: torch.softmax(x, 1, out=y), lambda x=x, y=y, k=kernels[0]: k(x, y)),
            "rms_norm": (
                lambda x=x, w=w, N=N: torch.nn.functional.rms_norm(x, (N,), w, 1e-5),
                lambda x=x, w=w, y=y, k=kernels[1]: k(x, w, y),
            ),
        }
        for name, (theirs, ours) in pairs.items():
            reference = theirs().clone()
            ours()
            torch.testing.assert_close(y, reference, rtol=1e-5, atol=1e-6)
            for threads in (1, 2):
                times = taken([theirs, ours], options.seconds, threads)
                best = [min(own) * 1e6 for own in times]
                line = f"{name:<10} {f'{M}x{N}':>12} {threads:>7} {best[0]:>9.0f} {best[1]:>9.0f} {ratios(times)}"
                print(line, flush=True)


if __name__ == "__main__":
    main()
