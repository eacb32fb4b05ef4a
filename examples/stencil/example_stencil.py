"""Stencils: heat that spreads in a plane, several steps for each tile that is read, and seven points in space.

What to learn: tiles with a halo. A copy may begin before the tensor and end behind it; what lies outside reads as zero, so
that the border needs no code of its own. A tile with a halo of h cells can take h steps before its middle needs its
neighbours again.

Why so: a step by itself reads and writes the whole plane for five operations a cell. Here a tile is read once for several
steps; its outer cells become wrong, one ring a step, and are left out at the end. Two tiles alternate, as a step must not
see its own results.

Next: other boundary values with ``T.annotate_safe_value``; more steps a tile against more halo; a pipeline along z.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit(out_idx=[-1])
def heat(H, W, steps=4, block_H=16, block_W=64, alpha=0.1, dtype="float32"):
    rows, columns = block_H + 2 * steps, block_W + 2 * steps

    @T.prim_func
    def main(U: T.Tensor((H, W), dtype), New: T.Tensor((H, W), dtype)):
        with T.Kernel(T.ceildiv(W, block_W), T.ceildiv(H, block_H), threads=128) as (bx, by):
            tile = T.alloc_shared((rows, columns), dtype)
            other = T.alloc_shared((rows, columns), dtype)
            top, left = by * block_H - steps, bx * block_W - steps
            T.copy(U[top : top + rows, left : left + columns], tile)
            T.clear(other)
            for _ in T.serial(steps):
                for i, j in T.Parallel(rows - 2, columns - 2):
                    around = tile[i, j + 1] + tile[i + 2, j + 1] + tile[i + 1, j] + tile[i + 1, j + 2]
                    value = tile[i + 1, j + 1] + alpha * (around - 4 * tile[i + 1, j + 1])
                    inside = 0 <= top + i + 1 < H and 0 <= left + j + 1 < W
                    other[i + 1, j + 1] = T.if_then_else(inside, value, 0)
                T.copy(other, tile)
            T.copy(tile[steps : steps + block_H, steps : steps + block_W], New[by * block_H, bx * block_W])

    return main


@tilelang.jit(out_idx=[-1])
def seven_points(D, H, W, block_H=8, block_W=32, dtype="float32"):
    """Walks along z with three planes of a tile in shared memory."""

    @T.prim_func
    def main(U: T.Tensor((D, H, W), dtype), New: T.Tensor((D, H, W), dtype)):
        with T.Kernel(T.ceildiv(W, block_W), T.ceildiv(H, block_H), threads=128) as (bx, by):
            planes = T.alloc_shared((3, block_H + 2, block_W + 2), dtype)
            top, left = by * block_H - 1, bx * block_W - 1
            T.clear(planes)
            T.copy(U[0, top : top + block_H + 2, left : left + block_W + 2], planes[1, :, :])
            for z in T.serial(D):
                if z + 1 < D:
                    T.copy(U[z + 1, top : top + block_H + 2, left : left + block_W + 2], planes[(z + 2) % 3, :, :])
                else:
                    T.fill(planes[(z + 2) % 3, :, :], 0)
                for i, j in T.Parallel(block_H, block_W):
                    if by * block_H + i < H and bx * block_W + j < W:
                        here = planes[(z + 1) % 3, i + 1, j + 1]
                        beside = planes[(z + 1) % 3, i + 1, j] + planes[(z + 1) % 3, i + 1, j + 2]
                        above = planes[(z + 1) % 3, i, j + 1] + planes[(z + 1) % 3, i + 2, j + 1]
                        before = planes[z % 3, i + 1, j + 1] + planes[(z + 2) % 3, i + 1, j + 1]
                        New[z, by * block_H + i, bx * block_W + j] = beside + above + before - 6 * here

    return main


def main(H: int = 100, W: int = 150, D: int = 6, steps: int = 4) -> None:
    u = torch.randn(H, W, device=DEVICE)
    new, expected = heat(H, W, steps)(u), u
    kernel = torch.tensor([[0, 1, 0], [1, -4, 1], [0, 1, 0]], device=DEVICE).float()
    for _ in range(steps):
        expected = expected + 0.1 * torch.nn.functional.conv2d(expected[None, None], kernel[None, None], padding=1)[0, 0]
    torch.testing.assert_close(new, expected, rtol=1e-4, atol=1e-4)

    u = torch.randn(D, H, W, device=DEVICE)
    kernel = torch.zeros(3, 3, 3, device=DEVICE)
    kernel[1, 1], kernel[1, :, 1], kernel[:, 1, 1] = 1, 1, 1
    kernel[1, 1, 1] = -6
    expected = torch.nn.functional.conv3d(u[None, None], kernel[None, None], padding=1)[0, 0]
    torch.testing.assert_close(seven_points(D, H, W)(u), expected, rtol=1e-4, atol=1e-4)
    print("stencil: matches torch")


if __name__ == "__main__":
    main()
