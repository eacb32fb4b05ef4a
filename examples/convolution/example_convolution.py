"""Two-dimensional convolution (NHWC) as a matrix product: tiles of the im2col matrix are formed while they are loaded.

What to learn: a convolution is a matrix product of a matrix that is never stored. ``T.c2d_im2col`` loads a tile of it: a row
is an output position, a column a position in the filter and a channel; ``T.reshape`` shows weights and output as matrices.

Why so: the im2col matrix is K * K times as large as the image. Forming its tiles in shared memory costs the address
arithmetic of the copy and keeps the product as it is. Channels lie last in memory (NHWC), so that a tile's columns are
contiguous.

Next: a bias and an activation before the store; strides and dilations are arguments already.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit(out_idx=[-1])
def convolution(N, C, H, W, F, K, S, D, P, block_M=64, block_N=64, block_K=32, dtype="float16"):
    OH = (H + 2 * P - D * (K - 1) - 1) // S + 1
    OW = (W + 2 * P - D * (K - 1) - 1) // S + 1

    @T.prim_func
    def main(
        data: T.Tensor((N, H, W, C), dtype),
        weight: T.Tensor((K, K, C, F), dtype),
        out: T.Tensor((N, OH, OW, F), dtype),
    ):
        with T.Kernel(T.ceildiv(F, block_N), T.ceildiv(N * OH * OW, block_M), threads=128) as (bx, by):
            data_shared = T.alloc_shared((block_M, block_K), dtype)
            weight_shared = T.alloc_shared((block_K, block_N), dtype)
            out_local = T.alloc_fragment((block_M, block_N), "float32")
            weight_flat = T.reshape(weight, (K * K * C, F))
            out_flat = T.reshape(out, (N * OH * OW, F))

            T.clear(out_local)
            for k in T.Pipelined(T.ceildiv(K * K * C, block_K), num_stages=2):
                T.c2d_im2col(data, data_shared, by, k, K, S, D, P)
                T.copy(weight_flat[k * block_K, bx * block_N], weight_shared)
                T.gemm(data_shared, weight_shared, out_local)
            T.copy(out_local, out_flat[by * block_M, bx * block_N])

    return main


def main(N: int = 2, C: int = 32, H: int = 18, W: int = 20, F: int = 48) -> None:
    for kernel, stride, dilation, padding in ((3, 1, 1, 1), (3, 2, 1, 1), (1, 1, 1, 0), (3, 1, 2, 2)):
        data = torch.randn(N, H, W, C, device=DEVICE, dtype=torch.float16)
        weight = torch.randn(kernel, kernel, C, F, device=DEVICE, dtype=torch.float16)
        out = convolution(N, C, H, W, F, kernel, stride, dilation, padding)(data, weight)
        reference = torch.nn.functional.conv2d(
            data.float().permute(0, 3, 1, 2),
            weight.float().permute(3, 2, 0, 1),
            stride=stride,
            padding=padding,
            dilation=dilation,
        ).permute(0, 2, 3, 1)
        torch.testing.assert_close(out.float(), reference, rtol=1e-2, atol=2e-2)
    print("convolution: matches torch")


if __name__ == "__main__":
    main()
