"""Stream-K matrix product: every block gets the same number of K steps, wherever tiles of C begin and end.

What to learn: a persistent kernel. A fixed number of blocks share all K steps of all tiles equally; a block's share may
begin in the middle of one tile and end in the middle of another, so a ``while`` walks through pieces of tiles.

Why so: with whole tiles the last round leaves most of a GPU idle. Pieces of one tile meet by atomic additions in C, which
the caller clears. The inner pipelined loop has a length that is known only at run time.

Next: as many workers as the device has multiprocessors (``tilelang.carver.arch.driver.get_num_sms()``); store whole tiles
without atomics.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit
def matmul_streamk(M, N, K, workers=12, block_M=64, block_N=64, block_K=32, dtype="float16"):
    columns = T.ceildiv(N, block_N)
    steps = T.ceildiv(K, block_K)
    total = T.ceildiv(M, block_M) * columns * steps
    share = T.ceildiv(total, workers)

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(workers, threads=128) as worker:
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            position = T.alloc_var("int32", init=worker * share)
            end = T.min((worker + 1) * share, total)

            while position < end:
                tile = position // steps
                first = position % steps
                count = T.min(steps - first, end - position)
                row = tile // columns * block_M
                column = tile % columns * block_N
                T.clear(C_local)
                for k in T.Pipelined(count, num_stages=2):
                    T.copy(A[row, (first + k) * block_K], A_shared)
                    T.copy(B[(first + k) * block_K, column], B_shared)
                    T.gemm(A_shared, B_shared, C_local)
                T.atomic_add(C[row, column], C_local)
                position = position + count

    return main


def main(M: int = 200, N: int = 150, K: int = 500) -> None:
    a = torch.randn(M, K, device=DEVICE, dtype=torch.float16)
    b = torch.randn(K, N, device=DEVICE, dtype=torch.float16)
    c = torch.zeros(M, N, device=DEVICE)
    matmul_streamk(M, N, K)(a, b, c)
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-2, atol=1e-2)
    print("stream-K GEMM: matches torch")


if __name__ == "__main__":
    main()
