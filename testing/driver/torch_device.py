"""torch's device "cuda" over the driver of the tests, for a torch that was built without CUDA, or finds no device.

Tensors are torch's own, with ``device.type == "cuda"``, over memory of the driver. Operators are those that a kernel's call
needs: making a tensor, and copying one between host and device. :func:`install` cannot be undone: it is for a process of
its own.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import torch

from testing.driver import api

_DLPACK_CUDA = 2
_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}


class _Tensor(ctypes.Structure):  # DLManagedTensor
    _fields_ = [
        ("data", ctypes.c_uint64), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]  # fmt: skip


class _ExchangeTable(ctypes.Structure):  # DLPackExchangeAPI
    _fields_ = [("others", ctypes.c_uint64 * 6), ("current_work_stream", ctypes.c_void_p)]


class Stream:
    """A stream of a device."""

    def __init__(self, device: Any = None, handle: int | None = None):
        index = _index(device)
        self.device = torch.device("cuda", index)
        if handle is None:
            with _on(index):
                handle = api.value("cuStreamCreate", 1)  # as torch's streams: independent of the default one
        self.cuda_stream = handle

    def synchronize(self) -> None:
        """Waits for the stream's work."""
        with _on(self.device.index):
            api.call("cuStreamSynchronize", ctypes.c_void_p(self.cuda_stream))

    def wait_stream(self, other: Stream) -> None:
        """Later work here comes after what the other stream has now."""
        with _on(self.device.index):
            event = ctypes.c_void_p(api.value("cuEventCreate", 0))
            api.call("cuEventRecord", event, ctypes.c_void_p(other.cuda_stream))
            api.call("cuStreamWaitEvent", ctypes.c_void_p(self.cuda_stream), event, 0)


class _Current(threading.local):
    def __init__(self) -> None:
        self.device = 0
        self.streams: dict[int, Stream] = {}


class _on:
    """Makes a device, and its primary context, current, as CUDA's runtime does."""

    def __init__(self, device: Any):
        self.index = _index(device)

    def __enter__(self) -> None:
        self.before = _current.device
        set_device(self.index)

    def __exit__(self, *exception: Any) -> None:
        set_device(self.before)


class _on_stream:
    """A stream as the current one of its device."""

    def __init__(self, stream: Stream):
        self.stream = stream

    def __enter__(self) -> None:
        self.before = _current.streams.get(self.stream.device.index)
        _current.streams[self.stream.device.index] = self.stream

    def __exit__(self, *exception: Any) -> None:
        _current.streams[self.stream.device.index] = self.before or Stream(self.stream.device, 0)


_current = _Current()
_contexts: dict[int, int] = {}
_alive: list[Any] = []  # descriptions and memory of tensors, never released


def _index(device: Any) -> int:
    index = device if device is None or isinstance(device, int) else torch.device(device).index
    return _current.device if index is None else index


def device_count() -> int:
    """How many devices there are."""
    return api.value("cuDeviceGetCount", kind=ctypes.c_int)


def current_device() -> int:
    """The index of this thread's device."""
    return _current.device


def set_device(device: Any) -> None:
    """Makes a device, and its primary context, this thread's current one."""
    index = _index(device)
    if index not in _contexts:
        _contexts[index] = api.value("cuDevicePrimaryCtxRetain", index)
    api.call("cuCtxSetCurrent", ctypes.c_void_p(_contexts[index]))
    _current.device = index


def current_stream(device: Any = None) -> Stream:
    """The stream that this thread launches on."""
    index = _index(device)
    return _current.streams.get(index) or Stream(torch.device("cuda", index), 0)


