"""The device runtime of ``src/runtime``: a kernel's device code, loaded on the CUDA driver or on the simulator."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from tilelang import tensor_maps
from tilelang.artifact import KernelArtifact, KernelLaunch, TensorMapSpec
from tilelang.dtypes import canonical
from tilelang.errors import ON_THE_SIMULATOR, ExecutionError
from tilelang.execution.native import LIBRARY, open_private_library

CUBIN, PTX = "kernel.cubin", "kernel.ptx"


@cache
def function(name: str) -> Callable[..., Any]:
    """The native function ``tilelang.runtime.<name>``.

    Raises:
        ExecutionError: the native library is missing.
    """
    import tvm_ffi

    _library()
    return tvm_ffi.get_global_func(f"tilelang.runtime.{name}")


@cache
def _library() -> ctypes.CDLL:
    path = LIBRARY / "libtilelang_runtime.so"
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise ExecutionError(f"cannot load {path}: {error}", hint="build it: python3 dev.py build") from None


class LoadedKernels:
    """The device code of an artifact on one device (``"cuda"`` or ``"simulator"``).

    Raises:
        ExecutionError: the device is not there, or does not take the code.
    """

    def __init__(self, artifact: KernelArtifact, directory: Path, device: str):
        if device == "simulator":
            from tilelang.simulator import native

            native.function("launch")  # opens its library, whose functions the runtime looks up
        cubin, ptx = (_read(directory / name) for name in (CUBIN, PTX))
        rows = [launch_row(launch) for launch in artifact.launches]
        try:
            self.handle = function("load")(device, cubin, ptx, rows)
        except (RuntimeError, SyntaxError) as error:
            reason = next(iter(str(error).splitlines()), "")
            raise ExecutionError(f"{artifact.name}: {reason}", hint=ON_THE_SIMULATOR if device == "cuda" else None) from None

    def bind(self, library: ctypes.CDLL, name: str) -> None:
        """Tells a generated host where its device is."""
        entry = getattr(library, f"{name}_bind")
        entry.argtypes, entry.restype = [ctypes.c_void_p, ctypes.c_void_p], None
        entry(function("host_api")(self.handle), function("address")(self.handle))


def bound_library(artifact: KernelArtifact, path: Path, device: str) -> tuple[ctypes.CDLL, tuple[Any, ...]]:
    """The generated host of an artifact, bound to its kernels on a device; and the objects that must outlive its calls.

    Args:
        artifact: the kernel.
        path: of the host's library.
        device: ``"cuda"`` or ``"simulator"``.

    Raises:
        ExecutionError: the host cannot be loaded; as :class:`LoadedKernels`.
    """
    kernels = LoadedKernels(artifact, path.parent, device)
    library = open_private_library(artifact, path)
    kernels.bind(library, artifact.name)
    return library, (kernels, library)


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def launch_row(launch: KernelLaunch) -> list[Any]:
    """What the device runtime knows of a kernel before it is launched: symbol, bytes of each argument, tensor maps."""
    kinds = zip((kind for kind, _ in launch.args), launch.arg_dtypes)
    sizes = [tensor_maps.BYTES if kind == "tensor_map" else argument_bytes(dtype) for kind, dtype in kinds]
    return [launch.symbol, sizes, [tensor_map_row(spec) for spec in launch.tensor_maps]]


def argument_bytes(dtype: str) -> int:
    """Size of a kernel argument."""
    return 8 if dtype == "handle" else canonical(dtype).bytes


def tensor_map_row(spec: TensorMapSpec) -> list[Any]:
    """What is known of a tensor map before a launch: the driver's numbers, box, element strides.

    Raises:
        ExecutionError: the record names something that the driver does not have.
    """
    try:
        numbers = [
            tensor_maps.DATA_TYPES[spec.dtype], tensor_maps.INTERLEAVES[spec.interleave], tensor_maps.SWIZZLES[spec.swizzle],
            tensor_maps.L2_PROMOTIONS[spec.l2_promotion], tensor_maps.FILLS[spec.oob_fill],
        ]  # fmt: skip
    except KeyError as error:
        raise ExecutionError(f"tensor map {spec.name}: no such setting: {error.args[0]!r}") from None
    return [*numbers, list(spec.box), list(spec.element_strides)]
