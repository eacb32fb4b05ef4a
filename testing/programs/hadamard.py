"""Fast Walsh-Hadamard transform of rows: butterflies in registers, between lanes by shuffles, then through shared memory."""

import math

import torch

import tilelang
import tilelang.language as T

SMALL = {"rows": 5, "n": 1024}
LARGE = {"hadamard": {"rows": 8192, "n": 16384}}
TARGETS = ("interpret", "sm_80", "sm_90a")


@tilelang.jit(out_idx=[1])
def hadamard(rows, n, dtype="float32"):
    logn = int(math.log2(n))
    threads = min(256, n // 4)
    per_thread = n // threads
    local_steps = int(math.log2(per_thread))
    lane_steps = 5

    @T.macro
    def butterflies(local, steps, distance):
        for s in range(steps):
            chunk = 1 << (s + 1)
            for j in T.serial(per_thread // chunk):
                for k in T.serial(chunk // 2):
                    a = local[j * chunk + k]
                    b = local[j * chunk + k + chunk // 2]
                    local[j * chunk + k] = a + b
                    local[j * chunk + k + chunk // 2] = a - b

    @T.prim_func
    def main(A: T.Tensor((rows, n), dtype), B: T.Tensor((rows, n), dtype)):
        with T.Kernel(rows, threads=threads) as bx:
            local = T.alloc_local((per_thread,), dtype)
            shared = T.alloc_shared((n,), dtype)
            tx = T.get_thread_binding(0)
            for i in T.vectorized(per_thread):
                local[i] = A[bx, tx * per_thread + i]
            butterflies(local, local_steps, 1)
            for s in T.unroll(lane_steps):
                for i in T.serial(per_thread):
                    other = T.shfl_xor(local[i], 1 << s)
                    local[i] = T.if_then_else((tx >> s) & 1 == 0, local[i] + other, other - local[i])
            for i in T.serial(per_thread):
                shared[tx * per_thread + i] = local[i]
            T.sync_threads()
            for s in T.serial(logn - local_steps - lane_steps):
                stride = 1 << (s + local_steps + lane_steps)
                for i in T.serial(n // 2 // threads):
                    pair = i * threads + tx
                    low = (pair // stride) * (2 * stride) + pair % stride
                    a = shared[low]
                    b = shared[low + stride]
                    shared[low] = a + b
                    shared[low + stride] = a - b
                T.sync_threads()
            for i in T.serial(per_thread):
                B[bx, i * threads + tx] = shared[i * threads + tx]

    return main


def check(rows, n):
    x = torch.randn(rows, n)
    matrix = torch.ones(1, 1)
    while len(matrix) < n:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    torch.testing.assert_close(hadamard(rows, n)(x), x @ matrix, rtol=1e-4, atol=1e-3)
