"""Machine code for other processors: which vector instructions products, reductions and functions become."""

from __future__ import annotations

import re

import pytest

import tilelang.language as T
from tilelang.ir import nodes as ir
from tilelang.target.cpu import codegen_llvm, pipeline
from tilelang.target.cpu.codegen_llvm import KERNEL_LEVEL, llvm_target
from tilelang.target.cpu.context import CpuContext, vector_unit
from tilelang.target.info import parse_target
from tilelang.target.request import CompileRequest
from tilelang.transform.pipeline import run

LINUX = "unknown-linux-gnu"
DOTS = ["avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni", "avx512bf16"]
PROCESSORS = {
    # name -> target; instructions of products in float32, bfloat16 and int8, of a maximum, and of a fetch ahead
    "aarch64": (
        {"kind": "llvm", "arch": "generic", "triple": f"aarch64-{LINUX}", "features": ["neon"]},
        (r"fmla\s+v\d+\.4s", r"fmla\s+v\d+\.4s", r"ml[as]\s+v\d+\.4s", r"fmaxnm|fcmgt", r"prfm"),
    ),
    "aarch64 with dot products": (
        {"kind": "llvm", "arch": "generic", "triple": f"aarch64-{LINUX}", "features": ["neon", "dotprod"]},
        (r"fmla\s+v\d+\.4s", r"fmla\s+v\d+\.4s", r"sdot\s+v\d+\.4s", r"fmaxnm|fcmgt", r"prfm"),
    ),
    "x86-64-v3": (
        {"kind": "llvm", "arch": "x86-64-v3", "triple": f"x86_64-{LINUX}", "features": ["avx2", "fma"]},
        (r"vfmadd\d+ps.*ymm", r"vfmadd\d+ps.*ymm", r"vpmulld.*ymm|vpmaddwd.*ymm", r"vmaxps.*ymm", r"prefetcht1"),
    ),
    "sapphirerapids": (
        {"kind": "llvm", "arch": "sapphirerapids", "triple": f"x86_64-{LINUX}", "features": DOTS},
        (r"vfmadd\d+ps.*zmm", r"vdpbf16ps.*zmm", r"vpdpbusd.*zmm", r"vmaxps.*zmm", r"prefetcht1"),
    ),
}


def lowered(func, target, flags=()) -> tuple[ir.tvm.IRModule, CpuContext]:
    """TVM's module of a program, and the context it was lowered in."""
    request = CompileRequest(parse_target(target), backend="ctypes", compile_flags=flags)
    context = CpuContext(request, "main", vector_unit(request.target))
    return run(pipeline.LLVM, func, context, stop_after="lower_host").value.kernel, context


def assembly(func, target) -> str:
    """The machine code of a program, as text."""
    module, context = lowered(func, target)
    info = context.request.target
    built = ir.tvm.get_global_func("target.build.llvm")(
        module, llvm_target(info.arch, info.triple, info.instruction_sets, KERNEL_LEVEL)
    )
    return built.inspect_source("asm")


def product(rows: int, dtype: str, accumulator: str):
    @T.prim_func
    def main(A: T.Tensor((rows, 256), dtype), B: T.Tensor((256, 128), dtype), C: T.Tensor((rows, 128), accumulator)):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((rows, 256), dtype), T.alloc_shared((256, 128), dtype)
            c = T.alloc_fragment((rows, 128), accumulator)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C)

    return main


def softmax(length: int):
    @T.prim_func
    def main(X: T.Tensor((8, length), "float32"), Y: T.Tensor((8, length), "float32")):
        with T.Kernel(8, threads=128) as row:
            x = T.alloc_fragment((1, length), "float32")
            most, total = T.alloc_fragment((1,), "float32"), T.alloc_fragment((1,), "float32")
            T.copy(X[row, 0], x)
            T.reduce_max(x, most, dim=1)
            for i, j in T.Parallel(1, length):
                x[i, j] = T.exp2(x[i, j] - most[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(1, length):
                Y[row, j] = x[i, j] / total[i]

    return main


@pytest.mark.parametrize("processor", PROCESSORS)
def test_vector_instructions(processor):
    target, (float32, bfloat16, int8, maximum, fetch) = PROCESSORS[processor]
    wanted = [
        (product(16, "float32", "float32"), float32),
        (product(16, "bfloat16", "float32"), bfloat16),
        (product(16, "int8", "int32"), int8),
        (product(1, "float32", "float32"), fetch),
        (softmax(512), maximum),
    ]
    for func, pattern in wanted:
        text = assembly(func, target)
        assert re.search(pattern, text), pattern


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_uint64_as_a_float_without_an_instruction_for_it(dtype):
    """Code with masks in general registers is made without this extension."""

    @T.prim_func
    def main(X: T.Tensor((64,), "uint64"), Y: T.Tensor((64,), dtype)):
        with T.Kernel(1):
            for i in T.Parallel(64):
                Y[i] = T.cast(X[i], dtype)

    target, _ = PROCESSORS["sapphirerapids"]
    features = [feature for feature in DOTS if feature != "avx512dq"]
    text = assembly(main, {**target, "arch": "x86-64-v3", "features": features})
    assert "vcvtuqq2p" not in text


@pytest.mark.parametrize(
    "dtype, guarded, builds, instruction",
    [
        ("float32", False, 1, "vmulps"),
        ("float32", True, 1, "vmulps"),
        ("int64", False, 2, "vpmullq"),
        ("int64", True, 1, "vpmuludq"),
    ],
)
def test_builds_of_a_kernel(monkeypatch, dtype, guarded, builds, instruction):
    """Only one that multiplies vectors of 64-bit integers, and needs no masks in registers, is built again with AVX512DQ."""

    @T.prim_func
    def main(A: T.Tensor((1024,), dtype), B: T.Tensor((1024,), dtype)):
        with T.Kernel(1):
            for i in T.Parallel(1024):
                if guarded:
                    if A[i] > 0:
                        B[i] = A[i] * B[i]
                else:
                    B[i] = A[i] * B[i]

    module, context = lowered(main, PROCESSORS["sapphirerapids"][0])
    counted = []
    build = codegen_llvm._build
    monkeypatch.setattr(codegen_llvm, "_build", lambda *given: counted.append(given) or build(*given))
    built, _ = codegen_llvm._kernel(module, context)
    assert len(counted) == builds
    assert instruction in built.inspect_source("asm")


def test_every_optimisation_level_reaches_llvm():
    info = parse_target(PROCESSORS["sapphirerapids"][0])
    levels = [llvm_target(info.arch, info.triple, info.instruction_sets, level).attrs["opt-level"] for level in range(4)]
    assert levels == [0, 1, 2, 3]


@pytest.mark.parametrize("flags, level", [((), 3), (("-O1",), 1), (("-O3", "-use_fast_math", "-O0"), 0), (("-Ofast",), 3)])
def test_the_level_that_flags_ask_for(monkeypatch, flags, level):
    module, context = lowered(product(1, "float32", "float32"), PROCESSORS["x86-64-v3"][0], flags)
    levels = []
    build = codegen_llvm._build
    monkeypatch.setattr(codegen_llvm, "_build", lambda *given: levels.append(given[2]) or build(*given))
    codegen_llvm._kernel(module, context)
    assert levels == [level]
