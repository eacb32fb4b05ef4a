"""Mamba-2 chunk scan: inside a chunk a decayed, masked product; from the chunks before it, a state of each head.

What to learn: the part of a state-space model that computes outputs. Decays are given as running sums of logarithms, so that
the decay between two tokens is the exponential of a difference; states at the start of each chunk were computed before.

Why so: given the chunk states, all chunks are independent blocks. The masked, decayed tile is formed in registers and is the
left operand of the product. Tiles above the diagonal are not visited.

Next: compute the chunk states in a kernel of their own, a scan over chunks.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LOG2_E = 1.4426950408889634


@tilelang.jit(out_idx=[-1])
def chunk_scan(batch, seq_len, chunk, groups, heads, dim, state, block_M=64, block_N=64, block_K=64, dtype="float16"):
    """``decay`` holds running sums of the logarithm of the decay inside each chunk, ``step`` the step sizes."""
    chunks = T.ceildiv(seq_len, chunk)

    @T.prim_func
    def main(
        CB: T.Tensor((batch, chunks, groups, chunk, chunk), dtype),
        X: T.Tensor((batch, seq_len, heads, dim), dtype),
        step: T.Tensor((batch, heads, chunks, chunk), dtype),
        decay: T.Tensor((batch, heads, chunks, chunk), "float32"),
        C: T.Tensor((batch, seq_len, groups, state), dtype),
        states: T.Tensor((batch, chunks, heads, dim, state), dtype),
        D: T.Tensor((heads,), "float32"),
        Output: T.Tensor((batch, seq_len, heads, dim), dtype),
    ):
        tiles_N = T.ceildiv(dim, block_N)
        with T.Kernel(T.ceildiv(chunk, block_M) * tiles_N, batch * chunks, heads, threads=128) as (bx, by, head):
            C_shared = T.alloc_shared((block_M, state), dtype)
            state_shared = T.alloc_shared((block_N, state), dtype)
            CB_shared = T.alloc_shared((block_M, block_K), dtype)
            CB_local = T.alloc_fragment((block_M, block_K), dtype)
            X_shared = T.alloc_shared((block_K, block_N), dtype)
            decay_row = T.alloc_fragment((block_M,), "float32")
            decay_column = T.alloc_shared((block_K,), "float32")
            step_column = T.alloc_shared((block_K,), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")

            n, c = by // chunks, by % chunks
            row, column = bx // tiles_N * block_M, bx % tiles_N * block_N
            start = c * chunk + row
            group = head // (heads // groups)

            T.copy(decay[n, head, c, row : row + block_M], decay_row)
            T.copy(C[n, start : start + block_M, group, :], C_shared)
            T.copy(states[n, c, head, column : column + block_N, :], state_shared)
            T.gemm(C_shared, state_shared, acc, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] *= T.exp2(decay_row[i] * LOG2_E)

            for k in T.Pipelined(T.ceildiv(row + block_M, block_K), num_stages=2):
                T.copy(CB[n, c, group, row : row + block_M, k * block_K : (k + 1) * block_K], CB_shared)
                T.copy(decay[n, head, c, k * block_K : (k + 1) * block_K], decay_column)
                T.copy(step[n, head, c, k * block_K : (k + 1) * block_K], step_column)
                first = c * chunk + k * block_K
                T.copy(X[n, first : first + block_K, head, column : column + block_N], X_shared)
                for i, j in T.Parallel(block_M, block_K):
                    CB_local[i, j] = T.if_then_else(
                        row + i >= k * block_K + j,
                        CB_shared[i, j] * T.exp2((decay_row[i] - decay_column[j]) * LOG2_E) * step_column[j],
                        0,
                    )
                T.gemm(CB_local, X_shared, acc)

            for i, j in T.Parallel(block_M, block_N):
                if row + i < chunk and start + i < seq_len and column + j < dim:
                    acc[i, j] += D[head] * X[n, start + i, head, column + j]
                    Output[n, start + i, head, column + j] = acc[i, j]

    return main


def reference(CB, X, step, decay, C, states, D):
    batch, chunks, groups, chunk, _ = CB.shape
    heads, dim = X.shape[2:]
    CB, C = CB.repeat_interleave(heads // groups, 2), C.repeat_interleave(heads // groups, 2)
    X_chunks = X.view(batch, chunks, chunk, heads, dim)
    gap = (decay[..., :, None] - decay[..., None, :]).permute(0, 2, 1, 3, 4)
    weights = (CB * gap.exp()).tril() * step.permute(0, 2, 1, 3)[..., None, :]
    inside = torch.einsum("bchls,bcshp->bclhp", weights, X_chunks)
    before = torch.einsum("bclhn,bchpn->bclhp", C.view(batch, chunks, chunk, heads, -1), states)
    before = before * decay.exp().permute(0, 2, 3, 1)[..., None]
    return (inside + before + X_chunks * D[:, None]).reshape(X.shape)


def main(
    batch: int = 1, chunks: int = 3, chunk: int = 96, groups: int = 1, heads: int = 4, dim: int = 64, state: int = 64
) -> None:
    def tensor(*shape, scale=1.0):
        return (torch.randn(*shape, device=DEVICE) * scale).half()

    seq_len = chunks * chunk
    arguments = (
        tensor(batch, chunks, groups, chunk, chunk, scale=0.2),
        tensor(batch, seq_len, heads, dim),
        tensor(batch, heads, chunks, chunk, scale=0.1).abs(),
        -(torch.rand(batch, heads, chunks, chunk, device=DEVICE) * 0.05).cumsum(3),
        tensor(batch, seq_len, groups, state, scale=0.2),
        tensor(batch, chunks, heads, dim, state),
        torch.randn(heads, device=DEVICE),
    )
    out = chunk_scan(batch, seq_len, chunk, groups, heads, dim, state)(*arguments)
    torch.testing.assert_close(out.float(), reference(*(x.float() for x in arguments)), rtol=2e-2, atol=2e-2)
    print("Mamba-2 chunk scan: matches torch")


if __name__ == "__main__":
    main()
