"""What a device compiler gives back, the script that rebuilds it, and what a kernel occupies by the report of ``ptxas -v``."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Mapping
from dataclasses import field

from tilelang.records import Record


class KernelResources(Record):
    """What one kernel occupies, as ptxas reports it.

    Attributes:
        registers: per thread.
        stack_bytes: local memory per thread (arrays with run-time indices, spills, calls).
        spill_store_bytes, spill_load_bytes: registers that did not fit, per thread.
        shared_bytes: static shared memory per block; dynamic shared memory is in the launch record.
        barriers: named barriers in use.
    """

    registers: int = 0
    stack_bytes: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    shared_bytes: int = 0
    barriers: int = 0

    def as_dict(self) -> dict[str, int]:
        """Plain numbers, for an artifact's metadata."""
        return dataclasses.asdict(self)


class DeviceBinary(Record):
    """One compiled source.

    Attributes:
        cubin: the binary for the architecture.
        ptx: the intermediate text (ASCII).
        resources: kernel symbol -> what it occupies.
        compiler: ``"nvrtc 13.5"`` or ``"nvcc 13.0.88"``.
        options: the options of this compilation, include paths left out.
        log: the compiler's output.
        seconds: wall time.
    """

    cubin: bytes
    ptx: bytes
    resources: Mapping[str, KernelResources] = field(default_factory=dict)
    compiler: str = ""
    options: tuple[str, ...] = ()
    log: str = ""
    seconds: float = 0.0


_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_NUMBERS = {
    "stack_bytes": re.compile(r"(\d+) bytes stack frame"),
    "spill_store_bytes": re.compile(r"(\d+) bytes spill stores"),
    "spill_load_bytes": re.compile(r"(\d+) bytes spill loads"),
    "registers": re.compile(r"Used (\d+) registers"),
    "barriers": re.compile(r"used (\d+) barriers"),
    "shared_bytes": re.compile(r"(\d+) bytes smem"),
}


def parse_resources(log: str) -> Mapping[str, KernelResources]:
    """Kernel symbol -> resources, from a log that holds the report."""
    # A split by a pattern with a group gives what stands before the first kernel, then each kernel's name and its text in turn.
    parts = _ENTRY.split(log)
    return {name: _read(text) for name, text in zip(parts[1::2], parts[2::2])}


def _read(text: str) -> KernelResources:
    found = {name: pattern.search(text) for name, pattern in _NUMBERS.items()}
    return KernelResources(**{name: int(match.group(1)) for name, match in found.items() if match})


def compile_script(binary: DeviceBinary, arch: str, flags: tuple[str, ...] = ()) -> str:
    """A shell script that rebuilds ``kernel.cubin`` and ``kernel.ptx`` from ``device_kernel.cu`` beside it.

    It names no absolute path, so that an entry can be moved to another machine.

    Args:
        binary: what the device compiler gave.
        arch: the architecture, as ``"sm_90a"``.
        flags: the user's options, in nvcc's spelling.
    """
    compiler = binary.compiler.partition(" ")[0]
    options = "".join(f" --flag={shlex.quote(flag)}" for flag in flags)
    plain = " ".join(shlex.quote(flag) for flag in flags)
    return f"""#!/bin/sh
# Rebuilds kernel.cubin and kernel.ptx from device_kernel.cu. Built before by {binary.compiler}:
#   {" ".join(binary.options)}
set -eu
cd "$(dirname "$0")"
if [ "${{1:-}}" = nvcc ]; then  # ./compile.sh nvcc: with the toolkit's compiler, without this package's Python code
  headers=${{TL_HEADERS:?set TL_HEADERS to the directory that holds tl_templates}}
  exec nvcc -arch={arch} -std=c++17 -lineinfo {plain} -I"$headers" -cubin device_kernel.cu -o kernel.cubin
fi
exec "${{PYTHON:-python3}}" -m tilelang.target.cuda.toolchain --arch {arch} --compiler {compiler}{options} device_kernel.cu
"""
