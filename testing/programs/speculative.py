"""Repetition penalties, the greedy choice, and how many drafted tokens it accepts (speculative decoding)."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"batch": 3, "draft": 4, "vocabulary": 600, "history": 20}
LARGE = {"verify": {"draft": 8, "vocabulary": 129280}}


@tilelang.jit(out_idx=[-3, -2, -1])
def verify(draft, vocabulary, block=256, threads=128):
    batch, history = T.dynamic("batch, history")

    @T.prim_func
    def main(
        Logits: T.Tensor((batch, draft + 1, vocabulary), "float32"),
        drafted: T.Tensor((batch, draft), "int32"),
        seen: T.Tensor((batch, history), "int32"),
        penalty: T.float32,
        best: T.Tensor((batch, draft + 1), "int32"),
        accepted: T.Tensor((batch,), "int32"),
        token: T.Tensor((batch,), "int32"),
    ):
        with T.Kernel(draft + 1, batch, threads=threads) as (d, b):
            x = T.alloc_shared((block,), "float32")
            xf = T.alloc_fragment((block,), "float32")
            idx = T.alloc_fragment((block,), "int32")
            m = T.alloc_fragment((1,), "float32")
            i0 = T.alloc_fragment((1,), "int32")
            top = T.alloc_var("float32", init=-T.infinity("float32"))
            where = T.alloc_var("int32", init=0)
            for v in T.serial(T.ceildiv(vocabulary, block)):
                for i in T.Parallel(block):
                    x[i] = T.if_then_else(v * block + i < vocabulary, Logits[b, d, v * block + i], -T.infinity("float32"))
                for s in T.serial(history):
                    tok = seen[b, s]
                    if tok >= v * block and tok < (v + 1) * block:
                        x[tok - v * block] = T.if_then_else(
                            x[tok - v * block] > 0, x[tok - v * block] / penalty, x[tok - v * block] * penalty
                        )
                T.copy(x, xf)
                T.reduce_max(xf, m)
                for i in T.Parallel(block):
                    idx[i] = T.Select(xf[i] == m[0], i, block)
                T.reduce_min(idx, i0)
                if m[0] > top:
                    top = m[0]
                    where = v * block + i0[0]
            best[b, d] = where
        with T.Kernel(batch, threads=32) as b:
            n = T.alloc_var("int32", init=0)
            for d in T.serial(draft):
                if best[b, d] != drafted[b, d]:
                    break
                n += 1
            accepted[b] = n
            token[b] = best[b, n]

    return main


def check(batch, draft, vocabulary, history):
    logits = torch.randn(batch, draft + 1, vocabulary)
    seen = torch.stack([torch.randperm(vocabulary)[:history] for _ in range(batch)]).int()
    pen = logits.clone()
    for b in range(batch):
        s = seen[b].long()
        pen[b][:, s] = torch.where(pen[b][:, s] > 0, pen[b][:, s] / 1.3, pen[b][:, s] * 1.3)
    want = pen.argmax(2)
    drafted = want[:, :draft].clone().int()
    drafted[1, 2] += 1
    drafted[2, 0] += 1
    best, acc, tok = verify(draft, vocabulary)(logits, drafted, seen, 1.3)
    assert torch.equal(best.long(), want)
    assert acc.tolist() == [4, 2, 0] and tok.tolist() == [want[0, 4], want[1, 2], want[2, 0]]
