"""Backend ``ctypes``: the C entry point of ``kernel_lib.so``, called through the standard library alone."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilelang.artifact import KernelArtifact
from tilelang.execution.executor import Executor
from tilelang.execution.native import entry_kinds, entry_name, is_device_artifact, open_kernel_library, open_private_library
from tilelang.execution.signature import CallSignature
from tilelang.execution.wrapper import pointer_call

if TYPE_CHECKING:
    from tilelang.execution.device import Place

FILE = "kernel_lib.so"

_TYPES = {"pointer": ctypes.c_void_p, "integer": ctypes.c_int64, "float": ctypes.c_double}


def load(artifact: KernelArtifact, directory: Path) -> Executor:
    """Loads ``kernel_lib.so``.

    Raises:
        ExecutionError: the library cannot be loaded.
    """
    if is_device_artifact(artifact):
        from tilelang.execution.device import device_executor

        return device_executor(artifact, "ctypes", lambda place: _on_device(artifact, directory, place))
    library = open_kernel_library(artifact, directory / FILE)
    call = pointer_call(CallSignature.of(artifact, "cpu"), bind_entry(library, artifact), failure_text(library, artifact))
    return Executor(artifact, "ctypes", call, (library,))


def _on_device(artifact: KernelArtifact, directory: Path, place: Place) -> Callable[..., Any]:
    library, keep = open_bound_library(artifact, directory, place)
    call = entry_call(artifact, library, place)
    call.keep = keep
    return call


def open_bound_library(artifact: KernelArtifact, directory: Path, place: Place) -> tuple[ctypes.CDLL, tuple[Any, ...]]:
    """The host of a CUDA kernel, bound to its device; and what must live as long as it is called."""
    from tilelang.execution.runtime import LoadedKernels

    kernels = LoadedKernels(artifact, directory, place.device)
    library = open_private_library(artifact, directory / FILE)
    kernels.bind(library, artifact.name)
    return library, (kernels, library)


def entry_call(artifact: KernelArtifact, library: ctypes.CDLL, place: Place) -> Callable[..., Any]:
    """A checked call of a bound host."""
    entry, failure = bind_entry(library, artifact), failure_text(library, artifact)
    return pointer_call(place.signature, entry, failure, place.stream, place.surroundings)


def bind_entry(library: ctypes.CDLL, artifact: KernelArtifact) -> Callable[..., int]:
    """The entry point, typed."""
    entry = getattr(library, entry_name(artifact))
    entry.argtypes = [_TYPES[kind] for kind in entry_kinds(artifact)]
    entry.restype = ctypes.c_int32
    return entry


def failure_text(library: ctypes.CDLL, artifact: KernelArtifact) -> Callable[[int], str]:
    """What a non-zero result of the entry means, by the library's own ``tilelang_last_error`` where it has one."""
    describe = getattr(library, "tilelang_last_error", None)
    if describe is None:
        return lambda code: f"the kernel failed with code {code}"
    describe.restype = ctypes.c_char_p
    return lambda code: (describe() or b"").decode(errors="replace") or f"the kernel failed with code {code}"
