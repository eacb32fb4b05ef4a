"""Which device compiler runs, and running it.

A compiler is loaded when it runs: the key of a kernel that is in the cache asks which one would.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilelang import env
from tilelang.errors import ToolchainMissingError
from tilelang.target.cuda.toolchain.locate import cuda_include_directory, nvrtc_library, ptxas, tool

if TYPE_CHECKING:
    from tilelang.target.cuda.toolchain.records import DeviceBinary

COMPILERS: Mapping[str, Callable[[], bool]] = {
    "nvrtc": lambda: nvrtc_library() is not None and cuda_include_directory() is not None,
    "nvcc": lambda: tool("nvcc") is not None and ptxas() is not None,
}
"""Compilers in order of preference -> whether all that they need is installed. Each is a module here, with ``version()`` and
``compile_source()``."""


def choose_compiler(wanted: str | None = None) -> str:
    """The compiler to use: the one asked for here or by ``TILELANG_CUDA_COMPILER``, else the first that is installed.

    Raises:
        ToolchainMissingError: the one asked for, or every one, is missing.
    """
    wanted = wanted or env.get("TILELANG_CUDA_COMPILER")
    if wanted is not None:
        if wanted not in COMPILERS or not COMPILERS[wanted]():
            raise ToolchainMissingError(wanted, "install it, or choose one of " + ", ".join(COMPILERS))
        return wanted
    for name, is_installed in COMPILERS.items():
        if is_installed():
            return name
    raise ToolchainMissingError("a CUDA compiler", "pip install nvidia-cuda-nvrtc nvidia-cuda-runtime")


def compile_device(source: str, arch: str, *, compiler: str | None = None, flags: Sequence[str] = ()) -> DeviceBinary:
    """Compiles the text of ``device_kernel.cu`` to a cubin and PTX.

    Args:
        source: CUDA C++; ``#include <tl_templates/cuda/…>`` and the toolkit's headers resolve.
        arch: ``"sm_80"``, ``"sm_90a"`` …
        compiler: ``"nvrtc"`` or ``"nvcc"``; None chooses.
        flags: further options, in nvcc's spelling.

    Raises:
        DeviceCompileError: the source does not compile; the message is the compiler's first error.
        ToolchainMissingError: no compiler is installed.
    """
    return _loaded(choose_compiler(compiler)).compile_source(source, arch, flags)


def toolchain_versions() -> dict[str, str]:
    """What belongs in a kernel's key: the compiler that would run, and its version."""
    name = choose_compiler()
    return {name: _loaded(name).version()}


def _loaded(name: str) -> Any:
    return importlib.import_module(f"{__package__}.{name}")
