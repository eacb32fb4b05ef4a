"""Cross entropy over a large vocabulary: loss and gradient without ever storing probabilities.

What to learn: an online reduction over a long row. Tiles of the row pass through registers; a running maximum and a sum that
is rescaled when the maximum moves give the logarithm of the sum of exponentials in one read. A second read writes the
gradient over the logits.

Why so: probabilities of 100 000 words for every token are the largest tensor of the whole model; nothing but the loss is
needed of them. The gradient needs the sum first, hence two passes; written in place it costs no memory of its own.

Next: split the vocabulary among blocks and combine their maxima and sums; fuse the product with the output embedding.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LOG2_E = 1.4426950408889634


@tilelang.jit(out_idx=[-1])
def cross_entropy(vocabulary, smoothing=0.0, ignored=-100, block=1024, threads=128, dtype="bfloat16"):
    """The loss of each row; its gradient, times ``scale``, takes the place of ``logits``."""
    tokens = T.dynamic("tokens")

    @T.prim_func
    def main(
        logits: T.Tensor((tokens, vocabulary), dtype),
        labels: T.Tensor((tokens,), "int64"),
        scale: T.float32,
        loss: T.Tensor((tokens,), "float32"),
    ):
        with T.Kernel(tokens, threads=threads) as t:
            x = T.alloc_fragment((block,), "float32")
            peak = T.alloc_fragment((1,), "float32")
            previous = T.alloc_fragment((1,), "float32")
            part = T.alloc_fragment((1,), "float32")
            total = T.alloc_var("float32", init=0.0)
            plain_sum = T.alloc_var("float32", init=0.0)
            label = labels[t]

            T.fill(peak, -T.infinity("float32"))
            for v in T.Pipelined(T.ceildiv(vocabulary, block), num_stages=2):
                for i in T.Parallel(block):
                    x[i] = T.if_then_else(v * block + i < vocabulary, logits[t, v * block + i], -T.infinity("float32"))
                T.copy(peak, previous)
                T.reduce_max(x, peak, dim=0, clear=False)
                if smoothing > 0:
                    shown = T.alloc_fragment((block,), "float32")
                    for i in T.Parallel(block):
                        shown[i] = T.if_then_else(v * block + i < vocabulary, x[i], 0.0)
                    T.reduce_sum(shown, part, dim=0)
                    plain_sum += part[0]
                for i in T.Parallel(block):
                    x[i] = T.exp2((x[i] - peak[0]) * LOG2_E)
                T.reduce_sum(x, part, dim=0)
                total = total * T.exp2((previous[0] - peak[0]) * LOG2_E) + part[0]

            if label == ignored:
                loss[t] = 0
                for v in T.serial(T.ceildiv(vocabulary, block)):
                    for i in T.Parallel(block):
                        if v * block + i < vocabulary:
                            logits[t, v * block + i] = 0
            else:
                lse = T.log(total) + peak[0]
                wanted = T.cast(logits[t, label], "float32")
                loss[t] = lse - (1 - smoothing) * wanted - smoothing / vocabulary * plain_sum
                for v in T.serial(T.ceildiv(vocabulary, block)):
                    for i in T.Parallel(block):
                        column = v * block + i
                        if column < vocabulary:
                            p = T.exp2((logits[t, column] - lse) * LOG2_E)
                            p -= smoothing / vocabulary
                            logits[t, column] = T.if_then_else(column == label, p - (1 - smoothing), p) * scale

    return main


def main(tokens: int = 20, vocabulary: int = 5000) -> None:
    labels = torch.randint(0, vocabulary, (tokens,), device=DEVICE)
    labels[3] = -100
    for smoothing in (0.0, 0.1):
        logits = (torch.randn(tokens, vocabulary, device=DEVICE) * 3).bfloat16()
        wide = logits.float().requires_grad_()
        expected = torch.nn.functional.cross_entropy(wide, labels, reduction="none", label_smoothing=smoothing)
        (expected * 0.5).sum().backward()
        loss = cross_entropy(vocabulary, smoothing)(logits, labels, 0.5)
        torch.testing.assert_close(loss, expected.detach(), rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(logits.float(), wide.grad, rtol=2e-2, atol=1e-5)
    print("cross entropy: matches torch")


if __name__ == "__main__":
    main()
