"""The texts of a cache entry that tell how a kernel was built: ``compile.sh`` and ``compile_log.txt``."""

from __future__ import annotations

import shlex

from tilelang.target.cuda.toolchain.records import DeviceBinary


def compile_script(binary: DeviceBinary, arch: str, flags: tuple[str, ...] = ()) -> str:
    """A shell script that rebuilds ``kernel.cubin`` and ``kernel.ptx`` from ``device_kernel.cu`` beside it.

    It names no absolute path, so that an entry can be moved to another machine.
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


def compile_log(binary: DeviceBinary) -> str:
    """The command, the time and the compiler's own output."""
    command = f"{binary.compiler}: {' '.join(binary.options)}"
    return f"{command}\n{binary.seconds * 1e3:.1f} ms\n{binary.log}\n"
