"""Split-K matrix product: several blocks sum parts of K for one tile of C, and meet in an atomic addition.

What to learn: a grid axis along the sum. Blocks with the same tile of C sum different parts of K and add them to C
atomically, a tile at a time.

Why so: a small C with a long K has too few tiles to fill a GPU. C is float32 and starts at zero: the caller provides it, as
the kernel adds to what is there. The order of the additions, and with it the last bits, differs between runs;
``deterministic_splitk`` fixes the order.

Next: choose ``split`` by the number of tiles; see ``streamk_gemm`` for an even share.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit
def matmul_splitk(M, N, K, split=4, block_M=64, block_N=64, block_K=32, dtype="float16"):
    part = T.ceildiv(T.ceildiv(K, split), block_K) * block_K

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), split, threads=128) as (bx, by, bz):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")

            T.clear(C_local)
            for k in T.Pipelined(part // block_K, num_stages=2):
                T.copy(A[by * block_M, bz * part + k * block_K], A_shared)
                T.copy(B[bz * part + k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.atomic_add(C[by * block_M, bx * block_N], C_local)

    return main


def main(M: int = 128, N: int = 192, K: int = 1000) -> None:
    a = torch.randn(M, K, device=DEVICE, dtype=torch.float16)
    b = torch.randn(K, N, device=DEVICE, dtype=torch.float16)
    c = torch.zeros(M, N, device=DEVICE)
    matmul_splitk(M, N, K)(a, b, c)
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-2, atol=1e-2)
    print("split-K GEMM: matches torch")


if __name__ == "__main__":
    main()
