"""Stream-K without atomic sums: who ends a tile waits for those before it, which run first, and adds their parts in order."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"M": 100, "N": 128, "K": 300}
LARGE = {"streamk": {"M": 1024, "N": 4096, "K": 8192, "programs": 132}}


@tilelang.jit
def streamk(M, N, K, programs=5, block=64, block_K=32, dtype="float16"):
    tiles_m, tiles_n, iters = T.ceildiv(M, block), T.ceildiv(N, block), T.ceildiv(K, block_K)
    total = tiles_m * tiles_n * iters
    per = T.ceildiv(total, programs)

    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        C: T.Tensor((M, N), "float32"),
        Part: T.Tensor((programs, block, block), "float32"),
        Flag: T.Tensor((programs,), "int32"),
    ):
        with T.Kernel(programs, threads=128) as pid:
            A_s = T.alloc_shared((block, block_K), dtype)
            B_s = T.alloc_shared((block_K, block), dtype)
            acc = T.alloc_fragment((block, block), "float32")
            other = T.alloc_fragment((block, block), "float32")
            at = T.alloc_var("int32", init=0)
            end = T.alloc_var("int32", init=0)
            at = pid * per
            end = T.min(at + per, total)
            while at < end:
                tile = at // iters
                k0 = at % iters
                k1 = T.min(iters, k0 + end - at)
                T.clear(acc)
                for k in T.Pipelined(k0, k1, num_stages=2):
                    T.copy(A[tile // tiles_n * block, k * block_K], A_s)
                    T.copy(B[k * block_K, tile % tiles_n * block], B_s)
                    T.gemm(A_s, B_s, acc)
                if k0 == 0 and k1 == iters:
                    T.copy(acc, C[tile // tiles_n * block, tile % tiles_n * block])
                elif k1 == iters:
                    done = T.alloc_var("int32", init=0)
                    p = T.alloc_var("int32", init=0)
                    done = iters - k0
                    p = pid - 1
                    while done < iters:
                        while T.atomic_load(Flag[p], memory_order="acquire") == 0:
                            pass
                        T.copy(Part[p, :, :], other)
                        for i, j in T.Parallel(block, block):
                            acc[i, j] += other[i, j]
                        done += T.min(per, iters - done)
                        p -= 1
                    T.copy(acc, C[tile // tiles_n * block, tile % tiles_n * block])
                else:
                    T.copy(acc, Part[pid, :, :])
                    T.atomic_store(Flag[pid], 1, memory_order="release")
                at += k1 - k0

    return main


def check(M, N, K):
    a, b, c = torch.randn(M, K).half(), torch.randn(K, N).half(), torch.zeros(M, N)
    streamk(M, N, K)(a, b, c, torch.zeros(5, 64, 64), torch.zeros(5).int())
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-2, atol=1e-2)
