"""Backend ``ctypes``: the C entry point of ``kernel_lib.so``, called through the standard library alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilelang.artifact import KernelArtifact
from tilelang.execution.entry import FILE, entry_call, open_library
from tilelang.execution.signature import CallSignature
from tilelang.execution.wrapper import holding

if TYPE_CHECKING:
    from tilelang.execution.device import Place


def on_cpu(artifact: KernelArtifact, directory: Path) -> Callable[..., Any]:
    """The call of a CPU kernel."""
    return entry_call(artifact, open_library(artifact, directory), CallSignature.of(artifact, "cpu"))


def on_device(artifact: KernelArtifact, directory: Path, place: Place) -> Callable[..., Any]:
    """The call of a CUDA kernel.

    Args:
        artifact: the kernel.
        directory: where its files are.
        place: the device or the simulator.

    Raises:
        ExecutionError: the host cannot be loaded, or the device does not take the code.
    """
    from tilelang.execution.runtime import bound_library

    library, keep = bound_library(artifact, directory / FILE, place.device)
    call = entry_call(artifact, library, place.signature, place.stream, place.surroundings)
    return holding(call, keep)
