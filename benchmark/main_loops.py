"""Machine instructions of the main loop, here and in peers: products of several types, and flash attention. No GPU is used.

    python benchmark/main_loops.py
    python benchmark/main_loops.py --peer tilelang=/path/to/python --peer triton=/path/to/python
    python benchmark/main_loops.py --programs --peer tilelang=/path/to/python

Every candidate compiles the same tiles: 128 x 128 with 64 bytes of K, B transposed, 3 stages, 128 threads; attention with 64
queries of 64 elements, 64 keys a step, 2 stages, 128 threads. "few rows" is a product of 16 rows and 128 columns with 128 of K a
step; "gather" one of 128 x 128 with 32 of K, whose rows of A are chosen by their numbers, those of a negative number zero;
"convolution" one of 3 x 3 in NHWC, whose columns the program gathers, in the same tiles. What is counted is the innermost loop
with most tensor-core instructions; a compiler that unrolls the loop has a multiple of the products in it. fp8 without Hopper is
sm_89. With --fast-math the first two compile with tl.enable_fast_math; triton's exponentials flush denormal results either way.
With --programs the pass configurations of a program's decorator are not applied.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import tempfile
from pathlib import Path

from compile_cuda import _OURS, _TILELANG, _TRITON  # the ways to a cubin

from tilelang.target.cuda.toolchain import sass

_HEAD = {"ours": _OURS, "tilelang": _TILELANG, "triton": _TRITON}

DTYPES = {
    # name -> operands, accumulator, elements of a K step, Triton's type
    "fp16": ("float16", "float32", 32, "fp16"),
    "bf16": ("bfloat16", "float32", 32, "bf16"),
    "fp8": ("float8_e4m3", "float32", 64, "fp8e4nv"),
    "int8": ("int8", "int32", 64, "i8"),
}

_PRODUCT = """
def gemm(T, M=1024, N=1024, K=4096):
    @T.prim_func
    def main(A: T.Tensor((M, K), "{dtype}"), B: T.Tensor((N, K), "{dtype}"), C: T.Tensor((M, N), "{accum}")):
        with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, 128), threads=128) as (bx, by):
            A_shared = T.alloc_shared((128, {k}), "{dtype}")
            B_shared = T.alloc_shared((128, {k}), "{dtype}")
            C_local = T.alloc_fragment((128, 128), "{accum}")
            T.clear(C_local)
            for ko in T.Pipelined(T.ceildiv(K, {k}), num_stages=3):
                T.copy(A[by * 128, ko * {k}], A_shared)
                T.copy(B[bx * 128, ko * {k}], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * 128, bx * 128])
    return main
"""

_FEW_ROWS = """
def gemm(T, M=16, N=1024, K=4096):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((N, K), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
            A_shared = T.alloc_shared((M, 128), "float16")
            B_shared = T.alloc_shared((128, 128), "float16")
            C_local = T.alloc_fragment((M, 128), "float32")
            T.clear(C_local)
            for ko in T.Pipelined(T.ceildiv(K, 128), num_stages=2):
                T.copy(A[0, ko * 128], A_shared)
                T.copy(B[bx * 128, ko * 128], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C[0, bx * 128])
    return main
"""

_GATHER = """
def gemm(T, M=4096, N=1024, K=4096):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"), rows: T.Tensor((1024,), "int32"), B: T.Tensor((N, K), "float16"),
        C: T.Tensor((1024, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, 128), 8, threads=128) as (bx, by):
            A_shared = T.alloc_shared((128, 32), "float16")
            B_shared = T.alloc_shared((128, 32), "float16")
            C_local = T.alloc_fragment((128, 128), "float32")
            T.clear(C_local)
            for ko in T.Pipelined(T.ceildiv(K, 32), num_stages=3):
                for i, j in T.Parallel(128, 32):
                    A_shared[i, j] = T.if_then_else(rows[by * 128 + i] >= 0, A[rows[by * 128 + i], ko * 32 + j], 0)
                T.copy(B[bx * 128, ko * 32], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * 128, bx * 128])
    return main