def synchronize(device: Any = None) -> None:
    """Waits for a device."""
    with _on(device):
        api.call("cuCtxSynchronize")


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a device."""
    index = _index(device)
    return tuple(api.value("cuDeviceGetAttribute", number, index, kind=ctypes.c_int) for number in (75, 76))


# Operators -----------------------------------------------------------------------------------------------------------


def _type(dtype: torch.dtype) -> tuple[int, int]:
    name = str(dtype).removeprefix("torch.")
    stem = name.rstrip("0123456789")
    return _CODES[stem], 8 * dtype.itemsize


def _empty_strided(size: Any, stride: Any, dtype: Any = None, layout: Any = None, device: Any = None, **_: Any) -> Any:
    dtype = dtype or torch.get_default_dtype()
    index = _index(device)
    elements = 0 if 0 in size else 1 + sum((n - 1) * s for n, s in zip(size, stride))
    with _on(index):
        address = api.allocate(max(1, elements * dtype.itemsize))
    shape, strides = ((ctypes.c_int64 * max(1, len(size)))(*values) for values in (size, stride))
    code, bits = _type(dtype)
    tensor = _Tensor(
        address, _DLPACK_CUDA, index, len(size), code, bits, 1, ctypes.addressof(shape), ctypes.addressof(strides), 0, None, None
    )
    _alive.extend([tensor, shape, strides])
    return torch._C._from_dlpack(_capsule(tensor, b"dltensor"))


def _empty(size: Any, dtype: Any = None, layout: Any = None, device: Any = None, **_: Any) -> Any:
    strides = torch.empty(size, device="meta").stride()
    return _empty_strided(size, strides, dtype, layout, device)


def _copy(target: Any, source: Any, non_blocking: bool = False) -> Any:
    """Between host and device, and between two devices by way of the host."""
    if source.is_cuda:
        source = _to_host(source)
    source = source.to(target.dtype).expand(target.shape).contiguous()
    if not target.is_cuda:
        return target.copy_(source)
    if not target.is_contiguous():
        raise NotImplementedError("copies to tensors on the device that are not contiguous")
    with _on(target.device):
        api.to_device(target.data_ptr(), bytes(source.view(torch.uint8).numpy()) if source.numel() else b"")
    return target


def _to_host(tensor: Any) -> Any:
    if not tensor.is_contiguous():
        raise NotImplementedError("copies from tensors on the device that are not contiguous")
    with _on(tensor.device):
        data = api.from_device(tensor.data_ptr(), tensor.numel() * tensor.element_size())
    host = torch.empty(tensor.shape, dtype=tensor.dtype)
    ctypes.memmove(host.data_ptr(), data, len(data))
    return host


def _capsule(structure: Any, name: bytes) -> Any:
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return make(ctypes.addressof(structure), name, None)


def _exchange_table() -> Any:
    """torch's table for the exchange of tensors, with the current stream of this device."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    name = b"dlpack_exchange_api"
    table = _ExchangeTable.from_buffer_copy(
        ctypes.string_at(get(torch.Tensor.__dlpack_c_exchange_api__, name), ctypes.sizeof(_ExchangeTable))
    )

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
    def current_work_stream(device_type: int, index: int, out: Any) -> int:
        out[0] = current_stream(index).cuda_stream if device_type == _DLPACK_CUDA else None
        return 0

    table.current_work_stream = ctypes.cast(current_work_stream, ctypes.c_void_p).value
    _alive.extend([table, current_work_stream])
    return _capsule(table, name)


def install() -> None:
    """Gives torch this device."""
    api.call("cuInit", 0)
    for name in (
        "device_count", "current_device", "set_device", "current_stream", "synchronize", "get_device_capability", "Stream",
    ):  # fmt: skip
        setattr(torch.cuda, name, globals()[name])
    torch.cuda.device, torch.cuda.stream = _on, _on_stream
    torch.cuda._lazy_init = lambda: None
    torch.cuda.is_available = lambda: True
    torch.cuda.is_initialized = lambda: True
    torch._C._cuda_getCurrentRawStream = lambda index: current_stream(index).cuda_stream
    torch.Tensor.__dlpack_c_exchange_api__ = _exchange_table()
    library = torch.library.Library("aten", "IMPL")
    library.impl("empty.memory_format", _empty, "CUDA")
    library.impl("empty_strided", _empty_strided, "CUDA")
    library.impl("copy_", _copy, "CUDA")
    _alive.append(library)
    set_device(0)
