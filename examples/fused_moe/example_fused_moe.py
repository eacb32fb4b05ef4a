"""A layer of experts: rows of tokens gathered for each expert, SwiGLU between two products, results added up by token.

What to learn: products whose rows are gathered and scattered. Tokens are sorted by expert and padded to whole tiles, so that
every tile has one expert; a copy through a table of row numbers (a ``T.Parallel`` that indexes with another tensor) reads
the rows where they are, and ``T.atomic_add`` brings them back.

Why so: a copy of the gathered tokens would be written and read once more. The first kernel multiplies by both halves of the
weights, so that SwiGLU happens in registers and half as much is written. Padding rows name a token that does not exist; they
are zeros.

Next: make the additions deterministic (write one row for each pair of token and expert, add them in a second kernel);
quantise between the products as in ``swiglu_fp8``; sort on the device, as ``testing/programs/moe_align.py`` does.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit(out_idx=[-1])
def up_projection(experts, hidden, inner, topk, block_M=32, block_N=64, block_K=64, dtype="float16"):
    tokens, tiles = T.dynamic("tokens, tiles")

    @T.prim_func
    def main(
        X: T.Tensor((tokens, hidden), dtype),
        W: T.Tensor((experts, 2 * inner, hidden), dtype),
        slots: T.Tensor((tiles * block_M,), "int32"),
        tile_expert: T.Tensor((tiles,), "int32"),
        Y: T.Tensor((tiles * block_M, inner), dtype),
    ):
        with T.Kernel(T.ceildiv(inner, block_N), tiles, threads=128) as (bx, by):
            X_shared = T.alloc_shared((block_M, block_K), dtype)
            gate_shared = T.alloc_shared((block_N, block_K), dtype)
            up_shared = T.alloc_shared((block_N, block_K), dtype)
            gate = T.alloc_fragment((block_M, block_N), "float32")
            up = T.alloc_fragment((block_M, block_N), "float32")
            expert = tile_expert[by]
            T.clear(gate)
            T.clear(up)
            for k in T.Pipelined(T.ceildiv(hidden, block_K), num_stages=2):
                for i, j in T.Parallel(block_M, block_K):
                    X_shared[i, j] = X[slots[by * block_M + i] // topk, k * block_K + j]
                T.copy(W[expert, bx * block_N, k * block_K], gate_shared)
                T.copy(W[expert, inner + bx * block_N, k * block_K], up_shared)
                T.gemm(X_shared, gate_shared, gate, transpose_B=True)
                T.gemm(X_shared, up_shared, up, transpose_B=True)
            for i, j in T.Parallel(block_M, block_N):
                gate[i, j] = gate[i, j] * T.sigmoid(gate[i, j]) * up[i, j]
            T.copy(gate, Y[by * block_M, bx * block_N])

    return main


@tilelang.jit
def down_projection(experts, hidden, inner, topk, block_M=32, block_N=64, block_K=64, dtype="float16"):
    tokens, tiles = T.dynamic("tokens, tiles")

    @T.prim_func
    def main(
        Y: T.Tensor((tiles * block_M, inner), dtype),
        W: T.Tensor((experts, hidden, inner), dtype),
        slots: T.Tensor((tiles * block_M,), "int32"),
        tile_expert: T.Tensor((tiles,), "int32"),
        weights: T.Tensor((tokens, topk), "float32"),
        Output: T.Tensor((tokens, hidden), "float32"),
    ):
        with T.Kernel(T.ceildiv(hidden, block_N), tiles, threads=128) as (bx, by):
            Y_shared = T.alloc_shared((block_M, block_K), dtype)
            W_shared = T.alloc_shared((block_N, block_K), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(inner, block_K), num_stages=2):
                T.copy(Y[by * block_M, k * block_K], Y_shared)
                T.copy(W[tile_expert[by], bx * block_N, k * block_K], W_shared)
                T.gemm(Y_shared, W_shared, acc, transpose_B=True)
            for i, j in T.Parallel(block_M, block_N):
                slot = slots[by * block_M + i]
                if slot < tokens * topk and bx * block_N + j < hidden:
                    T.atomic_add(Output[slot // topk, bx * block_N + j], acc[i, j] * weights[slot // topk, slot % topk])

    return main


def sorted_by_expert(chosen: torch.Tensor, experts: int, block_M: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The slots (token times k, plus rank) of each expert, padded to whole tiles; and the experts of the tiles."""
    slots, tile_expert = [], []
    for expert in range(experts):
        mine = (chosen.flatten() == expert).nonzero().flatten().tolist()
        mine += [chosen.numel()] * (-len(mine) % block_M)
        slots += mine
        tile_expert += [expert] * (len(mine) // block_M)
    return tuple(torch.tensor(each, device=DEVICE, dtype=torch.int32) for each in (slots, tile_expert))


def main(tokens: int = 100, experts: int = 8, topk: int = 2, hidden: int = 256, inner: int = 128, block_M: int = 32) -> None:
    x = torch.randn(tokens, hidden, device=DEVICE, dtype=torch.float16)
    w_up = torch.randn(experts, 2 * inner, hidden, device=DEVICE, dtype=torch.float16) * hidden**-0.5
    w_down = torch.randn(experts, hidden, inner, device=DEVICE, dtype=torch.float16) * inner**-0.5
    weights, chosen = torch.rand(tokens, experts, device=DEVICE).topk(topk)
    slots, tile_expert = sorted_by_expert(chosen, experts, block_M)

    y = up_projection(experts, hidden, inner, topk, block_M)(x, w_up, slots, tile_expert)
    out = torch.zeros(tokens, hidden, device=DEVICE)
    down_projection(experts, hidden, inner, topk, block_M)(y, w_down, slots, tile_expert, weights, out)

    gate, up = torch.einsum("td,tknd->tkn", x.float(), w_up.float()[chosen]).chunk(2, dim=2)
    each = torch.einsum("tkn,tkdn->tkd", torch.nn.functional.silu(gate) * up, w_down.float()[chosen])
    torch.testing.assert_close(out, (each * weights[..., None]).sum(1), rtol=1e-2, atol=1e-2)
    print("fused experts: matches torch")


if __name__ == "__main__":
    main()