"""

_CONVOLUTION = """
def gemm(T, N=16, H=56, W=56, C=256, F=256):
    @T.prim_func
    def main(
        X: T.Tensor((N, H, W, C), "float16"), K: T.Tensor((9 * C, F), "float16"), Y: T.Tensor((N * H * W, F), "float16"),
    ):
        with T.Kernel(T.ceildiv(F, 128), T.ceildiv(N * H * W, 128), threads=128) as (bx, by):
            columns = T.alloc_shared((128, 32), "float16")
            K_shared = T.alloc_shared((32, 128), "float16")
            Y_local = T.alloc_fragment((128, 128), "float32")
            T.clear(Y_local)
            for ko in T.Pipelined(T.ceildiv(9 * C, 32), num_stages=3):
                for i, j in T.Parallel(128, 32):
                    m, k = by * 128 + i, ko * 32 + j
                    h, w = m % (H * W) // W + k // (3 * C) - 1, m % W + k // C % 3 - 1
                    inside = h >= 0 and w >= 0 and h < H and w < W
                    columns[i, j] = T.if_then_else(inside, X[m // (H * W), h, w, k % C], 0)
                T.copy(K[ko * 32, bx * 128], K_shared)
                T.gemm(columns, K_shared, Y_local)
            T.copy(Y_local, Y[by * 128, bx * 128])
    return main
"""

_PROGRAM = """
def gemm(T):
    import importlib.util
    spec = importlib.util.spec_from_file_location("program", {path!r})
    module = importlib.util.module_from_spec(spec)
    sys.modules["program"] = module
    spec.loader.exec_module(module)
    return module.{kernel}.get_tir(**module.LARGE[{kernel!r}])
"""
_PROGRAMS = Path(__file__).resolve().parent.parent / "testing" / "programs"

_OTHERS = {"few rows": _FEW_ROWS, "gather": _GATHER, "convolution": _CONVOLUTION}
"""Kernels that are written in this language only."""

_ATTENTION = """
def gemm(T, heads=8, length=1024, dim=64, M=64, N=64):
    shape = (heads, length, dim)
    scale = 0.18033688

    @T.prim_func
    def main(Q: T.Tensor(shape, "float16"), K: T.Tensor(shape, "float16"), V: T.Tensor(shape, "float16"),
             O: T.Tensor(shape, "float16")):
        with T.Kernel(T.ceildiv(length, M), heads, threads=128) as (bx, by):
            Q_shared = T.alloc_shared((M, dim), "float16")
            K_shared = T.alloc_shared((N, dim), "float16")
            V_shared = T.alloc_shared((N, dim), "float16")
            scores = T.alloc_fragment((M, N), "float32")
            cast = T.alloc_fragment((M, N), "float16")
            total = T.alloc_fragment((M, dim), "float32")
            top = T.alloc_fragment((M,), "float32")
            before = T.alloc_fragment((M,), "float32")
            factor = T.alloc_fragment((M,), "float32")
            sums = T.alloc_fragment((M,), "float32")
            weight = T.alloc_fragment((M,), "float32")
            T.copy(Q[by, bx * M : (bx + 1) * M, :], Q_shared)
            T.fill(total, 0)
            T.fill(weight, 0)
            T.fill(top, -T.infinity("float32"))
            for k in T.Pipelined(T.ceildiv(length, N), num_stages=2):
                T.copy(K[by, k * N : (k + 1) * N, :], K_shared)
                T.copy(V[by, k * N : (k + 1) * N, :], V_shared)
                T.clear(scores)
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(top, before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(M):
                    factor[i] = T.exp2(before[i] * scale - top[i] * scale)
                for i, j in T.Parallel(M, N):
                    scores[i, j] = T.exp2(scores[i, j] * scale - top[i] * scale)
                T.reduce_sum(scores, sums, dim=1)
                for i in T.Parallel(M):
                    weight[i] = weight[i] * factor[i] + sums[i]
                T.copy(scores, cast)
                for i, j in T.Parallel(M, dim):
                    total[i, j] *= factor[i]
                T.gemm(cast, V_shared, total, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(M, dim):
                total[i, j] /= weight[i]
            T.copy(total, O[by, bx * M : (bx + 1) * M, :])
    return main
"""

_TRITON_ATTENTION = """
import triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def attention(q, k, v, o, length, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    base = tl.program_id(1) * length * D
    rows = tl.program_id(0) * M + tl.arange(0, M)
    keys, dims = tl.arange(0, N), tl.arange(0, D)
    query = tl.load(q + base + rows[:, None] * D + dims[None, :])
    top = tl.full((M,), float("-inf"), tl.float32)
    weight = tl.zeros((M,), tl.float32)
    total = tl.zeros((M, D), tl.float32)
    left, right = k + base + keys[None, :] * D + dims[:, None], v + base + keys[:, None] * D + dims[None, :]
    for _ in range(0, length, N):
        scores = tl.dot(query, tl.load(left)) * 0.18033688
        new = tl.maximum(top, tl.max(scores, 1))
        factor = tl.exp2(top - new)
        scores = tl.exp2(scores - new[:, None])
        weight = weight * factor + tl.sum(scores, 1)
        total = tl.dot(scores.to(tl.float16), tl.load(right), total * factor[:, None])
        top = new
        left += N * D
        right += N * D
    tl.store(o + base + rows[:, None] * D + dims[None, :], (total / weight[:, None]).to(tl.float16))

def build(arch):
    number = int("".join(ch for ch in arch if ch.isdigit()))
    signature = {**dict.fromkeys("qkvo", "*fp16"), "length": "i32", **dict.fromkeys("MND", "constexpr")}
    source = ASTSource(attention, signature, {"M": 64, "N": 64, "D": 64}, {(i,): [["tt.divisibility", 16]] for i in range(5)})
    return triton.compile(source, target=GPUTarget("cuda", number, 32), options={"num_warps": 4, "num_stages": 2}).asm["cubin"]
"""

_SAVE = """
import sys
open(sys.argv[2], "wb").write(build(sys.argv[1]))
"""


_FAST = {
    "ours": {'backend="nvrtc"': 'backend="nvrtc", pass_configs={"tl.enable_fast_math": True}'},
    "tilelang": {
        "with target:": 'with target, tvm.transform.PassContext(config={"tl.enable_fast_math": True}):',
        'options = ["-std=c++17"': 'options = ["-std=c++17", "--use_fast_math"',
    },
}
"""How a candidate's script compiles with fast math."""


def program(candidate: str, kernel: str, fast_math: bool = False) -> str:
    """The script that compiles a kernel for an architecture to a file."""
    text = _exact(candidate, kernel)
    for old, new in _FAST.get(candidate, {}).items() if fast_math else ():
        text = text.replace(old, new)
    return text


def _exact(candidate: str, kernel: str) -> str:
    if kernel == "attention":
        if candidate == "triton":
            return _TRITON_ATTENTION + _SAVE
        return _HEAD[candidate] + _ATTENTION + _SAVE
    if "." in kernel:
        module, _, name = kernel.partition(".")
        return _HEAD[candidate] + "import sys" + _PROGRAM.format(path=str(_PROGRAMS / f"{module}.py"), kernel=name) + _SAVE
    if kernel in _OTHERS:
        return _HEAD[candidate] + _OTHERS[kernel] + _SAVE
    dtype, accumulator, k, short = DTYPES[kernel]
    if candidate != "triton":
        return _HEAD[candidate] + _PRODUCT.format(dtype=dtype, accum=accumulator, k=k) + _SAVE
    text = _TRITON
    for old, new in {
        '"c": "*fp16"': f'"c": "*{"i32" if kernel == "int8" else "fp32"}"',
        '"*fp16"': f'"*{short}"',
        '"BK": 32': f'"BK": {k}',
        "b + k[:, None] * N + n[None, :]": "b + k[:, None] + n[None, :] * K",
        "right += BK * N": "right += BK",
        "total.to(tl.float16)": "total",
        "(BM, BN), tl.float32": f"(BM, BN), tl.{accumulator}",
        "tl.load(right), total)": f"tl.load(right), total, out_dtype=tl.{accumulator})",
    }.items():
        text = text.replace(old, new)
    return text + _SAVE


def loop_of(cubin: bytes) -> tuple[str, ...]:
    """The opcodes of the main loop."""
    best: tuple[str, ...] = ()
    for function in sass.functions(cubin).values():
        for family in ("HGMMA", "IGMMA", "QGMMA", "HMMA", "IMMA", "QMMA"):
            best = max(best, tuple(i.family for i in function.main_loop(family)), key=lambda body: (_products(body), -len(body)))
    return best


def _products(body: tuple[str, ...]) -> int:
    return sum(family.endswith("MMA") for family in body)


def kernels_of_programs() -> list[str]:
    """The kernels of ``testing/programs``, as module.kernel."""
    found = []
    for path in sorted(_PROGRAMS.glob("[a-z]*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict) and ast.unparse(node.targets[0]) == "LARGE":
                found += [f"{path.stem}.{key.value}" for key in node.value.keys if isinstance(key, ast.Constant)]
    return found


def main() -> None:
    """Prints one row a kernel, architecture and candidate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--kernel", default=",".join([*DTYPES, "attention", *_OTHERS]))
    parser.add_argument("--programs", action="store_true", help="all kernels of testing/programs, at their large sizes")
    parser.add_argument("--arch", default="sm_80,sm_90a")
    parser.add_argument("--fast-math", action="store_true")
    options = parser.parse_args()
    pythons = {"ours": sys.executable, **dict(peer.split("=", 1) for peer in options.peer)}
    wide = 40 if options.programs else 10
    print(f"{'kernel':{wide}s} {'arch':7s} {'candidate':10s} {'instructions':>12s} {'products':>9s} {'barriers':>9s}")
    with tempfile.TemporaryDirectory(prefix="tilelang-loops-") as scratch:
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": scratch, "TRITON_CACHE_DIR": scratch, "TILELANG_DISABLE_CACHE": "1",
        }  # fmt: skip
        for kernel in kernels_of_programs() if options.programs else options.kernel.split(","):
            for arch in options.arch.split(","):
                arch = "sm_89" if (kernel, arch) == ("fp8", "sm_80") else arch
                for name, python in pythons.items():
                    if (kernel in _OTHERS or "." in kernel) and name == "triton":
                        continue
                    script, cubin = Path(scratch) / f"{name}_{kernel}.py", Path(scratch) / "kernel.cubin"
                    script.write_text(program(name, kernel, options.fast_math), encoding="utf-8")
                    done = subprocess.run(
                        [python, str(script), arch, str(cubin)], capture_output=True, text=True, check=False, env=environment
                    )
                    if done.returncode:
                        reason = (done.stderr.strip().splitlines() or ["?"])[-1]
                        print(f"{kernel:{wide}s} {arch:7s} {name:10s} {'-':>12s} {'-':>9s} {'-':>9s}  {reason[:90]}", flush=True)
                        continue
                    body = loop_of(cubin.read_bytes())
                    barriers = sum(family in ("BAR", "SYNCS") for family in body)
                    print(f"{kernel:{wide}s} {arch:7s} {name:10s} {len(body):12d} {_products(body):9d} {barriers:9d}", flush=True)


if __name__ == "__main__":
    main()
