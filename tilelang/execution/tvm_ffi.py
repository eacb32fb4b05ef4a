"""Backend ``tvm_ffi``: the host is a packed function in ``executable.so``, called with torch tensors over DLPack.

The generated host checks tensors itself, so that a call costs little more than the packed call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilelang.artifact import KernelArtifact
from tilelang.execution.native import not_loaded, open_tvm_runtime
from tilelang.execution.signature import CallSignature
from tilelang.execution.wrapper import holding, packed_call

if TYPE_CHECKING:
    from tilelang.execution.device import Place

FILE = "executable.so"


def on_cpu(artifact: KernelArtifact, directory: Path) -> Callable[..., Any]:
    """The call of a CPU kernel.

    Raises:
        ExecutionError: the library cannot be loaded.
    """
    import tvm_ffi

    if artifact.metadata.get("needs_tvm_runtime"):
        open_tvm_runtime()
    path = directory / FILE
    try:
        module: Any = tvm_ffi.load_module(str(path))  # pyright: ignore[reportUnknownMemberType]
        function = module.get_function(artifact.name)
    except Exception as error:  # TVM's loaders raise classes of their own
        raise not_loaded(artifact, path, error) from None
    call = packed_call(CallSignature.of(artifact, "cpu"), function)
    return holding(call, module)  # the library is unloaded with its module


def on_device(artifact: KernelArtifact, directory: Path, place: Place) -> Callable[..., Any]:
    """The call of a CUDA kernel.

    Args:
        artifact: the kernel.
        directory: where its files are.
        place: the device or the simulator.

    Raises:
        ExecutionError: the host cannot be loaded, or the device does not take the code.
    """
    import tvm_ffi

    from tilelang.execution.runtime import bound_library

    library, keep = bound_library(artifact, directory / FILE, place.device)
    # By address: tvm-ffi's loader would open the file itself, and that copy is not bound to the device.
    symbol = ctypes.cast(library[f"__tvm_ffi_{artifact.name}"], ctypes.c_void_p).value
    entry = tvm_ffi.Function.__from_extern_c__(symbol or 0)
    call = packed_call(place.signature, entry, place.surroundings)
    return holding(call, keep)
