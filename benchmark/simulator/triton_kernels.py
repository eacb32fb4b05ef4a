"""Triton kernels compiled to PTX without a GPU. Runs in an environment that has triton; see peer_triton.py.

python triton_kernels.py FOLDER
"""

import json
import sys
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    pa = a + rows[:, None] * k + depth[None, :]
    pb = b + depth[:, None] * n + columns[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, k, BK):
        total = tl.dot(tl.load(pa), tl.load(pb), total)
        pa += BK
        pb += BK * n
    tl.store(c + rows[:, None] * n + columns[None, :], total)


@triton.jit
def softmax(x, out, n, stride, B: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, B)
    mask = columns < n
    value = tl.load(x + row * stride + columns, mask=mask, other=-float("inf"))
    power = tl.exp(value - tl.max(value, 0))
    tl.store(out + row * stride + columns, power / tl.sum(power, 0), mask=mask)


@triton.jit
def histogram(x, out, n, B: tl.constexpr):
    index = tl.program_id(0) * B + tl.arange(0, B)
    mask = index < n
    tl.atomic_add(out + tl.load(x + index, mask=mask, other=0), 1, mask=mask)


KERNELS = {
    "matmul": (
        matmul,
        {"a": "*fp16", "b": "*fp16", "c": "*fp32", "m": "i32", "n": "i32", "k": "i32"},
        {"BM": 64, "BN": 64, "BK": 32},
    ),
    "softmax": (softmax, {"x": "*fp32", "out": "*fp32", "n": "i32", "stride": "i32"}, {"B": 256}),
    "histogram": (histogram, {"x": "*i32", "out": "*i32", "n": "i32"}, {"B": 256}),
}


def main() -> None:
    folder = Path(sys.argv[1])
    index = {}
    for arch in (80, 90):
        for name, (function, signature, constants) in KERNELS.items():
            source = ASTSource(
                fn=function,
                signature={**signature, **dict.fromkeys(constants, "constexpr")},
                constexprs={(function.arg_names.index(key),): value for key, value in constants.items()},
            )
            kernel = triton.compile(source, target=GPUTarget("cuda", arch, 32), options={"num_warps": 4})
            (folder / f"{name}_{arch}.ptx").write_text(kernel.asm["ptx"])
            index[f"{name}_{arch}"] = kernel.metadata.shared
    (folder / "index.json").write_text(json.dumps(index))


if __name__ == "__main__":
    main()
