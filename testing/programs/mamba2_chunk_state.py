"""Mamba-2 over chunks: the state that each chunk adds, and the states passed on from chunk to chunk."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"batch": 1, "chunks": 3, "chunk": 48, "groups": 2, "heads": 4, "dim": 40, "state": 32}
LARGE = {
    "chunk_state": {"batch": 8, "chunks": 16, "chunk": 256, "groups": 1, "heads": 80, "dim": 64, "state": 128},
    "state_passing": {"batch": 8, "chunks": 16, "heads": 80, "size": 64 * 128},
}
LOG2_E = 1.44269504


@tilelang.jit(out_idx=[-1])
def chunk_state(batch, chunks, chunk, groups, heads, dim, state, block_M=64, block_N=64, block_K=32, dtype="float16"):
    seq_len = chunks * chunk

    @T.prim_func
    def main(
        B: T.Tensor((batch, seq_len, groups, state), dtype),
        X: T.Tensor((batch, seq_len, heads, dim), dtype),
        step: T.Tensor((batch, heads, chunks, chunk), dtype),
        decay: T.Tensor((batch, heads, chunks, chunk), "float32"),
        States: T.Tensor((batch, chunks, heads, dim, state), "float32"),
    ):
        with T.Kernel(heads, T.ceildiv(dim, block_M) * T.ceildiv(state, block_N), batch * chunks, threads=128) as (bz, bx, by):
            x_shared = T.alloc_shared((block_K, block_M), dtype)
            x_local = T.alloc_fragment((block_K, block_M), dtype)
            xt_local = T.alloc_fragment((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            step_shared = T.alloc_shared((block_K,), dtype)
            decay_shared = T.alloc_shared((block_K,), "float32")
            scale = T.alloc_fragment((block_K,), "float32")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            last = T.alloc_fragment((1,), "float32")

            batch_idx = by % batch
            chunk_idx = by // batch
            m_idx = bx // T.ceildiv(state, block_N)
            n_idx = bx % T.ceildiv(state, block_N)
            T.annotate_layout({x_shared: tilelang.layout.make_swizzled_layout(x_shared)})
            last[0] = decay[batch_idx, bz, chunk_idx, chunk - 1]
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(chunk, block_K), num_stages=3):
                first = chunk_idx * chunk + k * block_K
                T.copy(X[batch_idx, first : first + block_K, bz, m_idx * block_M : (m_idx + 1) * block_M], x_shared)
                T.copy(decay[batch_idx, bz, chunk_idx, k * block_K : (k + 1) * block_K], decay_shared)
                T.copy(step[batch_idx, bz, chunk_idx, k * block_K : (k + 1) * block_K], step_shared)
                for i in T.Parallel(block_K):
                    scale[i] = T.if_then_else(
                        k * block_K + i < chunk, T.exp2((last[0] - decay_shared[i]) * LOG2_E) * step_shared[i], 0
                    )
                T.copy(x_shared, x_local)
                for i, j in T.Parallel(block_M, block_K):
                    xt_local[i, j] = x_local[j, i] * scale[j]
                T.copy(
                    B[batch_idx, first : first + block_K, bz // (heads // groups), n_idx * block_N : (n_idx + 1) * block_N],
                    B_shared,
                )
                T.gemm(xt_local, B_shared, acc)
            T.copy(acc, States[batch_idx, chunk_idx, bz, m_idx * block_M, n_idx * block_N])

    return main


@tilelang.jit(out_idx=[-2, -1])
def state_passing(batch, chunks, heads, size, block=256):
    @T.prim_func
    def main(
        States: T.Tensor((batch, chunks, heads, size), "float32"),
        total_decay: T.Tensor((batch, heads, chunks), "float32"),
        Before: T.Tensor((batch, chunks, heads, size), "float16"),
        Final: T.Tensor((batch, heads, size), "float32"),
    ):
        with T.Kernel(T.ceildiv(size, block), heads, batch, threads=128) as (bx, h, n):
            state = T.alloc_fragment((block,), "float32")
            T.clear(state)
            for c in range(chunks):
                T.copy(state, Before[n, c, h, bx * block : (bx + 1) * block])
                factor = T.exp(total_decay[n, h, c])
                for i in T.Parallel(block):
                    state[i] = state[i] * factor + States[n, c, h, T.min(bx * block + i, size - 1)]
            T.copy(state, Final[n, h, bx * block : (bx + 1) * block])

    return main


def check(batch, chunks, chunk, groups, heads, dim, state):
    seq_len = chunks * chunk
    B = torch.randn(batch, seq_len, groups, state).half()
    x = torch.randn(batch, seq_len, heads, dim).half()
    step = torch.rand(batch, heads, chunks, chunk).half()
    decay = -(torch.rand(batch, heads, chunks, chunk) * 0.05).cumsum(3)
    states = chunk_state(batch, chunks, chunk, groups, heads, dim, state)(B, x, step, decay)
    weights = (decay[..., -1:] - decay).exp() * step.float()
    wide = B.float().repeat_interleave(heads // groups, 2).view(batch, chunks, chunk, heads, state)
    expected = torch.einsum("bclhn,bhcl,bclhp->bchpn", wide, weights, x.float().view(batch, chunks, chunk, heads, dim))
    torch.testing.assert_close(states, expected, rtol=1e-2, atol=2e-2)

    before, final = state_passing(batch, chunks, heads, dim * state)(states.flatten(3), decay[..., -1].contiguous())
    running, wanted = torch.zeros(batch, heads, dim * state), []
    for c in range(chunks):
        wanted.append(running)
        running = running * decay[:, :, c, -1].exp()[..., None] + states[:, c].flatten(2)
    torch.testing.assert_close(before.float(), torch.stack(wanted, 1), rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(final, running, rtol=1e-4, atol=1e-4)
