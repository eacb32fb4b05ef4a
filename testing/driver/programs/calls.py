"""The driver of the tests itself: its results, in the order in which a driver looks at what it is given."""

from __future__ import annotations

import ctypes
import struct
import sys
from pathlib import Path

from testing.driver import api

PTX = Path(sys.argv[1]).read_bytes() + b"\0"
handle, size_t, u64 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64
out = ctypes.byref(ctypes.c_uint64())


def expect(status: int, name: str, *arguments: object) -> None:
    got = api.status_of(name, *arguments)
    assert got == status, (name, got, status)


def config(grid=(1, 1, 1), block=(128, 1, 1), shared=0, stream=0, attributes=b"", count=0) -> bytes:  # noqa: ANN001
    """CUlaunchConfig and its attributes."""
    text = ctypes.create_string_buffer(attributes, max(1, len(attributes)))
    kept.append(text)
    return struct.pack("<7I4xQQI4x", *grid, *block, shared, stream, ctypes.addressof(text) if attributes else 0, count)


def attribute(number: int, *words: int, size: int = 72) -> bytes:
    return struct.pack("<I4x16I", number, *words, *[0] * (16 - len(words)))[:size].ljust(size, b"\0")


def launch(status: int, arguments: object = None, **settings: object) -> None:
    expect(status, "cuLaunchKernelEx", config(**settings), handle(kernel), arguments or good, None)


kept: list[object] = []
expect(3, "cuCtxGetCurrent", out)
expect(3, "cuMemAlloc_v2", out, size_t(8))
expect(1, "cuInit", 1)
expect(0, "cuInit", 0)
expect(201, "cuMemAlloc_v2", None, size_t(8))
expect(201, "cuModuleLoadData", None, None)
expect(201, "cuLaunchKernelEx", None, None, None, None)
expect(101, "cuDevicePrimaryCtxRetain", out, 7)
context = api.value("cuDevicePrimaryCtxRetain", 0)
api.call("cuCtxSetCurrent", handle(context))
print("order of errors")

expect(200, "cuModuleLoadData", out, b"no code\0")
expect(218, "cuModuleLoadData", out, PTX.replace(b".target sm_80", b".target sm_99"))
expect(218, "cuModuleLoadData", out, PTX.replace(b"ret;", b"frobnicate;"))
expect(200, "cuModuleLoadData", out, b"\x7fELF" + bytes(60))
module = api.value("cuModuleLoadData", PTX)
expect(500, "cuModuleGetFunction", out, handle(module), b"nobody")
expect(400, "cuModuleGetFunction", out, handle(8), b"axpy_kernel")
kernel = api.value("cuModuleGetFunction", handle(module), b"axpy_kernel")
print("modules")

memory = api.allocate(3 * 512)
values = [u64(memory), u64(memory + 512), u64(memory + 1024), ctypes.c_int(2), ctypes.c_int(2)]
good = (handle * 5)(*(ctypes.addressof(value) for value in values))
api.to_device(memory, struct.pack("<128f", *range(128)) + bytes(1024))
launch(0)
assert struct.unpack("<128f", api.from_device(memory + 1024, 512)) == tuple(2.0 * i for i in range(128))
for settings in (
    {"block": (0, 1, 1)}, {"block": (1025, 1, 1)}, {"block": (32, 32, 2)}, {"grid": (0, 1, 1)}, {"grid": (1, 65536, 1)},
    {"shared": 49153}, {"count": 1}, {"attributes": attribute(99), "count": 1}, {"attributes": attribute(2, 5), "count": 1},
    {"grid": (3, 1, 1), "attributes": attribute(4, 2, 1, 1), "count": 1},
):  # fmt: skip
    launch(1, **settings)
launch(912, grid=(16, 1, 1), attributes=attribute(4, 16, 1, 1), count=1)
launch(400, stream=12345)
launch(720, grid=(100000, 1, 1), attributes=attribute(2, 1), count=1)
launch(1, (handle * 5)(good[0], good[1], None, good[3], good[4]))
narrow = attribute(2, 1, size=64) + attribute(4, 1, 1, 1, size=64)  # attributes of a wrong size: the second is out of step
launch(1, attributes=narrow.ljust(144, b"\x05"), count=2)
print("launches")

expect(1, "cuFuncSetAttribute", handle(kernel), 8, 228 * 1024)
expect(0, "cuFuncSetAttribute", handle(kernel), 8, 160 * 1024)
launch(0, shared=160 * 1024)
expect(0, "cuFuncSetAttribute", handle(kernel), 14, 1)
launch(0, grid=(16, 1, 1), attributes=attribute(4, 16, 1, 1), count=1)
offset, size = size_t(), size_t()
assert api.status_of("cuFuncGetParamInfo", handle(kernel), size_t(3), ctypes.byref(offset), ctypes.byref(size)) == 0
assert (offset.value, size.value) == (24, 4)
expect(1, "cuFuncGetParamInfo", handle(kernel), size_t(5), ctypes.byref(offset), ctypes.byref(size))
print("functions")


def encode(status: int, base: int = 4096, rank: int = 2, shape: tuple = (96, 50), strides: tuple = (192,), box: tuple = (64, 8),
           steps: tuple = (1, 1), settings: tuple = (0, 3, 2, 0), kind: int = 6, shift: int = 0) -> None:  # fmt: skip
    room = ctypes.create_string_buffer(256)
    place = (ctypes.addressof(room) + 63) // 64 * 64 + shift
    u32 = ctypes.c_uint32
    arrays = [(element * len(v))(*v) for element, v in ((u64, shape), (u64, strides), (u32, box), (u32, steps))]
    expect(status, "cuTensorMapEncodeTiled", handle(place), kind, rank, handle(base), *arrays, *settings)


encode(0)
for wrong in (
    {"base": 4100}, {"rank": 6}, {"shape": (0, 50)}, {"strides": (190,)}, {"box": (65, 8)}, {"box": (64, 257)}, {"box": (96, 8)},
    {"steps": (1, 9)}, {"settings": (0, 9, 2, 0)}, {"kind": 40}, {"kind": 0, "settings": (0, 0, 0, 1)}, {"shift": 32},
):  # fmt: skip
    encode(1, **wrong)
print("tensor maps")

stream = handle(api.value("cuStreamCreate", 1))
event = handle(api.value("cuEventCreate", 0))
launch(0, stream=stream.value)
expect(600, "cuStreamQuery", stream)
api.call("cuEventRecord", event, stream)
expect(600, "cuEventQuery", event)
expect(0, "cuEventSynchronize", event)
expect(0, "cuStreamQuery", stream)
expect(400, "cuStreamSynchronize", handle(77))
print("streams")

values[4].value = 1000
launch(0, grid=(8, 1, 1))  # beyond the end of the memory: refused when it runs, not when it is launched
launch(0, stream=stream.value)
expect(700, "cuCtxSynchronize")
expect(700, "cuMemAlloc_v2", None, size_t(0))
expect(700, "cuLaunchKernelEx", None, None, None, None)
expect(0, "cuCtxGetCurrent", out)
print("sticky errors")
