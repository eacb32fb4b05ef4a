"""Which device compiler runs; loads none of them, as the key of a kernel that is in the cache has it too."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilelang import env
from tilelang.errors import ToolchainMissingError
from tilelang.target.cuda.toolchain.locate import cuda_include_directory, nvrtc_library, ptxas, tool


def _has_nvrtc() -> bool:
    return nvrtc_library() is not None and cuda_include_directory() is not None


def _has_nvcc() -> bool:
    return tool("nvcc") is not None and ptxas() is not None


INSTALLED: Mapping[str, Callable[[], bool]] = {"nvrtc": _has_nvrtc, "nvcc": _has_nvcc}
"""Compilers in order of preference -> whether all that they need is installed."""


def choose_compiler(wanted: str | None = None) -> str:
    """The compiler to use: the one asked for here or by ``TILELANG_CUDA_COMPILER``, else the first that is installed.

    Raises:
        ToolchainMissingError: the one asked for, or every one, is missing.
    """
    wanted = wanted or env.get("TILELANG_CUDA_COMPILER")
    if wanted is not None:
        if wanted not in INSTALLED or not INSTALLED[wanted]():
            raise ToolchainMissingError(wanted, "install it, or choose one of " + ", ".join(INSTALLED))
        return wanted
    for name, installed in INSTALLED.items():
        if installed():
            return name
    raise ToolchainMissingError("a CUDA compiler", "pip install nvidia-cuda-nvrtc nvidia-cuda-runtime")
