"""Flash attention, forward and backward: the backward pass recomputes the weights and adds the query gradient by atomics.

What to learn: a backward pass that recomputes. The forward pass keeps one number a row (the logarithm of its sum); from it
and the inputs each tile of weights is computed again. A block owns keys and sums their gradients in registers; gradients of
queries come from many blocks and meet in ``T.atomic_add``.

Why so: storing the weights would take the memory that flash attention saves. Of the two directions one has to be added
across blocks; queries are chosen, since keys have two gradients. The accumulated tensor is float32, as many small numbers
are added.

Next: a second kernel over queries in place of the atomics gives the same bits in every run.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LOG2_E = 1.4426950408889634


@tilelang.jit(out_idx=[-2, -1])
def forward(batch, heads, seq_len, dim, causal, block_M=64, block_N=64, dtype="float16"):
    """Output, and for each row the logarithm (base 2) of its sum of weights."""
    scale = dim**-0.5 * LOG2_E
    shape = (batch, heads, seq_len, dim)

    @T.prim_func
    def main(
        Q: T.Tensor(shape, dtype),
        K: T.Tensor(shape, dtype),
        V: T.Tensor(shape, dtype),
        Output: T.Tensor(shape, dtype),
        log_sum: T.Tensor(shape[:3], "float32"),
    ):
        with T.Kernel(T.ceildiv(seq_len, block_M), heads, batch, threads=128) as (bx, by, bz):
            Q_shared = T.alloc_shared((block_M, dim), dtype)
            K_shared = T.alloc_shared((block_N, dim), dtype)
            V_shared = T.alloc_shared((block_N, dim), dtype)
            scores = T.alloc_fragment((block_M, block_N), "float32")
            weights = T.alloc_fragment((block_M, block_N), dtype)
            acc = T.alloc_fragment((block_M, dim), "float32")
            row_max = T.alloc_fragment((block_M,), "float32")
            previous_max = T.alloc_fragment((block_M,), "float32")
            tile_sum = T.alloc_fragment((block_M,), "float32")
            row_sum = T.alloc_fragment((block_M,), "float32")

            T.copy(Q[bz, by, bx * block_M, 0], Q_shared)
            T.clear(acc)
            T.clear(row_sum)
            T.fill(row_max, -T.infinity("float32"))
            tiles = T.ceildiv(T.min(seq_len, (bx + 1) * block_M) if causal else seq_len, block_N)
            for k in T.Pipelined(tiles, num_stages=2):
                T.copy(K[bz, by, k * block_N, 0], K_shared)
                for i, j in T.Parallel(block_M, block_N):
                    inside = k * block_N + j < seq_len
                    if causal:
                        inside = inside and bx * block_M + i >= k * block_N + j
                    scores[i, j] = T.if_then_else(inside, 0, -T.infinity("float32"))
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(row_max, previous_max)
                T.reduce_max(scores, row_max, dim=1, clear=False)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp2(scores[i, j] * scale - row_max[i] * scale)
                T.reduce_sum(scores, tile_sum, dim=1)
                for i in T.Parallel(block_M):
                    previous_max[i] = T.exp2((previous_max[i] - row_max[i]) * scale)
                    row_sum[i] = row_sum[i] * previous_max[i] + tile_sum[i]
                for i, j in T.Parallel(block_M, dim):
                    acc[i, j] *= previous_max[i]
                T.copy(scores, weights)
                T.copy(V[bz, by, k * block_N, 0], V_shared)
                T.gemm(weights, V_shared, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                acc[i, j] /= row_sum[i]
            T.copy(acc, Output[bz, by, bx * block_M, 0])
            for i in T.Parallel(block_M):
                row_sum[i] = T.log2(row_sum[i]) + row_max[i] * scale
            T.copy(row_sum, log_sum[bz, by, bx * block_M])

    return main


@tilelang.jit(out_idx=[-1])
def row_products(batch, heads, seq_len, dim, block=32, dtype="float16"):
    """For each row the product of the output and its gradient, summed."""
    shape = (batch, heads, seq_len, dim)

    @T.prim_func
    def main(Output: T.Tensor(shape, dtype), dOutput: T.Tensor(shape, dtype), delta: T.Tensor(shape[:3], "float32")):
        with T.Kernel(T.ceildiv(seq_len, block), heads, batch, threads=128) as (bx, by, bz):
            o = T.alloc_fragment((block, dim), dtype)
            do = T.alloc_fragment((block, dim), dtype)
            product = T.alloc_fragment((block, dim), "float32")
            total = T.alloc_fragment((block,), "float32")
            T.copy(Output[bz, by, bx * block, 0], o)
            T.copy(dOutput[bz, by, bx * block, 0], do)
            for i, j in T.Parallel(block, dim):
                product[i, j] = T.cast(o[i, j], "float32") * T.cast(do[i, j], "float32")
            T.reduce_sum(product, total, dim=1)
            T.copy(total, delta[bz, by, bx * block])

    return main


@tilelang.jit(out_idx=[-2, -1])
def backward(batch, heads, seq_len, dim, causal, block_M=64, block_N=64, dtype="float16"):
    """Gradients of K and V; that of Q is added to ``dQ``, which starts at zero. One block handles ``block_M`` keys."""
    scale = dim**-0.5
    shape = (batch, heads, seq_len, dim)

    @T.prim_func
    def main(
        Q: T.Tensor(shape, dtype),
        K: T.Tensor(shape, dtype),
        V: T.Tensor(shape, dtype),
        dOutput: T.Tensor(shape, dtype),
        log_sum: T.Tensor(shape[:3], "float32"),
        delta: T.Tensor(shape[:3], "float32"),
        dQ: T.Tensor(shape, "float32"),
        dK: T.Tensor(shape, dtype),
        dV: T.Tensor(shape, dtype),
    ):
        with T.Kernel(T.ceildiv(seq_len, block_M), heads, batch, threads=128) as (bx, by, bz):
            K_shared = T.alloc_shared((block_M, dim), dtype)
            V_shared = T.alloc_shared((block_M, dim), dtype)
            Q_shared = T.alloc_shared((block_N, dim), dtype)
            dO_shared = T.alloc_shared((block_N, dim), dtype)
            log_sum_shared = T.alloc_shared((block_N,), "float32")
            delta_shared = T.alloc_shared((block_N,), "float32")
            weights = T.alloc_fragment((block_M, block_N), "float32")
            weights_cast = T.alloc_fragment((block_M, block_N), dtype)
            dweights = T.alloc_fragment((block_M, block_N), "float32")
            dscores = T.alloc_fragment((block_M, block_N), dtype)
            dscores_shared = T.alloc_shared((block_M, block_N), dtype)
            dk = T.alloc_fragment((block_M, dim), "float32")
            dv = T.alloc_fragment((block_M, dim), "float32")
            dq = T.alloc_fragment((block_N, dim), "float32")

            T.copy(K[bz, by, bx * block_M, 0], K_shared)
            T.copy(V[bz, by, bx * block_M, 0], V_shared)
            T.clear(dk)
            T.clear(dv)
            first = bx * block_M // block_N if causal else 0
            for k in T.Pipelined(first, T.ceildiv(seq_len, block_N), num_stages=2):
                T.copy(Q[bz, by, k * block_N, 0], Q_shared)
                T.copy(dOutput[bz, by, k * block_N, 0], dO_shared)
                T.copy(log_sum[bz, by, k * block_N], log_sum_shared)
                T.copy(delta[bz, by, k * block_N], delta_shared)

                T.gemm(K_shared, Q_shared, weights, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                T.gemm(V_shared, dO_shared, dweights, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_M, block_N):
                    inside = bx * block_M + i < seq_len and k * block_N + j < seq_len
                    if causal:
                        inside = inside and bx * block_M + i <= k * block_N + j
                    weights[i, j] = T.if_then_else(inside, T.exp2(weights[i, j] * (scale * LOG2_E) - log_sum_shared[j]), 0)
                for i, j in T.Parallel(block_M, block_N):
                    dscores[i, j] = weights[i, j] * (dweights[i, j] - delta_shared[j]) * scale
                T.copy(weights, weights_cast)
                T.gemm(weights_cast, dO_shared, dv, policy=T.GemmWarpPolicy.FullRow)
                T.gemm(dscores, Q_shared, dk, policy=T.GemmWarpPolicy.FullRow)
                T.copy(dscores, dscores_shared)
                T.gemm(dscores_shared, K_shared, dq, transpose_A=True, clear_accum=True)
                T.atomic_add(dQ[bz, by, k * block_N, 0], dq)
            T.copy(dk, dK[bz, by, bx * block_M, 0])
            T.copy(dv, dV[bz, by, bx * block_M, 0])

    return main


def main(batch: int = 1, heads: int = 2, seq_len: int = 200, dim: int = 64) -> None:
    for causal in (False, True):
        q, k, v, do = (torch.randn(batch, heads, seq_len, dim, device=DEVICE, dtype=torch.float16) for _ in range(4))
        sizes = (batch, heads, seq_len, dim)
        out, log_sum = forward(*sizes, causal)(q, k, v)
        delta = row_products(*sizes)(out, do)
        dq = torch.zeros(sizes, device=DEVICE)
        dk, dv = backward(*sizes, causal)(q, k, v, do, log_sum, delta, dq)

        inputs = [x.float().requires_grad_() for x in (q, k, v)]
        reference = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=causal)
        reference.backward(do.float())
        torch.testing.assert_close(out.float(), reference, rtol=1e-2, atol=1e-2)
        for actual, wanted in zip((dq, dk, dv), inputs):
            torch.testing.assert_close(actual.float(), wanted.grad, rtol=2e-2, atol=2e-2)
    print("flash attention backward: matches torch")


if __name__ == "__main__":
    main()
