"""The k largest of long rows without a sort: eight bits of the key at a time, threads counting digits in shared memory."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"rows": 3, "length": 700, "topk": 64}
LARGE = {"radix_select": {"topk": 2048}}
TARGETS = ("interpret", "sm_80", "sm_90a")


def ordered(x):
    """Bits that are ordered as the numbers are."""
    bits = T.reinterpret(x, "uint32")
    return T.if_then_else(bits >> 31 == 1, ~bits, bits | 0x80000000)


@tilelang.jit
def radix_select(topk, threads=256, in_dtype="float32", out_dtype="int32"):
    batch, seq_len = T.dynamic("batch"), T.dynamic("seq_len")
    RADIX = 1 << 8

    @T.prim_func
    def main(
        input: T.Tensor[(batch, seq_len), in_dtype],
        index: T.Tensor[(batch, topk), out_dtype],
        ends: T.Tensor[(batch,), out_dtype],
    ):
        with T.Kernel(batch, threads=threads) as bx:
            tx = T.get_thread_binding()
            histogram = T.alloc_shared([RADIX + 1], "int32")
            found = T.alloc_shared([1], "int32")
            threshold = T.alloc_shared([1], "uint32")
            remaining = T.alloc_shared([1], "int32")
            digit_here = T.alloc_shared([1], "int32")
            end = T.alloc_var("int32")
            more = T.alloc_var("int32")
            pos = T.alloc_var("int32")
            prefix = T.alloc_var("uint32")
            mask = T.alloc_var("uint32")

            end = ends[bx]
            if tx == 0:
                found[0] = 0
                threshold[0] = 0
                remaining[0] = topk
            mask = 0
            T.sync_threads()
            for round in T.serial(4):
                shift = 24 - round * 8
                prefix = threshold[0]
                T.fill(histogram, 0)
                T.sync_threads()
                for s in T.serial(T.ceildiv(end, threads)):
                    at = s * threads + tx
                    if at < end:
                        key = ordered(input[bx, at])
                        if (key & mask) == prefix:
                            T.atomic_add(histogram[(key >> shift) & 0xFF], 1)
                T.sync_threads()
                # Sums of all digits from this one up.
                for step in T.serial(8):
                    offset = 1 << step
                    more = 0
                    if tx < RADIX - offset:
                        more = histogram[tx + offset]
                    T.sync_threads()
                    if tx < RADIX:
                        histogram[tx] += more
                    T.sync_threads()
                if tx < RADIX:
                    above = T.if_then_else(tx + 1 < RADIX, histogram[tx + 1], 0)
                    if histogram[tx] >= remaining[0] and above < remaining[0]:
                        digit_here[0] = tx
                T.sync_threads()
                if tx == 0:
                    d = digit_here[0]
                    if d + 1 < RADIX:
                        remaining[0] = remaining[0] - histogram[d + 1]
                    threshold[0] = threshold[0] | (T.cast(d, "uint32") << shift)
                mask = mask | (T.uint32(0xFF) << shift)
                T.sync_threads()

            for s in T.serial(T.ceildiv(end, threads)):
                at = s * threads + tx
                if at < end:
                    if ordered(input[bx, at]) > threshold[0]:
                        pos = T.atomic_add(found[0], 1, return_prev=True)
                        index[bx, pos] = at
            T.sync_threads()
            for s in T.serial(T.ceildiv(end, threads)):
                at = s * threads + tx
                if at < end:
                    if ordered(input[bx, at]) == threshold[0]:
                        pos = T.atomic_add(found[0], 1, return_prev=True)
                        if pos < topk:
                            index[bx, pos] = at

    return main


def check(rows, length, topk):
    x = (torch.randn(rows, length) * 8).round() / 8
    ends = torch.tensor([length - 40 * i for i in range(rows)]).int()
    index = torch.full((rows, topk), -1).int()
    radix_select(topk)(x, index, ends)
    for row in range(rows):
        expected = x[row, : ends[row]].topk(topk).values
        assert torch.equal(x[row, index[row].long()].sort(descending=True).values, expected)
        assert len(set(index[row].tolist())) == topk
