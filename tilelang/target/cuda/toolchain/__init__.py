"""From CUDA C++ text to a cubin: NVRTC in this process, or nvcc, and tools that look at the result.

``compile_device(source, arch)`` is all that the target needs; ``python -m tilelang.target.cuda.toolchain`` is the same by hand.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilelang.target.cuda.toolchain.choose import choose_compiler
    from tilelang.target.cuda.toolchain.compile import compile_device, toolchain_versions
    from tilelang.target.cuda.toolchain.records import DeviceBinary, KernelResources

__all__ = ["DeviceBinary", "KernelResources", "choose_compiler", "compile_device", "toolchain_versions"]

_MODULES = {"choose_compiler": "choose", "compile_device": "compile", "toolchain_versions": "compile"}


def __getattr__(name: str) -> Any:
    """Names load their module on first use: a process that finds its kernels in the cache runs no compiler."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES.get(name, 'records')}"), name)
