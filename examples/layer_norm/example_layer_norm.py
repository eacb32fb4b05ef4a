"""Layer normalisation: mean and variance of each row, then scale and shift.

What to learn: two reductions of a row that stays in registers. The mean is subtracted before the squares are summed.

Why so: the other formula, mean of squares minus square of the mean, cancels for rows far from zero. A few rows a block give
every thread enough to do; weight and bias are read by column and broadcast over the rows.

Next: rows too long for registers as in ``rms_norm``'s second kernel; the gradients are in ``layer_norm_backward``.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit(out_idx=[-1])
def layer_norm(M, N, block_M=4, dtype="float32", epsilon=1e-5):
    @T.prim_func
    def main(
        X: T.Tensor((M, N), dtype),
        weight: T.Tensor((N,), dtype),
        bias: T.Tensor((N,), dtype),
        Y: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, N), "float32")
            square = T.alloc_fragment((block_M, N), "float32")
            mean = T.alloc_fragment((block_M,), "float32")
            variance = T.alloc_fragment((block_M,), "float32")

            T.copy(X[bx * block_M, 0], x)
            T.reduce_sum(x, mean, dim=1)
            for i in T.Parallel(block_M):
                mean[i] = mean[i] / N
            for i, j in T.Parallel(block_M, N):
                x[i, j] = x[i, j] - mean[i]
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, variance, dim=1)
            for i in T.Parallel(block_M):
                variance[i] = T.rsqrt(variance[i] / N + epsilon)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = x[i, j] * variance[i] * weight[j] + bias[j]
            T.copy(x, Y[bx * block_M, 0])

    return main


def main(M: int = 250, N: int = 768) -> None:
    x = torch.randn(M, N, device=DEVICE) * 3 + 1
    weight = torch.randn(N, device=DEVICE)
    bias = torch.randn(N, device=DEVICE)
    y = layer_norm(M, N)(x, weight, bias)
    torch.testing.assert_close(y, torch.nn.functional.layer_norm(x, (N,), weight, bias), rtol=1e-4, atol=1e-4)
    print("layer norm: matches torch")


if __name__ == "__main__":
    main()
