"""The CPU target (``"cpu"``, ``"llvm"``, ``"c"``): blocks run in parallel, tiles live in the cache, loops are vectorised."""

from __future__ import annotations

from typing import Any

from tilelang.artifact import KernelArtifact


def compile_program(func: Any, request: Any) -> KernelArtifact:
    """See :func:`tilelang.target.cpu.compile.compile_program`; imported here, so that asking for a tool loads no compiler."""
    from tilelang.target.cpu import compile

    return compile.compile_program(func, request)


__all__ = ["compile_program"]
