"""The CUDA target: from a tile program to CUDA C++, a cubin and launch records."""

from __future__ import annotations

from typing import Any

from tilelang.artifact import KernelArtifact
from tilelang.target.request import CompileRequest

__all__ = ["compile_program"]


def compile_program(func: Any, request: CompileRequest) -> KernelArtifact:
    """Compiles a traced program for CUDA.

    Raises:
        CompileError: the program cannot be lowered, or the toolchain refuses it.
    """
    from tilelang.target.cuda.compile import compile_program as compile_cuda

    return compile_cuda(func, request)
