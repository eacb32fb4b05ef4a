"""Four whole kernels on the simulator, with and without checkers: processor time, million warp instructions a second, memory.

    python benchmark/simulator/targets.py [--scale 4] [--against old/libtilelang_simulator.so] [--only gemm] [--workers 2]

`--scale` divides the work (the fp16 GEMM at 1024^3, attention forward of 8 heads, 2048 queries and keys, head dim 64, softmax of
4096 x 4096, addition of 64 Mi elements). With `--against` another build of the simulator's library runs in turns with this one;
the results of both must be the same bits.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmark")]

SOFTMAX = """
def build(T, rows, columns=4096):
    @T.prim_func
    def main(X: T.Tensor((rows, columns), "float32"), Y: T.Tensor((rows, columns), "float32")):
        with T.Kernel(rows, threads=256) as bx:
            row = T.alloc_fragment((1, columns), "float32")
            top = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(X[bx, 0], row)
            T.reduce_max(row, top, dim=1)
            for i, j in T.Parallel(1, columns):
                row[i, j] = T.exp2((row[i, j] - top[i]) * 1.44269504)
            T.reduce_sum(row, total, dim=1)
            for i, j in T.Parallel(1, columns):
                row[i, j] /= total[i]
            T.copy(row, Y[bx, 0])
    return main
"""
ADD = """
def build(T, n, block=1024):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=256) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i]
    return main
"""


def programs(scale: int) -> dict[str, tuple[str, str, tuple[int, ...], list[tuple[tuple[int, ...], str]]]]:
    """name -> source, architecture, arguments of its builder, shapes and types of the tensors (the last one is the result)."""
    from main_loops import _ATTENTION, _PRODUCT

    product = _PRODUCT.format(dtype="float16", accum="float32", k=32).replace("def gemm", "def build")
    attention = _ATTENTION.replace("def gemm", "def build")
    m, heads, rows, n = 1024 // scale, max(8 // scale, 1), 4096 // scale, (64 << 20) // scale
    square = [((m, 1024), "float16"), ((1024, 1024), "float16"), ((m, 1024), "float32")]
    head = ((heads, 2048, 64), "float16")
    return {
        "gemm sm_80": (product, "sm_80", (m, 1024, 1024), square),
        "gemm sm_90a": (product, "sm_90a", (m, 1024, 1024), square),
        "attention": (attention, "sm_80", (heads, 2048), [head] * 4),
        "softmax": (SOFTMAX, "sm_80", (rows,), [((rows, 4096), "float32")] * 2),
        "elementwise": (ADD, "sm_80", (n,), [((n,), "float32")] * 3),
    }


def run_one(name: str, checks: str, options: argparse.Namespace) -> dict[str, float | str]:
    """Compiles a kernel and launches it; the fastest of the repeats, and a hash of the result."""
    import linecache
    import time

    import torch

    import tilelang
    import tilelang.language as T
    from tilelang.execution.simulated import last_reports
    from tilelang.simulator import native

    if options.library:
        native.LIBRARY = Path(options.library)
    source, arch, arguments, tensors = programs(options.scale)[name]
    file = f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    scope: dict[str, object] = {}
    exec(compile(source, file, "exec"), scope)
    kernel = tilelang.compile(scope["build"](T, *arguments), target=f"cuda -arch={arch}")
    torch.manual_seed(0)
    values = [torch.randn(shape).to(getattr(torch, dtype)) for shape, dtype in tensors]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = []
    with tilelang.simulator(checks=checks, strict=True, workers=options.workers):
        for _ in range(options.repeat):
            start = time.process_time()
            kernel(*values)
            seconds.append(time.process_time() - start)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    digest = hashlib.sha256(values[-1].contiguous().view(torch.uint8).numpy()).hexdigest()[:16]
    size = sum(v.numel() * v.element_size() for v in values)
    instructions = last_reports()[0].warp_instructions
    return {"seconds": min(seconds), "instructions": instructions, "digest": digest, "memory": grown / size}


def measure(name: str, checks: str, library: str, options: argparse.Namespace) -> dict[str, float | str]:
    """`run_one` in a process of its own."""
    command = [sys.executable, __file__, "--one", name, "--checks", checks, "--library", library, "--scale", str(options.scale),
               "--repeat", str(options.repeat), "--workers", str(options.workers)]  # fmt: skip
    result = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(result.stderr[-3000:])
    return json.loads(result.stdout.splitlines()[-1])


def cell(result: dict[str, float | str]) -> str:
    rate = result["instructions"] / result["seconds"] / 1e6
    return f"{result['seconds']:9.3f} s {rate:7.2f} M/s {result['memory']:6.2f}x"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=int, default=4, help="divides the work")
    parser.add_argument("--against", default="", help="another build of the library")
    parser.add_argument("--only", default="", help="kernels whose name has this in it")
    parser.add_argument("--modes", default="none,all", help="checkers")
    parser.add_argument("--workers", type=int, default=1, help="OS threads")
    parser.add_argument("--repeat", type=int, default=2)
    for hidden in ("--one", "--checks", "--library"):
        parser.add_argument(hidden, default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(run_one(options.one, options.checks, options)))
        return
    print("seconds of processor time, million warp instructions a second, memory beyond the tensors as a multiple of them")
    for name in programs(options.scale):
        if options.only not in name:
            continue
        for checks in options.modes.split(","):
            new = measure(name, checks, "", options)
            line = f"{name:12} {checks:5} {cell(new)}"
            if options.against:
                old = measure(name, checks, options.against, options)
                if old["digest"] != new["digest"]:
                    raise SystemExit(f"{name} ({checks}): the results differ")
                line += f"   before {cell(old)}   {old['seconds'] / new['seconds']:6.2f} times faster"
            print(line, flush=True)


if __name__ == "__main__":
    main()
