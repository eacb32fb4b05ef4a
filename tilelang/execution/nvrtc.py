"""Backend ``nvrtc``: the host is Python (``kernel.py``), the device code a cubin; nothing on the machine has to compile.

On a GPU the kernels are launched through cuda-python, on the simulator through the device runtime.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import struct
import threading
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
_UNFIT_MAP = "cannot encode a tensor map (base address, sizes or strides do not suit it)"
_TENSOR_MAPS_SINCE = 12000  # the driver's version
_FORMATS = {
    "handle": "<Q", "bool": "<?", "int8": "<b", "uint8": "<B", "int16": "<h", "uint16": "<H", "int32": "<i", "uint32": "<I",
    "int64": "<q", "uint64": "<Q", "float16": "<e", "float32": "<f", "float64": "<d",
}  # fmt: skip


def on_device(artifact: KernelArtifact, directory: Path, place: Place) -> Callable[..., Any]:
    """The call of a CUDA kernel.

    Args:
        artifact: the kernel.
        directory: where its files are.
        place: the device or the simulator.

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
        # Rounded to the nearest, ties to even, by adding to the bits that are cut off. NaN first: the carry could make it
        # infinite.
        bits = int.from_bytes(encoded(value, "float32"), "little")
        return struct.pack("<H", 0x7FC0 if value != value else (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
    if canonical(dtype).is_integer:
        return (int(value) & ((1 << 8 * canonical(dtype).bytes) - 1)).to_bytes(canonical(dtype).bytes, "little")
    try:
        return struct.pack(_FORMATS[dtype], value)
    except OverflowError:
        return struct.pack(_FORMATS[dtype], float("inf") if value > 0 else float("-inf"))


def _array(kind: Any, values: Sequence[int]) -> Any:
    return (kind * len(values))(*values)


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
        """Launches a kernel.

        Args:
            kernel: its number in the artifact.
            grid, block, cluster: extents along x, y and z.
            shared_bytes: dynamic shared memory of a block.
            args: values, converted to the types of the kernel's record.
            stream: address of a stream, which the simulator ignores.
        """
        record = self._launches[kernel]
        values = b"".join(encoded(value, dtype) for value, dtype in zip(args, record.arg_dtypes))
        sizes = [*grid, *block, *cluster, shared_bytes, _flags(record)]
        self._launch(self._kernels.handle, kernel, sizes, stream, values)

    def encode_tensor_map(self, kernel: int, index: int, base: int, shape: Sequence[int], strides: Sequence[int]) -> bytes:
        """The 128 bytes of a kernel's tensor map number ``index``.

        Args:
            kernel: number of the kernel in the artifact.
            index: number of the map among the kernel's.
            base: address of the tensor.
            shape: its sizes, innermost axis first.
            strides: its strides in bytes, without the innermost one.
        """
        return bytes(self._encode(self._kernels.handle, kernel, index, *tensor_maps.encodable(base, shape, strides)))


class DriverLauncher:
    """The same over cuda-python's driver bindings: a GPU."""

    def __init__(self, artifact: KernelArtifact, directory: Path):
        try:
            self._driver: Any = importlib.import_module("cuda.bindings.driver")  # compiled, without a stub
        except ImportError:
            raise ExecutionError(
                "the nvrtc backend needs cuda-python", hint="pip install 'tilelang[cuda]', or another execution_backend"
            ) from None
        self._artifact = artifact
        self._directory = directory
        self._lock = threading.RLock()
        self._functions: dict[int, list[Any]] = {}
        self._allowed: dict[tuple[int, int], int] = {}
        self._maps: dict[tuple[int, int], list[Any]] = {}
        for number, launch in enumerate(artifact.launches):
            for index, spec in enumerate(launch.tensor_maps):
                self._maps[number, index] = runtime.tensor_map_row(spec)

    def launch(
        self, kernel: int, grid: Sequence[int], block: Sequence[int], cluster: Sequence[int], shared_bytes: int,
        args: Sequence[Any], stream: int,
    ) -> None:  # fmt: skip
        """Launches a kernel.

        Args:
            kernel: its number in the artifact.
            grid, block, cluster: extents along x, y and z.
            shared_bytes: dynamic shared memory of a block.
            args: values, converted to the types of the kernel's record.
            stream: address of a CUDA stream; 0 is the default one.

        Raises:
            ExecutionError: the driver refuses the launch.
        """
        # The driver refuses an empty grid; a launch of no blocks does nothing.
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
        """The 128 bytes of a kernel's tensor map number ``index``.

        Args:
            kernel: number of the kernel in the artifact.
            index: number of the map among the kernel's.
            base: address of the tensor.
            shape: its sizes, innermost axis first.
            strides: its strides in bytes, without the innermost one.

        Raises:
            ExecutionError: the driver refuses the map.
        """
        data_type, interleave, swizzle, l2_promotion, fill, box, element_strides = self._maps[kernel, index]
        base, shape, strides = tensor_maps.encodable(base, shape, strides)
        room = ctypes.create_string_buffer(tensor_maps.BYTES + tensor_maps.ALIGNMENT)
        place = -(-ctypes.addressof(room) // tensor_maps.ALIGNMENT) * tensor_maps.ALIGNMENT
        status = self._encoder()(
            place, data_type, len(box), base, _array(ctypes.c_uint64, shape), _array(ctypes.c_uint64, strides),
            _array(ctypes.c_uint32, box), _array(ctypes.c_uint32, element_strides), interleave, swizzle, l2_promotion, fill,
        )  # fmt: skip
        self._check((self._driver.CUresult(status),), _UNFIT_MAP)
        return ctypes.string_at(place, tensor_maps.BYTES)

    def _encoder(self) -> Callable[..., int]:
        """The driver's function itself: cuda-python's writes to memory that is not aligned as the driver demands."""
        found = self._driver.cuGetProcAddress(b"cuTensorMapEncodeTiled", _TENSOR_MAPS_SINCE, 0)
        address = self._check(found, "the CUDA driver is too old for tensor maps (12.0 is needed)")
        pointer, number = ctypes.c_void_p, ctypes.c_int
        arguments = [pointer, number, ctypes.c_uint32, *[pointer] * 5, *[number] * 4]
        return ctypes.CFUNCTYPE(number, *arguments)(address)

    def _in_context(self) -> list[Any]:
        """The kernels, loaded in the current context, or in that of device 0 where there is none."""
        key = int(self._check(self._driver.cuCtxGetCurrent(), "cannot ask for the CUDA context")) or self._open_first_device()
        with self._lock:
            if key not in self._functions:
                module = self._load()
                self._functions[key] = [
                    self._check(self._driver.cuModuleGetFunction(module, launch.symbol.encode()), f"no kernel {launch.symbol}")
                    for launch in self._artifact.launches
                ]
        return self._functions[key]

    def _open_first_device(self) -> int:
        self._check(self._driver.cuInit(0), "the CUDA driver cannot be initialised")
        context = self._check(self._driver.cuDevicePrimaryCtxRetain(0), "cannot open CUDA device 0")
        self._check(self._driver.cuCtxSetCurrent(context), "cannot use CUDA device 0")
        return int(context)

    def _load(self) -> Any:
        """The module, from machine code, or from PTX where that is for another architecture."""
        driver, ptx = self._driver, self._directory / runtime.PTX
        loaded = driver.cuModuleLoadData((self._directory / runtime.CUBIN).read_bytes())
        if loaded[0] == driver.CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU and ptx.exists():
            loaded = driver.cuModuleLoadData(ptx.read_bytes() + b"\0")
        arch = json.loads(self._artifact.target).get("arch")
        return self._check(loaded, f"cannot load the kernel on this GPU (it was compiled for {arch})")

    def _attributes(self, record: KernelLaunch, cluster: Sequence[int]) -> list[Any]:
        identifiers = self._driver.CUlaunchAttributeID
        attributes: list[Any] = []

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
        """Raises the kernel's limits to what a launch needs, and never lowers them: another thread may be about to launch."""
        attributes = self._driver.CUfunction_attribute
        if shared_bytes > _STATIC_SHARED_BYTES:
            self._raise(function, attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes)
        if cluster[0] * cluster[1] * cluster[2] > _PORTABLE_CLUSTER:
            self._raise(function, attributes.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)

    def _raise(self, function: Any, attribute: Any, value: int) -> None:
        key = int(function), int(attribute)
        with self._lock:
            if self._allowed.get(key, 0) < value:
                allowed = self._driver.cuFuncSetAttribute(function, attribute, value)
                self._check(allowed, f"the GPU refuses {attribute.name} = {value}")
                self._allowed[key] = value

    def _check(self, result: Any, what: str) -> Any:
        status, *values = result
        if int(status):
            text = self._driver.cuGetErrorString(status)[1]
            raise ExecutionError(f"{self._artifact.name}: {what}: {text.decode() if text else status}")
        return values[0] if values else None


_LAUNCHERS = {"cuda": DriverLauncher, "simulator": RuntimeLauncher}
