"""Kernel arguments to the packed parameter buffer."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tilelang.errors import SimulatorArgumentError
from tilelang.simulator.tensor_map import TensorMap

_FLOATS = {"f32": "<f", "f64": "<d", "f16": "<e"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a kernel: its PTX type, and where it lies in the packed buffer (bytes)."""

    name: str
    type: str
    offset: int
    bytes: int


@dataclass(slots=True)
class PackedArguments:
    """The parameter buffer, and the memory it gives the kernel access to."""

    data: bytes
    allocations: list[int] = field(default_factory=list)  # (address, bytes, read-only) triples
    names: list[str] = field(default_factory=list)

    def allow(self, tensor: Any, name: str) -> None:
        """Registers the memory a tensor spans."""
        if tensor.device.type != "cpu":
            raise SimulatorArgumentError(f"{name} is on {tensor.device}", "the simulator runs on CPU tensors")
        last = sum((n - 1) * abs(s) for n, s in zip(tensor.shape, tensor.stride(), strict=True)) if tensor.numel() else -1
        self.allocations += [tensor.data_ptr(), (last + 1) * tensor.element_size(), 0]
        self.names.append(name)


def pack_arguments(kernel: str, parameters: Sequence[Parameter], size: int, args: Sequence[Any]) -> PackedArguments:
    """Packs arguments into a kernel's parameter buffer.

    Args:
        kernel: its name, for the messages of errors.
        parameters: types and offsets.
        size: bytes of the buffer.
        args: one for each parameter: CPU tensors, ints, floats, bytes or tensor maps.

    Raises:
        SimulatorArgumentError: the count, or the type of one, does not fit.
    """
    if len(args) != len(parameters):
        raise SimulatorArgumentError(f"{kernel} takes {len(parameters)} argument{'s' * (len(parameters) != 1)}, got {len(args)}")
    buffer = bytearray(size)
    packed = PackedArguments(b"")
    for position, (parameter, value) in enumerate(zip(parameters, args, strict=True)):
        name = f"argument {position} ({parameter.name})"
        bits = _encode(parameter, value, name, packed)
        if len(bits) != parameter.bytes:
            raise SimulatorArgumentError(f"{name} has {len(bits)} bytes, {kernel} takes {parameter.bytes}")
        buffer[parameter.offset : parameter.offset + parameter.bytes] = bits
    packed.data = bytes(buffer)
    return packed


def _encode(parameter: Parameter, value: Any, name: str, packed: PackedArguments) -> bytes:
    if hasattr(value, "data_ptr"):
        packed.allow(value, name)
        return value.data_ptr().to_bytes(8, "little")
    if isinstance(value, TensorMap):
        packed.allow(value.tensor, name)
        return value.encoded
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if isinstance(value, int) and parameter.type not in _FLOATS:
        return (int(value) & ((1 << parameter.bytes * 8) - 1)).to_bytes(parameter.bytes, "little")
    if isinstance(value, int | float):
        return _encode_float(parameter, float(value), name)
    raise SimulatorArgumentError(f"{name} is a {type(value).__name__}", "pass CPU tensors, ints, floats, bytes or tensor maps")


def _encode_float(parameter: Parameter, value: float, name: str) -> bytes:
    # CUDA compilers declare scalars as untyped bits as well as by type.
    form = _FLOATS.get(parameter.type) or {4: "<f", 8: "<d", 2: "<e"}.get(parameter.bytes) if parameter.type[0] in "bf" else None
    if form is None:
        raise SimulatorArgumentError(f"{name} is a float, the kernel takes a .{parameter.type}")
    return struct.pack(form, value)
