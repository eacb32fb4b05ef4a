"""nvcc, where the user asks for it or NVRTC is not there.

nvcc makes the PTX and ptxas the cubin from it: one front end run for both files.
"""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tilelang import temporary
from tilelang.errors import DeviceCompileError, ToolchainMissingError
from tilelang.target.cuda.toolchain.locate import ptxas, template_directory, tool
from tilelang.target.cuda.toolchain.nvrtc import SOURCE_NAME
from tilelang.target.cuda.toolchain.records import DeviceBinary, parse_resources

_RELEASE = re.compile(r"\bV(\d+\.\d+\.\d+)")
_TIMEOUT_SECONDS = 600


@functools.cache
def version() -> str:
    """``"13.0.88"``."""
    output = _run([_nvcc(), "--version"], Path.cwd(), ())
    match = _RELEASE.search(output)
    return match.group(1) if match else "unknown"


def compile_source(source: str, arch: str, flags: Sequence[str] = ()) -> DeviceBinary:
    """Compiles CUDA C++ for ``arch`` (``"sm_90a"``).

    Args:
        source: the text of ``device_kernel.cu``.
        arch: the architecture, as ``"sm_90a"``.
        flags: further options of nvcc.

    Raises:
        DeviceCompileError: the source does not compile; the message is the compiler's first error.
        ToolchainMissingError: nvcc is not installed.
    """
    options = (f"-arch={arch.replace('sm_', 'compute_')}", "-std=c++17", "-lineinfo", *flags)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="tilelang-nvcc-", dir=temporary.folder()) as folder:
        work = Path(folder)
        (work / SOURCE_NAME).write_text(source, encoding="utf-8")
        front_end = [_nvcc(), *options, "-ptx", f"-I{template_directory()}", SOURCE_NAME, "-o", "kernel.ptx"]
        log = _run(front_end, work, options)
        # `-v` makes ptxas report registers and spills, which `parse_resources` reads.
        assembler = [ptxas(), "-v", "--generate-line-info", f"-arch={arch}", "kernel.ptx", "-o", "kernel.cubin"]
        log += _run(assembler, work, options)
        cubin, ptx = (work / "kernel.cubin").read_bytes(), (work / "kernel.ptx").read_bytes()
    seconds = time.perf_counter() - start
    return DeviceBinary(cubin, ptx, parse_resources(log), f"nvcc {version()}", options, log.strip(), seconds)


def _nvcc() -> str:
    path = tool("nvcc")
    if path is None:
        raise ToolchainMissingError("nvcc", "install the CUDA toolkit, or set CUDA_HOME")
    return str(path)


def _run(command: Sequence[str | None], folder: Path, options: Sequence[str]) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
    )
    output = done.stdout + done.stderr
    if done.returncode != 0:
        raise DeviceCompileError(Path(str(command[0])).name, output.strip(), " ".join(options))
    return output
