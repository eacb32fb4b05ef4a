"""The programs that compile a kernel: their versions and contents, for its key, and what scripts in their place add."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from tilelang.cache.keys.installed import package_version
from tilelang.cache.keys.tool_files import ToolFiles
from tilelang.cache.keys.versions import added_flags, content_of, file_content, files_of, version_of
from tilelang.errors import ToolchainMissingError
from tilelang.jit import rewrites
from tilelang.records import Record
from tilelang.target.toolchain import c_compiler, linker


class Tools(Record):
    """The programs that a compilation runs, each with the files behind it, as they were when they were looked for.

    Attributes:
        kind: of the target.
        host: the programs that compile and link host code, by their names in keys.
        device: those that compile device code; NVRTC is a library and not among them.
    """

    kind: str
    host: Mapping[str, ToolFiles]
    device: Mapping[str, ToolFiles]

    def versions(self) -> Mapping[str, str]:
        """Versions and contents for the kernel key; a tool that was replaced is another one."""
        tools = {"apache-tvm": package_version("apache-tvm")}
        if rewrites.token(self.kind):
            tools["function over generated code"] = rewrites.token(self.kind)
        if self.kind == "cuda":
            tools |= _cuda_packages()
        programs = {**self.host, **self.device}
        tools |= {name: version_of(programs[name]) for name in _COMPILERS if name in programs}
        return tools | {f"{name} file": content_of(tool) for name, tool in programs.items()}

    def added_flags(self) -> tuple[str, ...]:
        """The arguments that wrapper scripts in place of these programs add at present."""
        return tuple(flag for tool in self._different() for flag in added_flags(tool))

    def problem(self) -> str:
        """Why the effect of such a script cannot be determined; empty if it can."""
        return next((tool.problem for tool in self._different() if tool.problem), "")

    def _different(self) -> Iterable[ToolFiles]:
        return {tool.paths[0]: tool for tool in (*self.host.values(), *self.device.values()) if tool.paths}.values()


_COMPILERS = ("cc", "nvcc")
"""Programs whose answer to ``--version`` is in a key."""


def tools_of(kind: str, backend: str) -> Tools:
    """Looks for the programs that a compilation runs. Each look-up takes a tenth of a millisecond, so it is done once for a key.

    Args:
        kind: of the target.
        backend: the execution backend; that of NVRTC alone has host code in Python, where all others of CUDA have C.

    Raises:
        ToolchainError: there is no C compiler or linker, and the kernel needs one.
    """
    host = _host_programs(kind, backend)
    device = _device_programs() if kind == "cuda" else {}
    paths = {program: shutil.which(program) or program for program in (*host.values(), *device.values())}
    files = {path: files_of(path) for path in dict.fromkeys(paths.values())}
    return Tools(kind, *({name: files[paths[program]] for name, program in programs.items()} for programs in (host, device)))


def _host_programs(kind: str, backend: str) -> dict[str, str]:
    programs: dict[str, str] = {}
    has_host = kind == "cuda" and backend != "nvrtc"
    if kind == "c" or has_host:
        # The compiler runs the assembler and the linker that it finds on the PATH.
        programs |= {"cc": c_compiler(), "as": "as", "ld": "ld"}
    if kind == "cpu" or has_host:
        programs["linker"] = linker()[0]
    return programs


_CUDA_WHEELS = ("nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-cuda-cccl")
_CUDA_RELEASES = ("", "-cu11", "-cu12")
"""Endings of the wheels' names; those of CUDA 13 have none."""


def _cuda_packages() -> dict[str, str]:
    """CUDA's wheels by version, and a toolkit's NVRTC by content where that is the device compiler."""
    from tilelang.target.cuda.toolchain import locate  # no other target needs these

    wheels = (name + release for name in _CUDA_WHEELS for release in _CUDA_RELEASES)
    tools = {name: version for name in wheels if (version := package_version(name))}
    if _device_compiler() != "nvrtc":
        return tools
    headers = locate.cuda_include_directory()
    loaded = {"nvrtc file": locate.nvrtc_library(), "cuda.h": headers and headers / "cuda.h"}
    return tools | {name: _content_of_toolkit(path) for name, path in loaded.items() if path and not locate.is_of_wheel(path)}


def _device_compiler() -> str | None:
    from tilelang.target.cuda.toolchain.compile import choose_compiler

    try:
        return choose_compiler()
    except ToolchainMissingError:  # said by the compilation, if there is one
        return None


def _device_programs() -> dict[str, str]:
    from tilelang.target.cuda.toolchain import locate

    return {"nvcc": str(locate.tool("nvcc")), "ptxas": str(locate.ptxas())} if _device_compiler() == "nvcc" else {}


@functools.cache
def _content_of_toolkit(path: Path) -> str:
    """The content of a file that this process loads once; empty where it cannot be read."""
    try:
        return file_content(str(path))
    except OSError:
        return ""
