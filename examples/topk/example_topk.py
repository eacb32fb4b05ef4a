"""The k largest values of each row with their positions, by k rounds of maximum and removal.

What to learn: selection by rounds. A round takes the maximum of each row, the lowest position that holds it, and replaces it
by minus infinity. Positions are found by a second reduction over candidates.

Why so: for small k rounds beat a sort, and rows stay in registers throughout. Taking the lowest position makes equal values
come out in order, whichever thread holds them.

Next: ``moe_routing`` selects groups first; ``radix_sort`` for large k.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit(out_idx=[-2, -1])
def topk(M, N, k, block_M=32):
    @T.prim_func
    def main(
        logits: T.Tensor((M, N), "float32"),
        values: T.Tensor((M, k), "float32"),
        indices: T.Tensor((M, k), "int32"),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            rows = T.alloc_fragment((block_M, N), "float32")
            candidates = T.alloc_fragment((block_M, N), "int32")
            largest = T.alloc_fragment((block_M,), "float32")
            position = T.alloc_fragment((block_M,), "int32")

            T.copy(logits[bx * block_M, 0], rows)
            for round in T.serial(k):
                T.reduce_max(rows, largest, dim=1)
                for i, j in T.Parallel(block_M, N):
                    candidates[i, j] = T.if_then_else(rows[i, j] == largest[i], j, N)
                T.reduce_min(candidates, position, dim=1)
                for i, j in T.Parallel(block_M, N):
                    rows[i, j] = T.if_then_else(position[i] == j, -T.infinity("float32"), rows[i, j])
                for i in T.Parallel(block_M):
                    values[bx * block_M + i, round] = largest[i]
                    indices[bx * block_M + i, round] = position[i]

    return main


def main(M: int = 100, N: int = 128, k: int = 6) -> None:
    logits = torch.randn(M, N, device=DEVICE)
    values, indices = topk(M, N, k)(logits)
    expected = logits.topk(k, dim=1)
    assert torch.equal(values, expected.values)
    assert torch.equal(indices.long(), expected.indices)
    print("top-k: matches torch")


if __name__ == "__main__":
    main()
