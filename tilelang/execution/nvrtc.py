"""Backend ``nvrtc``: the host is Python (``kernel.py``), the device code a cubin; nothing on the machine has to compile.

On a GPU the kernels are launched through cuda-python, on the simulator through the device runtime.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tilelang import tensor_maps
from tilelang.artifact import KernelArtifact, KernelLaunch
from tilelang.dtypes import canonical
from tilelang.errors import ExecutionError
from tilelang.execution import runtime
from tilelang.execution.device import Place
from tilelang.execution.wrapper import pointer_call

FILE = "kernel.py"

_COOPERATIVE, _DEPENDENT_LAUNCH = 1, 2
_STATIC_SHARED_BYTES = 48 * 1024
_PORTABLE_CLUSTER = 8
_FORMATS = {
    "handle": "<Q", "bool": "<?", "int8": "<b", "uint8": "<B", "int16": "<h", "uint16": "<H", "int32": "<i", "uint32": "<I",
    "int64": "<q", "uint64": "<Q", "float16": "<e", "float32": "<f", "float64": "<d",
}  # fmt: skip


def on_device(artifact: KernelArtifact, directory: Path, place: Place) -> Callable[..., Any]:
    """The call of a CUDA kernel.

    Raises:
        ExecutionError: the host cannot be read; or the device is not there, or does not take the code.
    """
    host, launcher = _host(artifact, directory / FILE), _LAUNCHERS[place.device](artifact, directory)

    def entry(*values: Any) -> int:
        host(launcher, *values)
        return 0

    return pointer_call(place.signature, entry, lambda code: f"failed with code {code}", place.stream, place.surroundings)


def _host(artifact: KernelArtifact, path: Path) -> Callable[..., None]:
    scope: dict[str, Any] = {}
    try:
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), scope)  # noqa: S102 - the cache has verified it
        return scope[f"{artifact.name}_call"]
    except (OSError, SyntaxError, KeyError) as error:
        raise ExecutionError(f"{artifact.name}: cannot load {path}: {error}") from None


def encoded(value: Any, dtype: str) -> bytes:
    """A kernel argument's bytes: a tensor map as it is, a number in its type."""
    if isinstance(value, bytes):
        return value
    if dtype == "bfloat16":
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
        return struct.pack("<H", 0x7FC0 if value != value else (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
    if canonical(dtype).is_integer:
        return (int(value) & ((1 << 8 * canonical(dtype).bytes) - 1)).to_bytes(canonical(dtype).bytes, "little")
    try:
        return struct.pack(_FORMATS[dtype], value)
    except OverflowError:
        return struct.pack(_FORMATS[dtype], float("inf") if value > 0 else float("-inf"))


def _flags(launch: KernelLaunch) -> int:
    return (_COOPERATIVE if launch.cooperative else 0) | (_DEPENDENT_LAUNCH if launch.dependent_launch else 0)


class RuntimeLauncher:
    """The launcher of ``kernel.py`` over the device runtime: the simulator."""

    def __init__(self, artifact: KernelArtifact, directory: Path):
        self._launches = artifact.launches
        self._kernels = runtime.LoadedKernels(artifact, directory, "simulator")
        self._launch = runtime.function("launch")
        self._encode = runtime.function("encode_tensor_map")

    def launch(
        self, kernel: int, grid: Sequence[int], block: Sequence[int], cluster: Sequence[int], shared_bytes: int,
        args: Sequence[Any], stream: int,
    ) -> None:  # fmt: skip
        """Launches kernel number ``kernel`` with ``args`` in the types of its record."""
        record = self._launches[kernel]
        values = b"".join(encoded(value, dtype) for value, dtype in zip(args, record.arg_dtypes))
        sizes = [*grid, *block, *cluster, shared_bytes, _flags(record)]
        self._launch(self._kernels.handle, kernel, sizes, stream, values)

    def encode_tensor_map(self, kernel: int, index: int, base: int, shape: Sequence[int], strides: Sequence[int]) -> bytes:
        """The 128 bytes of a kernel's tensor map number ``index``."""
        return bytes(self._encode(self._kernels.handle, kernel, index, base, list(shape), list(strides)))


class DriverLauncher:
    """The same over cuda-python's driver bindings: a GPU."""

    def __init__(self, artifact: KernelArtifact, directory: Path):
        try:
            from cuda.bindings import driver
        except ImportError:
            raise ExecutionError(
                "the nvrtc backend needs cuda-python", hint="pip install 'tilelang[cuda]', or another execution_backend"
            ) from None
        self._driver = driver
        self._artifact = artifact
        self._directory = directory
        self._functions: dict[int, list[Any]] = {}
        self._maps: dict[tuple[int, int], list[Any]] = {}
        for number, launch in enumerate(artifact.launches):
            for index, spec in enumerate(launch.tensor_maps):
                self._maps[number, index] = runtime.tensor_map_row(spec)

    def launch(
        self, kernel: int, grid: Sequence[int], block: Sequence[int], cluster: Sequence[int], shared_bytes: int,
        args: Sequence[Any], stream: int,
    ) -> None:  # fmt: skip
        """Launches kernel number ``kernel`` on ``stream``."""
        if 0 in grid:
            return
        record = self._artifact.launches[kernel]
        function = self._in_context()[kernel]
        config = self._driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = grid
        config.blockDimX, config.blockDimY, config.blockDimZ = block
        config.sharedMemBytes, config.hStream = shared_bytes, stream
        config.attrs = self._attributes(record, cluster)
        config.numAttrs = len(config.attrs)
        self._allow(function, cluster, shared_bytes)
        holders = [ctypes.create_string_buffer(encoded(value, dtype)) for value, dtype in zip(args, record.arg_dtypes)]
        addresses = (ctypes.c_void_p * len(holders))(*(ctypes.addressof(holder) for holder in holders))
        launched = self._driver.cuLaunchKernelEx(config, function, ctypes.addressof(addresses), 0)
        self._check(launched, f"cannot launch {record.symbol}")

    def encode_tensor_map(self, kernel: int, index: int, base: int, shape: Sequence[int], strides: Sequence[int]) -> bytes:
        """The 128 bytes of a kernel's tensor map number ``index``."""
        data_type, interleave, swizzle, l2_promotion, fill, box, element_strides = self._maps[kernel, index]
        driver = self._driver
        encoded_map = self._check(
            driver.cuTensorMapEncodeTiled(
                driver.CUtensorMapDataType(data_type), len(box), base,
                [driver.cuuint64_t(n) for n in shape], [driver.cuuint64_t(n) for n in strides],
                [driver.cuuint32_t(n) for n in box], [driver.cuuint32_t(n) for n in element_strides],
                driver.CUtensorMapInterleave(interleave), driver.CUtensorMapSwizzle(swizzle),
                driver.CUtensorMapL2promotion(l2_promotion), driver.CUtensorMapFloatOOBfill(fill),
            ),
            "cannot encode a tensor map",
        )  # fmt: skip
        return ctypes.string_at(encoded_map.getPtr(), tensor_maps.BYTES)

    def _in_context(self) -> list[Any]:
        """The kernels, loaded in the current context."""
        context = self._check(self._driver.cuCtxGetCurrent(), "no CUDA context")
        key = int(context)
        if key not in self._functions:
            image = (self._directory / runtime.CUBIN).read_bytes()
            module = self._check(self._driver.cuModuleLoadData(image), "cannot load the kernel on this GPU")
            self._functions[key] = [
                self._check(self._driver.cuModuleGetFunction(module, launch.symbol.encode()), f"no kernel {launch.symbol}")
                for launch in self._artifact.launches
            ]
        return self._functions[key]

    def _attributes(self, record: KernelLaunch, cluster: Sequence[int]) -> list[Any]:
        identifiers = self._driver.CUlaunchAttributeID
        attributes = []

        def add(identifier: Any) -> Any:
            attribute = self._driver.CUlaunchAttribute()
            attribute.id = identifier
            attributes.append(attribute)
            return attribute.value

        if tuple(cluster) != (1, 1, 1):
            extents = add(identifiers.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION).clusterDim
            extents.x, extents.y, extents.z = cluster
        if record.cooperative:
            add(identifiers.CU_LAUNCH_ATTRIBUTE_COOPERATIVE).cooperative = 1
        if record.dependent_launch:
            add(identifiers.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION).programmaticStreamSerializationAllowed = 1
        return attributes

    def _allow(self, function: Any, cluster: Sequence[int], shared_bytes: int) -> None:
        attributes = self._driver.CUfunction_attribute
        wanted = []
        if shared_bytes > _STATIC_SHARED_BYTES:
            wanted.append((attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes))
        if cluster[0] * cluster[1] * cluster[2] > _PORTABLE_CLUSTER:
            wanted.append((attributes.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1))
        for attribute, value in wanted:
            allowed = self._driver.cuFuncSetAttribute(function, attribute, value)
            self._check(allowed, f"the GPU refuses {attribute.name} = {value}")

    def _check(self, result: Any, what: str) -> Any:
        status, *values = result
        if int(status):
            text = self._driver.cuGetErrorString(status)[1]
            raise ExecutionError(f"{self._artifact.name}: {what}: {text.decode() if text else status}")
        return values[0] if values else None


_LAUNCHERS = {"cuda": DriverLauncher, "simulator": RuntimeLauncher}
