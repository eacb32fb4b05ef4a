"""Recurrences token by token: a selective scan, and a memory of keys and values that decays by channel."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"B": 1, "L": 37, "D": 40, "S": 16}
LARGE = {"selective_scan": {"B": 8, "L": 4096, "D": 4096, "S": 16}, "wkv": {"B": 8, "L": 4096, "H": 32, "D": 64}}


@tilelang.jit(out_idx=[-1])
def selective_scan(B, L, D, S, block_D=32, block_L=16):
    @T.prim_func
    def main(
        u: T.Tensor((B, L, D), "float16"),
        delta: T.Tensor((B, L, D), "float16"),
        A: T.Tensor((D, S), "float32"),
        Bm: T.Tensor((B, L, S), "float16"),
        C: T.Tensor((B, L, S), "float16"),
        y: T.Tensor((B, L, D), "float16"),
    ):
        with T.Kernel(T.ceildiv(D, block_D), B, threads=128) as (bd, b):
            h = T.alloc_fragment((block_D, S), "float32")
            a = T.alloc_fragment((block_D, S), "float32")
            prod = T.alloc_fragment((block_D, S), "float32")
            out = T.alloc_fragment((block_D,), "float32")
            us, ds = T.alloc_shared((block_L, block_D), "float16"), T.alloc_shared((block_L, block_D), "float16")
            Bs, Cs = T.alloc_shared((block_L, S), "float16"), T.alloc_shared((block_L, S), "float16")
            ys = T.alloc_shared((block_L, block_D), "float16")
            T.clear(h)
            T.copy(A[bd * block_D, 0], a)
            for l0 in T.serial(T.ceildiv(L, block_L)):
                T.copy(u[b, l0 * block_L, bd * block_D], us)
                T.copy(delta[b, l0 * block_L, bd * block_D], ds)
                T.copy(Bm[b, l0 * block_L, 0], Bs)
                T.copy(C[b, l0 * block_L, 0], Cs)
                for t in T.serial(block_L):
                    for d, s in T.Parallel(block_D, S):
                        h[d, s] = T.exp(ds[t, d] * a[d, s]) * h[d, s] + ds[t, d] * us[t, d] * Bs[t, s]
                        prod[d, s] = h[d, s] * Cs[t, s]
                    T.reduce_sum(prod, out, dim=1)
                    T.copy(out, ys[t, :])
                T.copy(ys, y[b, l0 * block_L, bd * block_D])

    return main


@tilelang.jit(out_idx=[-1])
def wkv(B, L, H, D):
    @T.prim_func
    def main(
        r: T.Tensor((B, L, H, D), "float16"),
        k: T.Tensor((B, L, H, D), "float16"),
        v: T.Tensor((B, L, H, D), "float16"),
        w: T.Tensor((B, L, H, D), "float32"),
        u: T.Tensor((H, D), "float32"),
        y: T.Tensor((B, L, H, D), "float32"),
    ):
        with T.Kernel(H, B, threads=D) as (h, b):
            state = T.alloc_fragment((D, D), "float32")
            part = T.alloc_fragment((D, D), "float32")
            o = T.alloc_fragment((D,), "float32")
            T.clear(state)
            for t in range(L):
                for i, j in T.Parallel(D, D):
                    kv = T.float32(k[b, t, h, i]) * v[b, t, h, j]
                    part[i, j] = r[b, t, h, i] * (state[i, j] + u[h, i] * kv)
                    state[i, j] = state[i, j] * T.exp(-T.exp(w[b, t, h, i])) + kv
                T.reduce_sum(part, o, dim=0)
                for j in T.Parallel(D):
                    y[b, t, h, j] = o[j]

    return main


def check(B, L, D, S):
    u, delta = torch.randn(B, L, D).half(), torch.rand(B, L, D).half()
    A, Bm, C = -torch.rand(D, S), torch.randn(B, L, S).half(), torch.randn(B, L, S).half()
    h, ys = torch.zeros(B, D, S), []
    for t in range(L):
        d = delta[:, t].float()
        h = (d[..., None] * A).exp() * h + (d * u[:, t].float())[..., None] * Bm[:, t].float()[:, None]
        ys.append((h * C[:, t].float()[:, None]).sum(2))
    torch.testing.assert_close(selective_scan(B, L, D, S)(u, delta, A, Bm, C).float(), torch.stack(ys, 1), rtol=2e-2, atol=2e-2)
    r, k, v = (torch.randn(B, 9, 2, 32).half() for _ in range(3))
    w, uu = torch.randn(B, 9, 2, 32), torch.randn(2, 32)
    s, ys = torch.zeros(B, 2, 32, 32), []
    for t in range(9):
        kv = k[:, t].float()[..., None] * v[:, t].float()[..., None, :]
        ys.append(torch.einsum("bhk,bhkv->bhv", r[:, t].float(), s + uu[..., None] * kv))
        s = s * (-w[:, t].exp()).exp()[..., None] + kv
    torch.testing.assert_close(wkv(B, 9, 2, 32)(r, k, v, w, uu), torch.stack(ys, 1), rtol=1e-2, atol=1e-2)
