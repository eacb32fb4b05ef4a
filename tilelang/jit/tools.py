"""The programs that compile a kernel: their versions and contents, for its key, and what scripts in their place add."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tilelang.cache.keys.installed import package_version
from tilelang.cache.keys.versions import added_flags, executable_content, executable_files, executable_version, file_content
from tilelang.errors import ToolchainMissingError
from tilelang.jit import rewrites
from tilelang.target.toolchain import c_compiler, linker


def toolchain(kind: str, backend: str) -> Mapping[str, str]:
    """Versions of the tools that a compilation runs, for the kernel key; a tool that is replaced meanwhile is another one.

    Args:
        kind: of the target.
        backend: the execution backend; that of NVRTC alone has host code in Python, where all others of CUDA have C.

    Raises:
        ToolchainError: there is no C compiler or linker, and the kernel needs one.
    """
    tools = {"apache-tvm": package_version("apache-tvm")}
    if rewrites.token(kind):
        tools["function over generated code"] = rewrites.token(kind)
    programs = _host_programs(kind, backend)
    if "cc" in programs:
        tools["cc"] = executable_version(programs["cc"], "--version")
    tools |= {f"{name} file": executable_content(path) for name, path in programs.items()}
    return tools | _cuda_tools() if kind == "cuda" else tools


def _host_programs(kind: str, backend: str) -> dict[str, str]:
    """The programs that make host code, by what they are in a key."""
    programs: dict[str, str] = {}
    has_host = kind == "cuda" and backend != "nvrtc"
    if kind == "c" or has_host:
        # The compiler runs the assembler and the linker that it finds on the PATH.
        programs |= {"cc": c_compiler(), "as": "as", "ld": "ld"}
    if kind == "cpu" or has_host:
        programs["linker"] = linker()[0]
    return programs


@dataclass(frozen=True)
class Wrappers:
    """What scripts in the place of tools do.

    Attributes:
        flags: that they add.
        problem: why that is not known; empty where it is.
    """

    flags: tuple[str, ...]
    problem: str


def wrappers(kind: str, backend: str) -> Wrappers:
    """What scripts do in the place of the tools that a compilation runs.

    Args:
        kind: of the target.
        backend: the execution backend.
    """
    programs = {**_host_programs(kind, backend), **(_device_programs() if kind == "cuda" else {})}
    tools = [executable_files(path) for path in dict.fromkeys(programs.values())]
    return Wrappers(
        tuple(flag for tool in tools for flag in added_flags(tool)), next((tool.problem for tool in tools if tool.problem), "")
    )


_CUDA_WHEELS = ("nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-cuda-cccl")
_CUDA_RELEASES = ("", "-cu11", "-cu12")
"""Endings of the wheels' names; those of CUDA 13 have none."""


def _cuda_tools() -> dict[str, str]:
    """The device compiler in force: wheels by version, what a toolkit of the machine has by content."""
    from tilelang.target.cuda.toolchain import locate  # no other target needs these

    wheels = (name + release for name in _CUDA_WHEELS for release in _CUDA_RELEASES)
    tools = {name: version for name in wheels if (version := package_version(name))}
    compiler = _device_compiler()
    if compiler is None:
        return tools
    if compiler == "nvcc":
        programs = _device_programs()
        tools["nvcc"] = executable_version(programs["nvcc"], "--version")
        return tools | {f"{name} file": executable_content(path) for name, path in programs.items()}
    headers = locate.cuda_include_directory()
    loaded = {"nvrtc file": locate.nvrtc_library(), "cuda.h": headers and headers / "cuda.h"}
    return tools | {name: _content_of_toolkit(path) for name, path in loaded.items() if path and not locate.is_of_wheel(path)}


def _device_compiler() -> str | None:
    from tilelang.target.cuda.toolchain.choose import choose_compiler

    try:
        return choose_compiler()
    except ToolchainMissingError:  # said by the compilation, if there is one
        return None


def _device_programs() -> dict[str, str]:
    """The programs that make device code; NVRTC is none."""
    from tilelang.target.cuda.toolchain import locate

    return {"nvcc": str(locate.tool("nvcc")), "ptxas": str(locate.ptxas())} if _device_compiler() == "nvcc" else {}


@functools.cache
def _content_of_toolkit(path: Path) -> str:
    """The content of a file that this process loads once; empty where it cannot be read."""
    try:
        return file_content(str(path))
    except OSError:
        return ""
