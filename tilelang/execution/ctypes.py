"""Backend ``ctypes``: the C entry point of ``kernel_lib.so``, called through the standard library alone."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

from tilelang.artifact import KernelArtifact
from tilelang.execution.executor import Executor
from tilelang.execution.native import entry_kinds, entry_name, open_kernel_library
from tilelang.execution.signature import CallSignature
from tilelang.execution.wrapper import pointer_call

FILE = "kernel_lib.so"

_TYPES = {"pointer": ctypes.c_void_p, "integer": ctypes.c_int64, "float": ctypes.c_double}


def load(artifact: KernelArtifact, directory: Path) -> Executor:
    """Loads ``kernel_lib.so``.

    Raises:
        ExecutionError: the library cannot be loaded.
    """
    library = open_kernel_library(artifact, directory / FILE)
    call = pointer_call(CallSignature.of(artifact, "cpu"), bind_entry(library, artifact), failure_text(library, artifact))
    return Executor(artifact, "ctypes", call, (library,))


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
