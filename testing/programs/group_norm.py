"""Group normalisation of images, forward with saved statistics and backward with the gradients of scale and shift."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"batch": 2, "channels": 12, "groups": 3, "size": 35}
LARGE = {
    "forward": {"batch": 8, "channels": 512, "groups": 32, "size": 4096},
    "backward": {"batch": 8, "channels": 512, "groups": 32, "size": 4096},
}


@tilelang.jit(out_idx=[3, 4, 5])
def forward(batch, channels, groups, size, block=512, epsilon=1e-5, dtype="float16"):
    per_group = channels // groups

    @T.prim_func
    def main(
        X: T.Tensor((batch, channels, size), dtype),
        weight: T.Tensor((channels,), dtype),
        bias: T.Tensor((channels,), dtype),
        Y: T.Tensor((batch, channels, size), dtype),
        Mean: T.Tensor((batch, groups), "float32"),
        Rstd: T.Tensor((batch, groups), "float32"),
    ):
        with T.Kernel(groups, batch, threads=256) as (g, n):
            total = T.alloc_fragment((block,), "float32")
            squares = T.alloc_fragment((block,), "float32")
            sums = T.alloc_fragment((2,), "float32")
            T.clear(total)
            T.clear(squares)
            for c in T.serial(per_group):
                for p in T.serial(T.ceildiv(size, block)):
                    for i in T.Parallel(block):
                        if p * block + i < size:
                            x = T.cast(X[n, g * per_group + c, p * block + i], "float32")
                            total[i] += x
                            squares[i] += x * x
            T.reduce_sum(total, sums[0:1], dim=0)
            T.reduce_sum(squares, sums[1:2], dim=0)
            mean = sums[0] / (per_group * size)
            rstd = T.rsqrt(sums[1] / (per_group * size) - mean * mean + epsilon)
            Mean[n, g] = mean
            Rstd[n, g] = rstd
            for c, p in T.grid(per_group, T.ceildiv(size, block)):
                channel = g * per_group + c
                for i in T.Parallel(block):
                    if p * block + i < size:
                        Y[n, channel, p * block + i] = (X[n, channel, p * block + i] - mean) * rstd * weight[channel] + bias[
                            channel
                        ]

    return main


@tilelang.jit(out_idx=[5])
def backward(batch, channels, groups, size, block=512, dtype="float16"):
    per_group = channels // groups

    @T.prim_func
    def main(
        X: T.Tensor((batch, channels, size), dtype),
        dY: T.Tensor((batch, channels, size), dtype),
        weight: T.Tensor((channels,), dtype),
        Mean: T.Tensor((batch, groups), "float32"),
        Rstd: T.Tensor((batch, groups), "float32"),
        dX: T.Tensor((batch, channels, size), dtype),
        dweight: T.Tensor((channels,), "float32"),
        dbias: T.Tensor((channels,), "float32"),
    ):
        with T.Kernel(groups, batch, threads=256) as (g, n):
            mean, rstd = Mean[n, g], Rstd[n, g]
            dy_sum = T.alloc_reducer((per_group,), "float32", op="sum")
            dyx_sum = T.alloc_reducer((per_group,), "float32", op="sum")
            channel_dy = T.alloc_fragment((per_group,), "float32")
            channel_dyx = T.alloc_fragment((per_group,), "float32")
            weighted = T.alloc_fragment((2, per_group), "float32")
            whole = T.alloc_fragment((2,), "float32")
            T.fill(dy_sum, 0)
            T.fill(dyx_sum, 0)
            for c in T.serial(per_group):
                for p in T.serial(T.ceildiv(size, block)):
                    for i in T.Parallel(block):
                        if p * block + i < size:
                            dy = T.cast(dY[n, g * per_group + c, p * block + i], "float32")
                            dy_sum[c] += dy
                            dyx_sum[c] += dy * (X[n, g * per_group + c, p * block + i] - mean) * rstd
            T.finalize_reducer(dy_sum, channel_dy)
            T.finalize_reducer(dyx_sum, channel_dyx)
            for c in T.Parallel(per_group):
                T.atomic_add(dweight[g * per_group + c], channel_dyx[c])
                T.atomic_add(dbias[g * per_group + c], channel_dy[c])
                weighted[0, c] = channel_dy[c] * weight[g * per_group + c]
                weighted[1, c] = channel_dyx[c] * weight[g * per_group + c]
            T.reduce_sum(weighted, whole, dim=1)
            for c in T.serial(per_group):
                w = weight[g * per_group + c]
                for p in T.serial(T.ceildiv(size, block)):
                    for i in T.Parallel(block):
                        if p * block + i < size:
                            normed = (X[n, g * per_group + c, p * block + i] - mean) * rstd
                            inner = (whole[0] + normed * whole[1]) / (per_group * size)
                            dX[n, g * per_group + c, p * block + i] = (dY[n, g * per_group + c, p * block + i] * w - inner) * rstd

    return main


def check(batch, channels, groups, size):
    x, dy = (torch.randn(batch, channels, size).half() for _ in range(2))
    weight, bias = torch.rand(channels).half() + 0.5, torch.randn(channels).half()
    wide = [t.float().requires_grad_() for t in (x, weight, bias)]
    expected = torch.nn.functional.group_norm(wide[0], groups, wide[1], wide[2])
    expected.backward(dy.float())
    y, mean, rstd = forward(batch, channels, groups, size)(x, weight, bias)
    torch.testing.assert_close(y.float(), expected.detach(), rtol=1e-2, atol=1e-2)
    dweight, dbias = torch.zeros(channels), torch.zeros(channels)
    dx = backward(batch, channels, groups, size)(x, dy, weight, mean, rstd, dweight, dbias)
    torch.testing.assert_close(dx.float(), wide[0].grad, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(dweight, wide[1].grad, rtol=1e-3, atol=1e-2)
    torch.testing.assert_close(dbias, wide[2].grad, rtol=1e-3, atol=1e-2)
