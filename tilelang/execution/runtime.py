"""The device runtime of ``src/runtime``: a kernel's device code, loaded on the CUDA driver or on the simulator."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from tilelang.artifact import KernelArtifact, KernelLaunch, TensorMapSpec
from tilelang.dtypes import canonical
from tilelang.errors import ON_THE_SIMULATOR, ExecutionError
from tilelang.execution.native import LIBRARY, open_private_library

CUBIN, PTX = "kernel.cubin", "kernel.ptx"
TENSOR_MAP_BYTES = 128

# The driver's enumerations (CUtensorMapDataType and the others, CUDA driver API).
_DATA_TYPES = {
    "uint8": 0, "int8": 0, "bool": 0, "float8_e4m3fn": 0, "float8_e5m2": 0, "uint16": 1, "int16": 1, "uint32": 2, "int32": 3,
    "uint64": 4, "int64": 5, "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9, "tfloat32": 11,
}  # fmt: skip
_INTERLEAVES = {"none": 0, "16B": 1, "32B": 2}
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_L2_PROMOTIONS = {"none": 0, "64B": 1, "128B": 2, "256B": 3}
_FILLS = {"zeros": 0, "none": 0, "nan": 1}


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
        rows = [_row(launch) for launch in artifact.launches]
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
    """The generated host of an artifact, bound to its kernels on a device; and what must live as long as it is called.

    Raises:
        ExecutionError: the host cannot be loaded; as :class:`LoadedKernels`.
    """
    kernels = LoadedKernels(artifact, path.parent, device)
    library = open_private_library(artifact, path)
    kernels.bind(library, artifact.name)
    return library, (kernels, library)


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _row(launch: KernelLaunch) -> list[Any]:
    kinds = zip((kind for kind, _ in launch.args), launch.arg_dtypes)
    sizes = [TENSOR_MAP_BYTES if kind == "tensor_map" else argument_bytes(dtype) for kind, dtype in kinds]
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
            _DATA_TYPES[spec.dtype], _INTERLEAVES[spec.interleave], _SWIZZLES[spec.swizzle], _L2_PROMOTIONS[spec.l2_promotion],
            _FILLS[spec.oob_fill],
        ]  # fmt: skip
    except KeyError as error:
        raise ExecutionError(f"tensor map {spec.name}: no such setting: {error.args[0]!r}") from None
    return [*numbers, list(spec.box), list(spec.element_strides)]
