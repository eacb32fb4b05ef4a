"""Sampling of a next token with temperature, among the most likely tokens that together have a given probability (top-p).

What to learn: a search inside of a kernel. Which tokens belong to the nucleus is a question of one number, the smallest
probability that is still in; halving an interval finds it by sums over the row, without a sort. Then a running sum says
where a uniform random number falls.

Why so: sorting a row of 100 000 logits to use a few hundred of them is by far the most work of the obvious way. Rounds of
sums read the row from the cache; twenty of them fix the threshold to a millionth.

Next: top-k by counting instead of summing in the search; a penalty for tokens that were used; draw the numbers with
``T.rng_rand``.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LOG2_E = 1.4426950408889634


@tilelang.jit(out_idx=[-1])
def sample(vocabulary, block=1024, rounds=24, threads=128):
    rows = T.dynamic("rows")
    tiles = T.ceildiv(vocabulary, block)

    @T.prim_func
    def main(
        logits: T.Tensor((rows, vocabulary), "float32"),
        temperature: T.Tensor((rows,), "float32"),
        top_p: T.Tensor((rows,), "float32"),
        uniform: T.Tensor((rows,), "float32"),
        token: T.Tensor((rows,), "int32"),
    ):
        with T.Kernel(rows, threads=threads) as row:
            x = T.alloc_fragment((block,), "float32")
            part = T.alloc_fragment((1,), "float32")
            peak = T.alloc_fragment((1,), "float32")
            running = T.alloc_shared((block,), "float32")
            found = T.alloc_fragment((block,), "int32")
            first = T.alloc_fragment((1,), "int32")
            mass = T.alloc_var("float32", init=0.0)
            low = T.alloc_var("float32", init=0.0)
            high = T.alloc_var("float32", init=1.0)
            chosen = T.alloc_var("int32", init=-1)
            scale = LOG2_E / temperature[row]

            T.annotate_safe_value({logits: -T.infinity("float32")})
            T.fill(peak, -T.infinity("float32"))
            for v in T.serial(tiles):
                T.copy(logits[row, v * block], x)
                T.reduce_max(x, peak, clear=False)
            whole = T.alloc_var("float32", init=0.0)
            for v in T.serial(tiles):
                T.copy(logits[row, v * block], x)
                for i in T.Parallel(block):
                    x[i] = T.exp2((x[i] - peak[0]) * scale)
                T.reduce_sum(x, part)
                whole += part[0]

            # Weights are relative to the largest, 1. The nucleus has those that are at least ``low``.
            for _ in T.serial(rounds):
                middle = (low + high) / 2
                mass = 0.0
                for v in T.serial(tiles):
                    T.copy(logits[row, v * block], x)
                    for i in T.Parallel(block):
                        weight = T.exp2((x[i] - peak[0]) * scale)
                        x[i] = T.if_then_else(weight >= middle, weight, 0)
                    T.reduce_sum(x, part)
                    mass += part[0]
                if mass >= top_p[row] * whole:
                    low = middle
                else:
                    high = middle
            mass = 0.0
            for v in T.serial(tiles):
                T.copy(logits[row, v * block], x)
                for i in T.Parallel(block):
                    weight = T.exp2((x[i] - peak[0]) * scale)
                    x[i] = T.if_then_else(weight >= low, weight, 0)
                T.reduce_sum(x, part)
                mass += part[0]

            wanted = uniform[row] * mass
            before = T.alloc_var("float32", init=0.0)
            for v in T.serial(tiles):
                T.copy(logits[row, v * block], x)
                for i in T.Parallel(block):
                    weight = T.exp2((x[i] - peak[0]) * scale)
                    running[i] = T.if_then_else(weight >= low, weight, 0)
                T.cumsum(running)
                for i in T.Parallel(block):
                    found[i] = T.if_then_else(before + running[i] > wanted, i, block)
                T.reduce_min(found, first)
                if first[0] < block:
                    chosen = v * block + first[0]
                    break
                before += running[block - 1]
            token[row] = chosen

    return main


def nucleus(logits, temperature, top_p):
    probabilities = (logits / temperature[:, None]).softmax(1)
    values, order = probabilities.sort(dim=1, descending=True)
    kept = (values.cumsum(1) - values < top_p[:, None]).scatter(1, order, values.cumsum(1) - values < top_p[:, None])
    return probabilities * kept


def main(rows: int = 30, vocabulary: int = 3000, seeds: int = 4) -> None:
    logits = torch.randn(rows, vocabulary, device=DEVICE) * 3
    temperature = torch.rand(rows, device=DEVICE) + 0.5
    top_p = torch.rand(rows, device=DEVICE) * 0.9 + 0.05
    weights = nucleus(logits, temperature, top_p)
    sums = weights.cumsum(1)
    for _ in range(seeds):
        uniform = torch.rand(rows, device=DEVICE)
        token = sample(vocabulary)(logits, temperature, top_p, uniform).long()
        wanted = uniform * sums[:, -1]
        reached = sums.gather(1, token[:, None])[:, 0]
        own = weights.gather(1, token[:, None])[:, 0]
        assert (own > 0).all(), "a token outside of the nucleus"
        assert (wanted <= reached + 1e-4).all() and (wanted >= reached - own - 1e-4).all()
    print("sampling: matches torch")


if __name__ == "__main__":
    main()
