"""Cold compilation, Python to cubin: the fp16 GEMM of 128 x 128 x 32 tiles in 3 stages, for sm_80 and sm_90a, here and in peers.

    python benchmark/compile_cuda.py
    python benchmark/compile_cuda.py --peer tilelang=/path/to/python --peer triton=/path/to/python --runs 5

Each number is the median over fresh processes of the time from the call to the cubin's bytes; importing is not counted. Processor
time (of compilers that are processes of their own, too) stands beside wall time: it hardly depends on what else the machine does.
Candidates are run in turn, so that a slow phase hits all of them. No GPU is used.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

_GEMM = """
def gemm(T, M=1024, N=1024, K=1024):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, 128), threads=128) as (bx, by):
            A_shared = T.alloc_shared((128, 32), "float16")
            B_shared = T.alloc_shared((32, 128), "float16")
            C_local = T.alloc_fragment((128, 128), "float32")
            T.clear(C_local)
            for ko in T.Pipelined(T.ceildiv(K, 32), num_stages=3):
                T.copy(A[by * 128, ko * 32], A_shared)
                T.copy(B[ko * 32, bx * 128], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * 128, bx * 128])
    return main
"""

_OURS = (
    _GEMM
    + """
import tilelang.frontend.program, tilelang.target.cuda.compile  # the peers load their compilers when they are imported, too
import tilelang.language as T
from tilelang.target.info import parse_target
from tilelang.target.request import CompileRequest, compile_program

def build(arch):
    artifact = compile_program(gemm(T), CompileRequest(parse_target({"kind": "cuda", "arch": arch}), backend="nvrtc"))
    return artifact.files["kernel.cubin"]
"""
)

_TILELANG = (
    _GEMM
    + """
import tilelang, tilelang.language as T
from tilelang import tvm
from tilelang.contrib import nvcc
from tilelang.env import CUTLASS_INCLUDE_DIR, TILELANG_TEMPLATE_PATH

def build(arch):
    target = tvm.target.Target({"kind": "cuda", "arch": arch})
    with target:
        source = tilelang.lower(gemm(T), target=target, enable_device_compile=False).kernel_source
    options = ["-std=c++17", "-I" + TILELANG_TEMPLATE_PATH, "-I" + CUTLASS_INCLUDE_DIR]
    return bytes(nvcc.compile_cuda(source, "cubin", arch=["-arch=" + arch], options=options))
"""
)

_TRITON = """
import triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def gemm(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    left, right = a + m[:, None] * K + k[None, :], b + k[:, None] * N + n[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        total = tl.dot(tl.load(left), tl.load(right), total)
        left += BK
        right += BK * N
    tl.store(c + m[:, None] * N + n[None, :], total.to(tl.float16))

def build(arch):
    number = int("".join(ch for ch in arch if ch.isdigit()))
    signature = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "M": "i32", "N": "i32", "K": "i32",
                 "BM": "constexpr", "BN": "constexpr", "BK": "constexpr"}
    constants = {"BM": 128, "BN": 128, "BK": 32}
    attributes = {(i,): [["tt.divisibility", 16]] for i in range(6)}
    source = ASTSource(gemm, signature, constants, attributes)
    return triton.compile(source, target=GPUTarget("cuda", number, 32), options={"num_warps": 4, "num_stages": 3}).asm["cubin"]
"""

CANDIDATES = {"ours": _OURS, "tilelang": _TILELANG, "triton": _TRITON}

_MEASURE = """
import json, resource, sys, time

def processor():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(r.ru_utime + r.ru_stime for r in used)

start, before = time.perf_counter(), processor()
cubin = build(sys.argv[1])
print(json.dumps({"wall": time.perf_counter() - start, "cpu": processor() - before, "bytes": len(cubin)}))
"""


def measure(python: str, script: Path, arch: str, scratch: str) -> dict[str, float]:
    """Wall and processor seconds of one fresh process."""
    done = subprocess.run(
        [python, str(script), arch], capture_output=True, text=True, timeout=600, check=False,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": scratch, "TRITON_CACHE_DIR": tempfile.mkdtemp(dir=scratch),
             "TILELANG_DISABLE_CACHE": "1"},
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"{script.name} {arch} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Prints one row a candidate and architecture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON", help="tilelang=... or triton=...")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--arch", action="append")
    options = parser.parse_args()
    pythons = {"ours": sys.executable, **dict(peer.split("=", 1) for peer in options.peer)}
    with tempfile.TemporaryDirectory(prefix="tilelang-benchmark-") as scratch:
        scripts = {}
        for name in pythons:
            scripts[name] = Path(scratch) / f"{name}_gemm.py"
            scripts[name].write_text(CANDIDATES[name] + _MEASURE, encoding="utf-8")
        print(f"{'candidate':12s} {'arch':8s} {'wall s':>9s} {'cpu s':>9s}   (medians of {options.runs} fresh processes)")
        for arch in options.arch or ["sm_80", "sm_90a"]:
            times: dict[str, list[dict[str, float]]] = {name: [] for name in pythons}
            for _ in range(options.runs):
                for name, python in pythons.items():
                    times[name].append(measure(python, scripts[name], arch, scratch))
            for name, runs in times.items():
                wall, cpu = (statistics.median(run[kind] for run in runs) for kind in ("wall", "cpu"))
                print(f"{name:12s} {arch:8s} {wall:9.3f} {cpu:9.3f}")


if __name__ == "__main__":
    main()
