"""2:4 sparse matrix product: of every four consecutive elements of a row of A, two are kept.

What to learn: structured sparsity. Of every four elements two are kept, with two bits each for their places; ``T.gemm_sp``
multiplies by them.

Why so: tensor cores skip the zeros of this pattern at twice the rate, and A takes half the memory. ``compress`` keeps the
two largest of each four; the places of four elements are one word of metadata for each 16 columns.

Next: prune a trained layer and fine-tune it; int8 and bfloat16 operands.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit(out_idx=[-1])
def matmul_sparse(M, N, K, block_M=64, block_N=64, block_K=64, dtype="float16"):
    @T.prim_func
    def main(
        A: T.Tensor((M, K // 2), dtype),
        E: T.Tensor((M, K // 16), "uint16"),
        B: T.Tensor((K, N), dtype),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K // 2), dtype)
            E_shared = T.alloc_shared((block_M, block_K // 16), "uint16")
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")

            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * (block_K // 2)], A_shared)
                T.copy(E[by * block_M, k * (block_K // 16)], E_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm_sp(A_shared, E_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def compress(dense: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The two largest of every four elements of a row, their positions (two bits each, the first lowest), and what is left."""
    M, K = dense.shape
    groups = dense.view(M, K // 4, 4)
    position = groups.abs().topk(2, dim=2).indices.sort(dim=2).values
    kept = groups.gather(2, position)
    pruned = torch.zeros_like(groups).scatter_(2, position, kept).view(M, K)
    bits = (position[..., 0] | position[..., 1] << 2).view(M, K // 16, 4)
    metadata = sum(bits[..., i] << (4 * i) for i in range(4)).to(torch.int32).to(torch.uint16)
    return kept.reshape(M, K // 2).contiguous(), metadata, pruned


def main(M: int = 128, N: int = 96, K: int = 256) -> None:
    kept, metadata, pruned = compress(torch.randn(M, K, device=DEVICE, dtype=torch.float16))
    b = torch.randn(K, N, device=DEVICE, dtype=torch.float16)
    c = matmul_sparse(M, N, K)(kept, metadata, b)
    torch.testing.assert_close(c, pruned.float() @ b.float(), rtol=1e-2, atol=1e-2)
    print("2:4 sparse GEMM: matches torch")


if __name__ == "__main__":
    main()
