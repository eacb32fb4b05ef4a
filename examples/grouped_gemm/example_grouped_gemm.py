"""Grouped matrix product: rows of one tensor, in groups of any size, each group times its own weights.

What to learn: work that the data decides. Groups have any number of rows; a list made on the host says for each tile its
group and first row, and blocks look theirs up. Sizes are ``T.dynamic``, one kernel for all.

Why so: a launch for each group would leave a GPU idle with small groups. A tile may reach into the next group's rows, so its
rows are stored one by one under a condition.

Next: ``fused_moe`` gathers the rows by index and multiplies twice.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit(out_idx=[-1])
def grouped_matmul(groups, N, K, block_M=64, block_N=64, block_K=32, dtype="float16"):
    """One kernel for any number of rows; ``tile_group`` and ``tile_row`` say what each tile of rows works on."""
    rows, tiles = T.dynamic("rows, tiles")

    @T.prim_func
    def main(
        A: T.Tensor((rows, K), dtype),
        B: T.Tensor((groups, K, N), dtype),
        ends: T.Tensor((groups,), "int32"),
        tile_group: T.Tensor((tiles,), "int32"),
        tile_row: T.Tensor((tiles,), "int32"),
        C: T.Tensor((rows, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), tiles, threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")

            group = tile_group[by]
            first = tile_row[by]
            last = ends[group]
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[first : first + block_M, k * block_K : (k + 1) * block_K], A_shared)
                T.copy(B[group, k * block_K : (k + 1) * block_K, bx * block_N : (bx + 1) * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            for i, j in T.Parallel(block_M, block_N):
                if first + i < last and bx * block_N + j < N:
                    C[first + i, bx * block_N + j] = C_local[i, j]

    return main


def main(sizes: tuple[int, ...] = (63, 0, 130, 1, 64), N: int = 100, K: int = 96, block_M: int = 64) -> None:
    ends = torch.tensor(sizes).cumsum(0)
    plan = [(g, row) for g, size in enumerate(sizes) for row in range(int(ends[g]) - size, int(ends[g]), block_M)]
    tile_group, tile_row = (torch.tensor(column, device=DEVICE, dtype=torch.int32) for column in zip(*plan))
    a = torch.randn(sum(sizes), K, device=DEVICE, dtype=torch.float16)
    b = torch.randn(len(sizes), K, N, device=DEVICE, dtype=torch.float16)
    c = grouped_matmul(len(sizes), N, K, block_M)(a, b, ends.to(DEVICE, torch.int32), tile_group, tile_row)
    parts = a.float().split(list(sizes))
    reference = torch.cat([part @ weights.float() for part, weights in zip(parts, b)])
    torch.testing.assert_close(c.float(), reference, rtol=1e-2, atol=1e-2)
    print("grouped GEMM: matches torch")


if __name__ == "__main__":
    main()
