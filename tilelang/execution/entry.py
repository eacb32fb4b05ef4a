"""The C entry point of a kernel's library (``kernel_lib.so``), which several backends call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilelang.artifact import KernelArtifact
from tilelang.dtypes import canonical
from tilelang.execution.native import not_loaded, open_tvm_runtime
from tilelang.execution.signature import CallSignature
from tilelang.execution.wrapper import PLAIN, Surroundings, pointer_call

FILE = "kernel_lib.so"

_TYPES = {"pointer": ctypes.c_void_p, "integer": ctypes.c_int64, "float": ctypes.c_double}


def entry_name(artifact: KernelArtifact) -> str:
    """The C symbol that runs the program."""
    return f"{artifact.name}_call"


def entry_kinds(artifact: KernelArtifact) -> list[str]:
    """How each argument of the entry is passed: ``"pointer"``, ``"integer"`` (int64) or ``"float"`` (double).

    Parameters in order, then dynamic sizes, then the stream.
    """
    kinds = ["pointer" if p.kind != "scalar" else "float" if canonical(p.dtype).is_float else "integer" for p in artifact.params]
    return [*kinds, *("integer" for _ in artifact.metadata.get("dynamic", ())), "pointer"]


def open_library(artifact: KernelArtifact, directory: Path) -> ctypes.CDLL:
    """The library of a CPU kernel.

    Raises:
        ExecutionError: it cannot be loaded, or has no entry of the kernel's name.
    """
    if artifact.metadata.get("needs_tvm_runtime"):
        open_tvm_runtime()
    path = directory / FILE
    try:
        library = ctypes.CDLL(str(path))
        getattr(library, entry_name(artifact))
        return library
    except (OSError, AttributeError) as error:
        raise not_loaded(artifact, path, error) from None


def entry_call(
    artifact: KernelArtifact,
    library: ctypes.CDLL,
    signature: CallSignature,
    stream: Callable[[int], int] | None = None,
    surroundings: Surroundings = PLAIN,
) -> Callable[..., Any]:
    """A checked call of a library's entry.

    Args:
        artifact: the kernel, whose name is that of the entry.
        library: the loaded library.
        signature, stream, surroundings: as for :func:`~tilelang.execution.wrapper.pointer_call`.

    Returns:
        The function that a user's call runs; it keeps the library loaded.
    """
    entry = getattr(library, entry_name(artifact))
    # Without argtypes ctypes passes a Python integer as a C int, which cuts addresses to 32 bits.
    entry.argtypes = [_TYPES[kind] for kind in entry_kinds(artifact)]
    entry.restype = ctypes.c_int32
    return pointer_call(signature, entry, failure_text(library), stream, surroundings)


def failure_text(library: ctypes.CDLL) -> Callable[[int], str]:
    """What a non-zero result of the entry means, by the library's own ``tilelang_last_error`` where it has one."""
    describe = getattr(library, "tilelang_last_error", None)
    if describe is None:
        return lambda code: f"the kernel failed with code {code}"
    describe.restype = ctypes.c_char_p
    return lambda code: (describe() or b"").decode(errors="replace") or f"the kernel failed with code {code}"
