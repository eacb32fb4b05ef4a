"""The gradients of a convolution in NHWC: of the weights as a product of columns, of the input as a gather."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"N": 1, "C": 8, "H": 7, "W": 9, "F": 24}
LARGE = {
    "weight_gradient": {"N": 16, "C": 256, "H": 56, "W": 56, "F": 256},
    "input_gradient": {"N": 16, "C": 256, "H": 56, "W": 56, "F": 256},
}


@tilelang.jit(out_idx=[2])
def weight_gradient(N, C, H, W, F, K=3, S=1, P=1, block_M=64, block_N=32, block_K=32, dtype="float16"):
    OH, OW = (H + 2 * P - K) // S + 1, (W + 2 * P - K) // S + 1

    @T.prim_func
    def main(X: T.Tensor((N, H, W, C), dtype), dY: T.Tensor((N, OH, OW, F), dtype), dW: T.Tensor((K, K, C, F), "float32")):
        with T.Kernel(T.ceildiv(F, block_N), T.ceildiv(K * K * C, block_M), threads=128) as (bx, by):
            cols = T.alloc_shared((block_K, block_M), dtype)
            g = T.alloc_shared((block_K, block_N), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            dY_flat = T.Tensor((N * OH * OW, F), dtype, dY.data)
            dW_flat = T.Tensor((K * K * C, F), "float32", dW.data)
            T.clear(acc)
            for p in T.Pipelined(T.ceildiv(N * OH * OW, block_K), num_stages=2):
                for i, j in T.Parallel(block_K, block_M):
                    m = p * block_K + i
                    k = by * block_M + j
                    h = m % (OH * OW) // OW * S + k // (K * C) - P
                    w = m % OW * S + k // C % K - P
                    inside = h >= 0 and w >= 0 and h < H and w < W and m < N * OH * OW and k < K * K * C
                    cols[i, j] = T.if_then_else(inside, X[m // (OH * OW), h, w, k % C], 0)
                T.copy(dY_flat[p * block_K, bx * block_N], g)
                T.gemm(cols, g, acc, transpose_A=True)
            T.copy(acc, dW_flat[by * block_M, bx * block_N])

    return main


@tilelang.jit(out_idx=[2])
def input_gradient(N, C, H, W, F, K=3, P=1, block=32, dtype="float16"):
    OH, OW = H + 2 * P - K + 1, W + 2 * P - K + 1

    @T.prim_func
    def main(Wt: T.Tensor((K, K, C, F), dtype), dY: T.Tensor((N, OH, OW, F), dtype), dX: T.Tensor((N, H, W, C), dtype)):
        with T.Kernel(T.ceildiv(C, block), W, N * H, threads=128) as (bc, w, nh):
            n, h = nh // H, nh % H
            acc = T.alloc_reducer((block,), "float32", op="sum")
            out = T.alloc_fragment((block,), "float32")
            T.clear(acc)
            for kh, kw in T.grid(K, K):
                oh, ow = h + P - kh, w + P - kw
                if 0 <= oh < OH and 0 <= ow < OW:
                    for c, f in T.Parallel(block, F):
                        if bc * block + c < C:
                            acc[c] += T.cast(dY[n, oh, ow, f], "float32") * Wt[kh, kw, bc * block + c, f]
            T.finalize_reducer(acc, out)
            T.copy(out, dX[n, h, w, bc * block])

    return main


def check(N, C, H, W, F):
    x, dy, wt = torch.randn(N, H, W, C).half(), torch.randn(N, H, W, F).half(), torch.randn(3, 3, C, F).half()
    X, Wt = x.float().permute(0, 3, 1, 2).requires_grad_(), wt.float().permute(3, 2, 0, 1).requires_grad_()
    torch.nn.functional.conv2d(X, Wt, padding=1).backward(dy.float().permute(0, 3, 1, 2))
    torch.testing.assert_close(weight_gradient(N, C, H, W, F)(x, dy), Wt.grad.permute(2, 3, 1, 0), rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(input_gradient(N, C, H, W, F)(wt, dy).float(), X.grad.permute(0, 2, 3, 1), rtol=1e-2, atol=1e-1)
