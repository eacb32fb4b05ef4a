"""The JIT: the only place where the compiler, the cache and the execution backends meet.

    PrimFunc ─key→ cache ─(miss: target.compile_program)→ CacheEntry ─execution.load→ JITKernel

:func:`jit` decorates factories and eager functions, :func:`compile` takes a traced program, :func:`par_compile` many of them,
:func:`lower` stops at the artifact.
"""

from __future__ import annotations

import inspect
import sys
import types
from typing import TYPE_CHECKING, Any

from tilelang.jit.function import JitFunction, jit
from tilelang.jit.kernel import JITKernel

if TYPE_CHECKING:
    from tilelang.jit.compiler import build_kernel, compile, lower, par_compile

JITImpl = JitFunction
"""What the decorator makes, by the name that programs annotate with."""

lazy_jit = jit
"""The decorator, by the name that it had in earlier releases on functions whose arguments are tensors."""

JITFunc = JitFunction
Kernel = JITKernel

__all__ = ["JITKernel", "JitFunction", "build_kernel", "compile", "jit", "lower", "par_compile"]


_ELSEWHERE = {
    "tilelang.cache": "cached",
    "tilelang.utils.target": "determine_target",
    "tilelang.utils.device": "get_available_cpu_count",
    "tilelang.frontend.program": "prim_func",
}


def __getattr__(name: str) -> Any:
    # Everything that starts from a traced program needs the compiler; a kernel that is found by its source key does not.
    if name in __all__:
        from tilelang.jit import compiler

        return getattr(compiler, name)
    from tilelang.attributes import attributes

    return attributes(__name__, _ELSEWHERE)(name)


class _CallableModule(types.ModuleType):
    """``tilelang.jit`` is this package and the decorator."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.jit(*args, **kwargs)

    @property
    def __signature__(self) -> inspect.Signature:
        """The decorator's."""
        return inspect.signature(self.jit)


sys.modules[__name__].__class__ = _CallableModule
