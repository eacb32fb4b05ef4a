"""The driver's functions by ctypes, as a program outside of tilelang calls them."""

from __future__ import annotations

import ctypes
from typing import Any

_library = ctypes.CDLL("libcuda.so.1")


class DriverError(RuntimeError):
    """A driver function did not succeed."""

    def __init__(self, name: str, status: int):
        text = ctypes.c_char_p()
        _library.cuGetErrorString(status, ctypes.byref(text))
        super().__init__(f"{name}: {(text.value or b'unknown').decode()} ({status})")
        self.status = status


def status_of(name: str, *arguments: Any) -> int:
    """Calls the function ``name``: its result."""
    return getattr(_library, name)(*arguments)


def call(name: str, *arguments: Any) -> None:
    """Calls the function ``name``.

    Raises:
        DriverError: it did not succeed.
    """
    status = status_of(name, *arguments)
    if status:
        raise DriverError(name, status)


def value(name: str, *arguments: Any, kind: Any = ctypes.c_void_p) -> Any:
    """What the function ``name`` writes to its first argument."""
    out = kind()
    call(name, ctypes.byref(out), *arguments)
    return out.value


def allocate(size: int) -> int:
    """Memory of the current device: its address."""
    return value("cuMemAlloc_v2", ctypes.c_size_t(size), kind=ctypes.c_uint64)


def to_device(address: int, data: bytes) -> None:
    """Copies bytes to the device, and waits."""
    call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), data, ctypes.c_size_t(len(data)))


def from_device(address: int, size: int) -> bytes:
    """Waits for the default stream, and copies bytes from the device."""
    buffer = ctypes.create_string_buffer(size)
    call("cuMemcpyDtoH_v2", buffer, ctypes.c_uint64(address), ctypes.c_size_t(size))
    return buffer.raw
