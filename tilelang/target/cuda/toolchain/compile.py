"""Running the device compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilelang.target.cuda.toolchain import nvcc, nvrtc
from tilelang.target.cuda.toolchain.choose import choose_compiler
from tilelang.target.cuda.toolchain.records import DeviceBinary

COMPILERS: Mapping[str, Any] = {"nvrtc": nvrtc, "nvcc": nvcc}
"""Compilers by name; each has ``version()`` and ``compile_source()``."""


def compile_device(source: str, arch: str, *, compiler: str | None = None, flags: Sequence[str] = ()) -> DeviceBinary:
    """Compiles the text of ``device_kernel.cu`` to a cubin and PTX.

    Args:
        source: CUDA C++; ``#include <tl_templates/cuda/…>`` and the toolkit's headers resolve.
        arch: ``"sm_80"``, ``"sm_90a"`` …
        compiler: ``"nvrtc"`` or ``"nvcc"``; None chooses.
        flags: further options, passed on as they are.

    Raises:
        DeviceCompileError: the source does not compile.
        ToolchainMissingError: no compiler is installed.
    """
    return COMPILERS[choose_compiler(compiler)].compile_source(source, arch, flags)


def toolchain_versions() -> dict[str, str]:
    """What belongs in a kernel's key: the compiler that would run, and its version."""
    name = choose_compiler()
    return {name: COMPILERS[name].version()}
