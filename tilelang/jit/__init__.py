"""The JIT: the only place where the compiler, the cache and the execution backends meet.

    PrimFunc ─key→ cache ─(miss: target.compile_program)→ CacheEntry ─execution.load→ JITKernel

:func:`jit` decorates factories and eager functions, :func:`compile` takes a traced program, :func:`par_compile` many of them,
:func:`lower` stops at the artifact.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from tilelang.jit.function import JitFunction, jit
from tilelang.jit.kernel import JITKernel

_COMPILER = ("build_kernel", "compile", "lower", "par_compile")

__all__ = ["JITKernel", "JitFunction", "jit", *_COMPILER]


def __getattr__(name: str) -> Any:
    # Everything that starts from a traced program needs the compiler; a kernel that is found by its source key does not.
    if name in _COMPILER:
        from tilelang.jit import compiler

        return getattr(compiler, name)
    raise AttributeError(f"tilelang.jit has no {name!r}")


class _CallableModule(types.ModuleType):
    """``tilelang.jit`` is this package and the decorator."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return jit(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
