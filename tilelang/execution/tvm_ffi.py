"""Backend ``tvm_ffi``: the host is a packed function in ``executable.so``, called with torch tensors over DLPack.

The generated host checks tensors itself, so that a call costs little more than the packed call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilelang.artifact import KernelArtifact
from tilelang.errors import ExecutionError
from tilelang.execution.executor import Executor
from tilelang.execution.native import is_device_artifact, open_private_library, open_tvm_runtime
from tilelang.execution.signature import CallSignature
from tilelang.execution.wrapper import packed_call

if TYPE_CHECKING:
    from tilelang.execution.device import Place

FILE = "executable.so"


def load(artifact: KernelArtifact, directory: Path) -> Executor:
    """Loads ``executable.so``.

    Raises:
        ExecutionError: the library cannot be loaded.
    """
    if is_device_artifact(artifact):
        from tilelang.execution.device import device_executor

        return device_executor(artifact, "tvm_ffi", lambda place: _on_device(artifact, directory, place))
    if artifact.metadata.get("needs_tvm_runtime"):
        open_tvm_runtime()
    module, function = _open(artifact, directory / FILE)
    call = packed_call(CallSignature.of(artifact, "cpu"), function)
    call.keep = (module,)  # the library is unloaded with its module
    return Executor(artifact, "tvm_ffi", call, call.keep)


def _open(artifact: KernelArtifact, path: Path) -> tuple[Any, Any]:
    import tvm_ffi

    try:
        module = tvm_ffi.load_module(str(path))
        return module, module.get_function(artifact.name)
    except Exception as error:  # TVM's loaders raise classes of their own
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ExecutionError(f"{artifact.name}: cannot load {path}: {reason}") from None


def _on_device(artifact: KernelArtifact, directory: Path, place: Place) -> Callable[..., Any]:
    import tvm_ffi

    from tilelang.execution.runtime import LoadedKernels

    kernels = LoadedKernels(artifact, directory, place.device)
    library = open_private_library(artifact, directory / FILE)
    kernels.bind(library, artifact.name)
    entry = tvm_ffi.Function.__from_extern_c__(ctypes.cast(library[f"__tvm_ffi_{artifact.name}"], ctypes.c_void_p).value)
    call = packed_call(place.signature, entry, place.surroundings)
    call.keep = (kernels, library)
    return call
