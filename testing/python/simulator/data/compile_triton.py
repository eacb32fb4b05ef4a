"""Compiles the kernels of test_mma_triton.py to the PTX files beside this script.

Needs `triton` 3.9 (no GPU): `TRITON_DISABLE_LINE_INFO=1 python compile_triton.py`. The files are kept in the
repository because triton is not a dependency of the tests.
"""

from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

HERE = Path(__file__).resolve().parent


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        a = tl.load(a_ptr + rows[:, None] * k + (start + depth)[None, :])
        b = tl.load(b_ptr + (start + depth)[:, None] * n + columns[None, :])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], total)


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, out_ptr, length, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    width = tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * D + width[None, :])
    largest = tl.full((BM,), -1e30, tl.float32)
    norm = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    for start in range(0, length, BN):
        columns = start + tl.arange(0, BN)
        k = tl.load(k_ptr + columns[None, :] * D + width[:, None])
        v = tl.load(v_ptr + columns[:, None] * D + width[None, :])
        scores = tl.dot(q, k) * 0.125
        new_largest = tl.maximum(largest, tl.max(scores, 1))
        weights = tl.exp(scores - new_largest[:, None])
        shrink = tl.exp(largest - new_largest)
        norm = norm * shrink + tl.sum(weights, 1)
        total = tl.dot(weights.to(tl.float16), v, total * shrink[:, None])
        largest = new_largest
    tl.store(out_ptr + rows[:, None] * D + width[None, :], total / norm[:, None])


@triton.jit
def matmul_maps(a, b, c, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        total = tl.dot(a.load([row, start]), b.load([start, column]), total)
    c.store([row, column], total.to(tl.float16))


def matmul_signature(dtype):
    return {"a_ptr": f"*{dtype}", "b_ptr": f"*{dtype}", "c_ptr": "*fp32", "n": "i32", "k": "i32"}


TILE = {"BM": 64, "BN": 64, "BK": 64}
ATTENTION = {"q_ptr": "*fp16", "k_ptr": "*fp16", "v_ptr": "*fp16", "out_ptr": "*fp32", "length": "i32"}
MAPS = {"a": "tensordesc<fp16[128,64]>", "b": "tensordesc<fp16[64,128]>", "c": "tensordesc<fp16[128,128]>", "k": "i32"}

KERNELS = {
    "matmul_fp16_sm80": (matmul, matmul_signature("fp16"), TILE, 80),
    "matmul_bf16_sm90": (matmul, matmul_signature("bf16"), TILE, 90),
    "matmul_fp8_sm90": (matmul, matmul_signature("fp8e4nv"), TILE, 90),
    "matmul_tf32_sm90": (matmul, matmul_signature("fp32"), {**TILE, "BK": 32}, 90),
    "attention_sm80": (attention, ATTENTION, {"BM": 64, "BN": 64, "D": 64}, 80),
    "attention_sm90": (attention, ATTENTION, {"BM": 64, "BN": 64, "D": 64}, 90),
    "matmul_maps_sm90": (matmul_maps, MAPS, {"BM": 128, "BN": 128, "BK": 64}, 90),
}


def main():
    for name, (kernel, signature, constants, capability) in KERNELS.items():
        source = ASTSource(fn=kernel, signature={**signature, **dict.fromkeys(constants, "constexpr")}, constexprs=constants)
        built = compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": 4, "num_stages": 3})
        head = f"// shared {built.metadata.shared}, threads {built.metadata.num_warps * 32}\n"
        (HERE / f"{name}.ptx").write_text(head + built.asm["ptx"])


if __name__ == "__main__":
    main()
