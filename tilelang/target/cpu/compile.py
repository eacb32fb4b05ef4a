"""From a tile program to the artifact of a CPU kernel."""

from __future__ import annotations

from typing import Any

from tilelang.artifact import KernelArtifact
from tilelang.ir import nodes as ir
from tilelang.target.assemble import assemble
from tilelang.target.assumptions import assumptions
from tilelang.target.cpu.context import CpuContext, vector_unit
from tilelang.target.cpu.pipeline import LLVM, C
from tilelang.target.request import CompileRequest
from tilelang.transform.pipeline import run


def compile_program(func: Any, request: CompileRequest) -> KernelArtifact:
    """Compiles a traced program for the CPU.

    Raises:
        CompileError: the program cannot run on a CPU, or is wrong on any target.
    """
    name = str(func.attrs["global_symbol"])
    context = CpuContext(request, name, vector_unit(request.target), assumptions(func))
    result = run(C if context.emits_c else LLVM, func, context, dump=request.dump_ir)
    library = result.value
    files = {
        context.library_file: library.content,
        ("device_kernel.c" if context.emits_c else "device_kernel.ll"): library.source.encode(),
        "compile_log.txt": library.log.encode(),
        **library.rebuild,
        **result.dumps,
    }
    metadata = {"toolchain": {"tvm": ir.tvm.__version__}, "seconds": dict(result.seconds)}
    return assemble(func, request, files, metadata)
