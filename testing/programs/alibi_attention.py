"""Attention with a bias and a mask of each key, softcapped scores and T.macro steps, in eager style with lists of buffers."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"heads": 2, "length": 75, "dim": 32}
LARGE = {}


@tilelang.jit
def attention(Q, K, V, slopes, keep, block_M: int = 32, block_N: int = 32, cap: float = 20.0):
    B, H, N, D = T.const("B, H, N, D")
    Q: T.Tensor[[B, H, N, D], T.float16]
    K: T.Tensor[[B, H, N, D], T.float16]
    V: T.Tensor[[B, H, N, D], T.float16]
    slopes: T.Tensor[[H], T.float32]
    keep: T.Tensor[[B, N], T.bool]
    out = T.empty([B, H, N, D], T.float16)
    with T.Kernel(T.ceildiv(N, block_M), H, B, threads=64) as (bm, h, b):
        q = T.alloc_shared([block_M, D], T.float16)
        k, v = (T.alloc_shared([block_N, D], T.float16) for _ in range(2))
        s, p = T.alloc_fragment([block_M, block_N], T.float32), T.alloc_fragment([block_M, block_N], T.float16)
        o = T.alloc_fragment([block_M, D], T.float32)
        state = {name: T.alloc_fragment([block_M], T.float32) for name in ("max", "old", "sum", "part")}
        T.copy(Q[b, h, bm * block_M, 0], q)
        for buffer, value in ((o, 0), (state["sum"], 0), (state["max"], -1e30)):
            T.fill(buffer, value)
        for n in T.Pipelined(T.ceildiv(N, block_N), num_stages=2):
            T.copy(K[b, h, n * block_N, 0], k)
            T.copy(V[b, h, n * block_N, 0], v)
            T.gemm(q, k, s, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(block_M, block_N):
                distance = T.abs((bm * block_M + i) - (n * block_N + j))
                s[i, j] = cap * T.tanh(s[i, j] * (D**-0.5 / cap)) - slopes[h] * distance
                column = n * block_N + j
                if column >= N or not keep[b, column]:
                    s[i, j] = -1e30
            T.copy(state["max"], state["old"])
            T.reduce_max(s, state["max"], dim=1, clear=False)
            for i, j in T.Parallel(block_M, block_N):
                s[i, j] = T.exp(s[i, j] - state["max"][i])
            T.reduce_sum(s, state["part"], dim=1)
            for i in T.Parallel(block_M):
                state["sum"][i] = state["sum"][i] * T.exp(state["old"][i] - state["max"][i]) + state["part"][i]
            for i, j in T.Parallel(block_M, D):
                o[i, j] *= T.exp(state["old"][i] - state["max"][i])
            T.copy(s, p)
            T.gemm(p, v, o)
        for i, j in T.Parallel(block_M, D):
            o[i, j] /= state["sum"][i]
        T.copy(o, out[b, h, bm * block_M, 0])
    return out


def check(heads, length, dim):
    q, k, v = (torch.randn(1, heads, length, dim).half() for _ in range(3))
    slopes, keep = torch.tensor([2.0**-i for i in range(1, heads + 1)]), torch.rand(1, length) < 0.8
    keep[0, 3] = True
    scores = 20 * torch.tanh(q.float() @ k.float().mT * dim**-0.5 / 20)
    gap = (torch.arange(length)[:, None] - torch.arange(length)).abs()
    scores = (scores - slopes[:, None, None] * gap).masked_fill(~keep[:, None, None], -torch.inf)
    torch.testing.assert_close(attention(q, k, v, slopes, keep).float(), scores.softmax(3) @ v.float(), rtol=2e-2, atol=2e-2)
