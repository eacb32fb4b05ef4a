"""How compile time grows with the length of a kernel: kinds of statements, unrolled 250 to 2,000 times, for each target.

    python benchmark/scaling.py
    python benchmark/scaling.py --kind copies,loops --target cpu,sm_80 --size 1000

Processor seconds, of the C compiler too; "lowering" is everything before the device compiler or LLVM. Twice the statements should
take twice the time. `testing/python/target/test_scaling.py` guards that by counting calls.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any

import tilelang.language as T
from tilelang.target.info import parse_target
from tilelang.target.request import CompileRequest, compile_program

COMPILERS = ("device_compiler", "host", "generate", "build_c")
"""Steps of other people's compilers (of the CPU targets; on CUDA "generate" is our own)."""


def copies(count: int) -> Any:
    """Tiles to shared memory and back."""

    @T.prim_func
    def main(A: T.Tensor((count * 16, 128), "float16"), B: T.Tensor((count * 16, 128), "float16")):
        with T.Kernel(1, threads=128) as _:
            tile = T.alloc_shared((16, 128), "float16")
            for i in [*range(count // 2)]:
                T.copy(A[i * 16, 0], tile)
                T.copy(tile, B[i * 16, 0])

    return main


def loops(count: int) -> Any:
    """Parallel loops over one fragment."""

    @T.prim_func
    def main(A: T.Tensor((count, 128), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128) as _:
            total = T.alloc_fragment((128,), "float32")
            T.clear(total)
            for i in [*range(count)]:
                for j in T.Parallel(128):
                    total[j] = total[j] * 0.5 + A[i, j]
            T.copy(total, B)

    return main


def products(count: int) -> Any:
    """Products of the same shared tiles."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128) as _:
            A_shared = T.alloc_shared((64, 64), "float16")
            B_shared = T.alloc_shared((64, 64), "float16")
            total = T.alloc_fragment((64, 64), "float32")
            T.clear(total)
            T.copy(A, A_shared)
            T.copy(B, B_shared)
            for _ in [*range(count)]:
                T.gemm(A_shared, B_shared, total)
            T.copy(total, C)

    return main


def reductions(count: int) -> Any:
    """Row sums of one fragment."""

    @T.prim_func
    def main(A: T.Tensor((128, 32), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128) as _:
            tile = T.alloc_fragment((128, 32), "float32")
            total = T.alloc_fragment((128,), "float32")
            T.clear(total)
            T.copy(A, tile)
            for _ in [*range(count)]:
                T.reduce_sum(tile, total, dim=1, clear=False)
            T.copy(total, B)

    return main


def branches(count: int) -> Any:
    """Conditions in conditions."""

    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), k: T.int32):
        with T.Kernel(1, threads=128) as _:
            total = T.alloc_fragment((128,), "float32")
            T.copy(A, total)
            for i in [*range(count // 4)]:
                if k > i:
                    if k > 2 * i:
                        for j in T.Parallel(128):
                            total[j] = total[j] + k
                    else:
                        for j in T.Parallel(128):
                            total[j] = total[j] - k
            T.copy(total, A)

    return main


def buffers(count: int) -> Any:
    """Two buffers for each four statements."""

    @T.prim_func
    def main(A: T.Tensor((count, 128), "float32"), B: T.Tensor((count, 128), "float32")):
        with T.Kernel(1, threads=128) as _:
            for i in [*range(count // 4)]:
                tile = T.alloc_shared((128,), "float32")
                row = T.alloc_fragment((128,), "float32")
                T.copy(A[i, 0], tile)
                T.copy(tile, row)
                for j in T.Parallel(128):
                    row[j] = row[j] + 1
                T.copy(row, B[i, 0])

    return main


def pipelines(count: int) -> Any:
    """Pipelined loops of three statements each."""

    @T.prim_func
    def main(A: T.Tensor((64, 1024), "float16"), B: T.Tensor((1024, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128) as _:
            A_shared = T.alloc_shared((64, 32), "float16")
            B_shared = T.alloc_shared((32, 64), "float16")
            total = T.alloc_fragment((64, 64), "float32")
            T.clear(total)
            for _ in [*range(count // 4)]:
                for k in T.Pipelined(32, num_stages=2):
                    T.copy(A[0, k * 32], A_shared)
                    T.copy(B[k * 32, 0], B_shared)
                    T.gemm(A_shared, B_shared, total)
            T.copy(total, C)

    return main


KINDS: Mapping[str, Callable[[int], Any]] = {
    made.__name__: made for made in (copies, loops, products, reductions, branches, buffers, pipelines)
}
TARGETS = ("cpu", "c", "sm_80", "sm_90a")


def request(target: str) -> CompileRequest:
    """What compiles for one of :data:`TARGETS`."""
    if target.startswith("sm_"):
        return CompileRequest(parse_target({"kind": "cuda", "arch": target}), backend="nvrtc")
    return CompileRequest(parse_target(target), backend="tvm_ffi")


def _used() -> float:
    children = getrusage(RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def measure(kind: str, count: int, target: str) -> tuple[float, float, float]:
    """Processor seconds of tracing and of compiling, and the part of the compilation's wall time that is lowering."""
    start = _used()
    func = KINDS[kind](count)
    traced = _used()
    seconds = compile_program(func, request(target)).metadata["seconds"]
    compiled = _used()
    ours = [s for step, s in seconds.items() if step not in COMPILERS or (step == "generate" and target.startswith("sm_"))]
    return traced - start, compiled - traced, sum(ours) / sum(seconds.values())


def main() -> None:
    """Prints one row a kind, target and size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", default=",".join(KINDS))
    parser.add_argument("--target", default=",".join(TARGETS))
    parser.add_argument("--size", default="250,500,1000,2000")
    options = parser.parse_args()
    print(f"{'kind':12s}{'target':8s}{'statements':>11s}{'trace s':>9s}{'compile s':>10s}{'lowering':>10s}")
    for target in options.target.split(","):
        measure("copies", 20, target)
        for kind in options.kind.split(","):
            for size in map(int, options.size.split(",")):
                traced, compiled, ours = measure(kind, size, target)
                print(f"{kind:12s}{target:8s}{size:11d}{traced:9.2f}{compiled:10.2f}{ours:10.0%}", flush=True)


if __name__ == "__main__":
    main()
