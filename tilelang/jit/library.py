"""``kernel.export_library``: a kernel for programs without Python, as a shared library and its C header."""

from __future__ import annotations

from pathlib import Path

from tilelang.artifact import KernelArtifact
from tilelang.assumptions import assumptions_of
from tilelang.errors import ExecutionError
from tilelang.execution.c_header import header_text
from tilelang.execution.native import is_device_artifact

_PACKED, _PLAIN = "executable.so", "kernel_lib.so"


def export_library(artifact: KernelArtifact, path: str | Path) -> Path:
    """Writes the library ``path`` and beside it its header, whose path it returns.

    A CUDA kernel's library has both entries and opens the driver itself; a CPU kernel's has the entry of its execution backend.

    Raises:
        ExecutionError: the kernel has no machine code.
        ToolchainError: the system's C compiler is missing or fails.
    """
    library = Path(path)
    header = library.with_suffix(".h")
    on_device = is_device_artifact(artifact)
    content = _device_library(artifact) if on_device else _host_library(artifact)
    library.parent.mkdir(parents=True, exist_ok=True)
    library.write_bytes(content)
    header.write_text(header_text(artifact, on_device or _PLAIN in artifact.files, on_device or _PACKED in artifact.files))
    return header


def _host_library(artifact: KernelArtifact) -> bytes:
    found = next((artifact.files[name] for name in (_PLAIN, _PACKED) if name in artifact.files), None)
    if found is None:
        raise ExecutionError(f"{artifact.name} is interpreted and has no machine code", hint='compile it for "cpu" or "cuda"')
    return found


def _device_library(artifact: KernelArtifact) -> bytes:
    from tilelang.execution.runtime import launch_row
    from tilelang.target.cuda.toolchain.standalone import DeviceImage, standalone_library
    from tilelang.target.hosts.text import HostProgram

    dynamic = tuple(artifact.metadata.get("dynamic", ()))
    program = HostProgram(artifact.name, artifact.params, dynamic, artifact.launches, assumptions_of(artifact))
    image = DeviceImage(artifact.files["kernel.cubin"], artifact.files["kernel.ptx"])
    return standalone_library(program, image, [launch_row(launch) for launch in artifact.launches])
