"""The gradients of layer normalisation: of the input row by row, of weight and bias as sums over all rows.

What to learn: two reductions in different directions in one kernel. Along rows they are ``T.reduce_sum`` of a tile; over
rows each block keeps running sums in registers while it walks through its share of the rows, and writes one row of partial
sums. A second kernel adds the partial sums in a fixed order.

Why so: adding to weight and bias atomically from every row would serialise on a few thousand addresses, and give other last
bits in every run. A fixed number of blocks bounds the partial sums, whatever the number of rows.

Next: RMS normalisation (leave out the mean); add the gradient of a residual connection to the input's.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit(out_idx=[5, 6, 7])
def layer_norm_backward(N, blocks=8, block_M=4, threads=128, dtype="float16"):
    M = T.dynamic("M")

    @T.prim_func
    def main(
        X: T.Tensor((M, N), dtype),
        dY: T.Tensor((M, N), dtype),
        weight: T.Tensor((N,), dtype),
        mean: T.Tensor((M,), "float32"),
        rstd: T.Tensor((M,), "float32"),
        dX: T.Tensor((M, N), dtype),
        dweight: T.Tensor((N,), "float32"),
        dbias: T.Tensor((N,), "float32"),
    ):
        partial = T.alloc_global((blocks, 2, N), "float32")

        with T.Kernel(blocks, threads=threads) as bx:
            x = T.alloc_fragment((block_M, N), "float32")
            dy = T.alloc_fragment((block_M, N), "float32")
            normed_part = T.alloc_fragment((block_M, N), "float32")
            sum_dy = T.alloc_fragment((block_M,), "float32")
            sum_normed = T.alloc_fragment((block_M,), "float32")
            column_weight = T.alloc_fragment((N,), "float32")
            column_bias = T.alloc_fragment((N,), "float32")

            T.clear(column_weight)
            T.clear(column_bias)
            for step in T.serial(T.ceildiv(T.ceildiv(M, block_M), blocks)):
                row = (step * blocks + bx) * block_M
                if row < M:
                    T.copy(X[row, 0], x)
                    T.copy(dY[row, 0], dy)
                    for i, j in T.Parallel(block_M, N):
                        m = T.min(row + i, M - 1)
                        x[i, j] = (x[i, j] - mean[m]) * rstd[m]
                        normed_part[i, j] = x[i, j] * dy[i, j]
                    T.reduce_sum(normed_part, column_weight, dim=0, clear=False)
                    T.reduce_sum(dy, column_bias, dim=0, clear=False)
                    for i, j in T.Parallel(block_M, N):
                        dy[i, j] *= weight[j]
                        normed_part[i, j] = x[i, j] * dy[i, j]
                    T.reduce_sum(dy, sum_dy, dim=1)
                    T.reduce_sum(normed_part, sum_normed, dim=1)
                    for i, j in T.Parallel(block_M, N):
                        if row + i < M:
                            dX[row + i, j] = (dy[i, j] - (sum_dy[i] + x[i, j] * sum_normed[i]) / N) * rstd[row + i]
            T.copy(column_weight, partial[bx, 0, :])
            T.copy(column_bias, partial[bx, 1, :])

        with T.Kernel(T.ceildiv(N, threads), threads=threads) as bx:
            total = T.alloc_fragment((2, threads), "float32")
            part = T.alloc_fragment((2, threads), "float32")
            T.clear(total)
            for b in T.serial(blocks):
                T.copy(partial[b, :, bx * threads : (bx + 1) * threads], part)
                for k, j in T.Parallel(2, threads):
                    total[k, j] += part[k, j]
            T.copy(total[0, :], dweight[bx * threads])
            T.copy(total[1, :], dbias[bx * threads])

    return main


def main(M: int = 100, N: int = 768) -> None:
    x, dy = (torch.randn(M, N, device=DEVICE, dtype=torch.float16) for _ in range(2))
    weight = torch.rand(N, device=DEVICE).half() + 0.5
    wide = [t.float().requires_grad_() for t in (x, weight, torch.zeros(N, device=DEVICE))]
    torch.nn.functional.layer_norm(wide[0], (N,), wide[1], wide[2]).backward(dy.float())
    mean, rstd = x.float().mean(1), torch.rsqrt(x.float().var(1, correction=0) + 1e-5)
    got = layer_norm_backward(N)(x, dy, weight, mean, rstd)
    for gradient, expected in zip(got, wide):
        torch.testing.assert_close(gradient.float(), expected.grad, rtol=1e-2, atol=1e-2)
    print("layer norm backward: matches torch")


if __name__ == "__main__":
    main()
