"""Split-K whose result has the same bits in every run: the block that finishes last adds the parts in their order.

What to learn: how blocks hand data on. Each block stores its part of the sum, then raises a counter of its tile;
``memory_order=`` ``"acq_rel"`` makes what was written before the addition visible to blocks that see the new value. The block
that gets the last number knows that all parts are there.

Why so: ``splitk_gemm`` adds the parts atomically, in the order in which blocks happen to finish, and floats added in another
order have other last bits. Waiting in turn would be in order too, but blocks would idle; here no block waits. The
counters are left at zero, so that the next call needs no clearing.

Next: give the last block only its share (each of the blocks adds a slice, after a second counter); compare with
``streamk_gemm``.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit(out_idx=[-1])
def matmul_splitk(M, N, K, splits, block_M=64, block_N=64, block_K=32, dtype="float16"):
    share = T.ceildiv(T.ceildiv(K, block_K), splits)

    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        counters: T.Tensor((T.ceildiv(M, block_M), T.ceildiv(N, block_N)), "int32"),
        C: T.Tensor((M, N), dtype),
    ):
        parts = T.alloc_global((splits, M, N), "float32")

        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), splits, threads=128) as (bx, by, bz):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            part = T.alloc_fragment((block_M, block_N), "float32")

            T.clear(acc)
            for k in T.Pipelined(share, num_stages=2):
                T.copy(A[by * block_M, (bz * share + k) * block_K], A_shared)
                T.copy(B[(bz * share + k) * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, acc)
            T.copy(acc, parts[bz, by * block_M, bx * block_N])

            ticket = T.atomic_add(counters[by, bx], 1, memory_order="acq_rel", return_prev=True)
            if ticket == splits - 1:
                T.clear(acc)
                for s in T.serial(splits):
                    T.copy(parts[s, by * block_M, bx * block_N], part)
                    for i, j in T.Parallel(block_M, block_N):
                        acc[i, j] += part[i, j]
                T.copy(acc, C[by * block_M, bx * block_N])
                counters[by, bx] = 0

    return main


def main(M: int = 100, N: int = 130, K: int = 1000, splits: int = 4, block: int = 64) -> None:
    a = torch.randn(M, K, device=DEVICE, dtype=torch.float16)
    b = torch.randn(K, N, device=DEVICE, dtype=torch.float16)
    counters = torch.zeros(-(-M // block), -(-N // block), device=DEVICE, dtype=torch.int32)
    kernel = matmul_splitk(M, N, K, splits)
    c = kernel(a, b, counters)
    torch.testing.assert_close(c.float(), a.float() @ b.float(), rtol=1e-2, atol=1e-2)
    assert torch.equal(kernel(a, b, counters), c)
    assert not counters.any()
    print("deterministic split-K GEMM: matches torch")


if __name__ == "__main__":
    main()
