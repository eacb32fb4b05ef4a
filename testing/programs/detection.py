"""Suppression of overlapping boxes, one after another, and bilinear samples of an image."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"n": 70}
LARGE = {}


@tilelang.jit(out_idx=[-1])
def nms(n, threshold=0.5):
    @T.prim_func
    def main(boxes: T.Tensor((n, 4), "float32"), keep: T.Tensor((n,), "bool")):
        with T.Kernel(1, threads=128):
            alive = T.alloc_shared((n,), "bool")
            b = T.alloc_shared((n, 4), "float32")
            T.copy(boxes, b)
            T.fill(alive, True)
            for i in T.serial(n):
                if alive[i]:
                    for j in T.Parallel(n):
                        if j > i and alive[j]:
                            w = T.max(T.min(b[i, 2], b[j, 2]) - T.max(b[i, 0], b[j, 0]), 0)
                            h = T.max(T.min(b[i, 3], b[j, 3]) - T.max(b[i, 1], b[j, 1]), 0)
                            areas = (b[i, 2] - b[i, 0]) * (b[i, 3] - b[i, 1]) + (b[j, 2] - b[j, 0]) * (b[j, 3] - b[j, 1])
                            if w * h > threshold * (areas - w * h):
                                alive[j] = False
            T.copy(alive, keep)

    return main


@tilelang.jit(out_idx=[-1])
def bilinear(H, W, C, N):
    @T.prim_func
    def main(img: T.Tensor((H, W, C), "float32"), at: T.Tensor((N, 2), "float32"), out: T.Tensor((N, C), "float32")):
        with T.Kernel(T.ceildiv(N, 32), threads=64) as bx:
            for i, c in T.Parallel(32, C):
                n = bx * 32 + i
                if n < N:
                    y, x = at[n, 0], at[n, 1]
                    y0, x0 = T.cast(T.floor(y), "int32"), T.cast(T.floor(x), "int32")
                    dy, dx = y - y0, x - x0
                    acc = T.alloc_var("float32", init=0.0)
                    for a in range(2):
                        for b in range(2):
                            if 0 <= y0 + a < H and 0 <= x0 + b < W:
                                wy = dy if a else 1 - dy
                                wx = T.if_then_else(b == 1, dx, 1 - dx)
                                acc += wy * wx * img[y0 + a, x0 + b, c]
                    out[n, c] = acc

    return main


def check(n):
    lo = torch.rand(n, 2)
    boxes = torch.cat([lo, lo + torch.rand(n, 2) * 0.4 + 0.05], 1)
    keep = nms(n)(boxes)
    alive = [True] * n
    area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    for i in range(n):
        if alive[i]:
            wh = (torch.minimum(boxes[i, 2:], boxes[:, 2:]) - torch.maximum(boxes[i, :2], boxes[:, :2])).clamp(min=0).prod(1)
            for j in range(i + 1, n):
                if wh[j] > 0.5 * (area[i] + area[j] - wh[j]):
                    alive[j] = False
    assert keep.tolist() == alive
    img, at = torch.randn(9, 11, 5), torch.rand(50, 2) * 12 - 1
    out = bilinear(9, 11, 5, 50)(img, at)
    grid = torch.stack([at[:, 1] / 10 * 2 - 1, at[:, 0] / 8 * 2 - 1], 1)[None, None]
    want = torch.nn.functional.grid_sample(img.permute(2, 0, 1)[None], grid, align_corners=True)[0, :, 0].T
    torch.testing.assert_close(out, want, rtol=1e-4, atol=1e-4)
