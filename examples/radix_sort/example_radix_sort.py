"""Radix sort of float32 keys with their positions: four bits at a time, least significant first, each pass stable.

What to learn: a program of several kernels that pass tensors on. A pass counts the digits of each tile, turns counts into
places by a running sum, and moves every element to its place. Within a tile the rank of an element among equals is a running
sum of flags, one row of the tile for each digit, so that equal keys keep their order and the result is the same in every
run.

Why so: a sort by comparisons moves every element log2(n) times, this one eight times. Floats sort as integers once the bits
of negative ones are inverted and the sign of the others is set. Passes alternate between two pairs of tensors.

Next: eight bits a pass with the counts in shared memory by ``T.atomic_add``; sort rows by themselves; keep only the first k.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BITS = 4
DIGITS = 1 << BITS


@tilelang.jit(out_idx=[-2, -1])
def radix_sort(tile=128, threads=128):
    N = T.dynamic("N")

    @T.macro
    def one_pass(keys, positions, new_keys, new_positions, counts, shift):
        tiles = T.ceildiv(N, tile)
        with T.Kernel(tiles, threads=threads) as bx:
            histogram = T.alloc_shared((DIGITS,), "int32")
            T.clear(histogram)
            for i in T.Parallel(tile):
                if bx * tile + i < N:
                    T.atomic_add(histogram[(keys[bx * tile + i] >> shift) & (DIGITS - 1)], 1)
            for d in T.Parallel(DIGITS):
                counts[d * tiles + bx] = histogram[d]

        # All tiles' counts of digit 0, then those of digit 1, …: a running sum gives where each tile's elements begin.
        with T.Kernel(1, threads=threads):
            part = T.alloc_shared((tile,), "int32")
            sums = T.alloc_shared((tile,), "int32")
            before = T.alloc_var("int32", init=0)
            for c in T.serial(T.ceildiv(DIGITS * tiles, tile)):
                T.copy(counts[c * tile], part)
                T.cumsum(part, sums)
                for i in T.Parallel(tile):
                    if c * tile + i < DIGITS * tiles:
                        counts[c * tile + i] = before + sums[i] - part[i]
                before += sums[tile - 1]

        with T.Kernel(tiles, threads=threads) as bx:
            flags = T.alloc_shared((DIGITS, tile), "int32")
            for d, i in T.Parallel(DIGITS, tile):
                inside = bx * tile + i < N
                flags[d, i] = T.if_then_else(inside and (keys[bx * tile + i] >> shift) & (DIGITS - 1) == d, 1, 0)
            T.cumsum(flags, dim=1)
            for i in T.Parallel(tile):
                if bx * tile + i < N:
                    key = keys[bx * tile + i]
                    digit = T.cast((key >> shift) & (DIGITS - 1), "int32")
                    place = counts[digit * tiles + bx] + flags[digit, i] - 1
                    new_keys[place] = key
                    new_positions[place] = positions[bx * tile + i]

    @T.prim_func
    def main(X: T.Tensor((N,), "float32"), values: T.Tensor((N,), "float32"), order: T.Tensor((N,), "int32")):
        keys = T.alloc_global((N,), "uint32")
        keys_2 = T.alloc_global((N,), "uint32")
        order_2 = T.alloc_global((N,), "int32")
        counts = T.alloc_global((DIGITS * T.ceildiv(N, tile),), "int32")

        with T.Kernel(T.ceildiv(N, threads), threads=threads) as bx:
            for i in T.Parallel(threads):
                if bx * threads + i < N:
                    bits = T.reinterpret(X[bx * threads + i], "uint32")
                    keys[bx * threads + i] = T.if_then_else(bits >> 31 == 1, ~bits, bits | 0x80000000)
                    order[bx * threads + i] = bx * threads + i
        for step in [0, 2, 4, 6]:
            one_pass(keys, order, keys_2, order_2, counts, BITS * step)
            one_pass(keys_2, order_2, keys, order, counts, BITS * (step + 1))
        with T.Kernel(T.ceildiv(N, threads), threads=threads) as bx:
            for i in T.Parallel(threads):
                if bx * threads + i < N:
                    key = keys[bx * threads + i]
                    values[bx * threads + i] = T.reinterpret(T.if_then_else(key >> 31 == 1, key ^ 0x80000000, ~key), "float32")

    return main


def main(N: int = 1000) -> None:
    x = (torch.randn(N, device=DEVICE) * 4).round() / 4 + 0.0  # many equal keys; -0 would come before 0
    x[::7] *= 1e20
    values, order = radix_sort()(x)
    expected = x.sort(stable=True)
    assert torch.equal(values, expected.values)
    assert torch.equal(order.long(), expected.indices)
    print("radix sort: matches torch")


if __name__ == "__main__":
    main()
