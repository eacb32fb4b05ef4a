"""Matrix-vector product: a band of rows a block, partial sums along K reduced at the end.

What to learn: a reduction without tensor cores. Each block has a band of rows; partial sums stay in a fragment of (rows,
columns of a tile) and are reduced once, after the loop.

Why so: a matrix-vector product reads each element of A once, so only the width of its loads counts. Reducing in each
iteration would exchange data between threads every time.

Next: ``splitk_gemm``'s idea for few, long rows; int8 or 4-bit weights as in ``dequantize_gemm``.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit(out_idx=[-1])
def gemv(N, K, block_N=16, block_K=128, dtype="float16", accum_dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((N, K), dtype), x: T.Tensor((K,), dtype), y: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), threads=128) as bn:
            A_local = T.alloc_fragment((block_N, block_K), dtype)
            x_local = T.alloc_fragment((block_K,), dtype)
            partial = T.alloc_fragment((block_N, block_K), accum_dtype)
            total = T.alloc_fragment((block_N,), accum_dtype)

            T.clear(partial)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[bn * block_N, k * block_K], A_local)
                T.copy(x[k * block_K], x_local)
                for i, j in T.Parallel(block_N, block_K):
                    partial[i, j] += T.cast(A_local[i, j], accum_dtype) * T.cast(x_local[j], accum_dtype)
            T.reduce_sum(partial, total, dim=1)
            T.copy(total, y[bn * block_N])

    return main


def main(N: int = 1000, K: int = 1030) -> None:
    a = torch.randn(N, K, device=DEVICE, dtype=torch.float16)
    x = torch.randn(K, device=DEVICE, dtype=torch.float16)
    y = gemv(N, K)(a, x)
    torch.testing.assert_close(y, (a.float() @ x.float()).half(), rtol=1e-2, atol=1e-2)
    print("GEMV: matches torch")


if __name__ == "__main__":
    main()
