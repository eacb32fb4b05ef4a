"""Types such as ``torch.cuda.FloatTensor`` and ``torch.FloatTensor``: constructors, and names that ``isinstance`` and
``Tensor.type`` take."""

from __future__ import annotations

from typing import Any

import torch

from tilelang.simulator.virtual import devices
from tilelang.simulator.virtual.placement import Placement

_NAMES = tuple(f"{name}Tensor" for name in "Float Double Half BFloat16 Byte Char Short Int Long Bool".split())
_OF_HOST = {name: getattr(torch, name) for name in _NAMES}


class _TensorType(type):
    """One of them; tensors on the device, or those of the host, are its instances."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch.Tensor) and instance.type() == f"{cls.__module__}.{cls.__name__}"


def tensor_types(placement: Placement) -> dict[str, Any]:
    """Attributes of ``torch.cuda``, by name."""

    def construct(cls: type, *args: Any, device: Any = None) -> torch.Tensor:
        given = [value for value in args if isinstance(value, torch.Tensor)]
        if not all(map(placement.holds, given)):
            raise TypeError("expected CUDA (got CPU)")
        index = devices.current() if device is None else devices.index_of(device)
        return placement.put(_OF_HOST[cls.__name__](*args), index or 0)

    return {name: _made(name, "torch.cuda", construct) for name in _NAMES}


def host_types() -> dict[str, Any]:
    """Attributes of ``torch``, by name: its own types take every tensor in the CPU's memory for theirs."""

    def construct(cls: type, *args: Any, **settings: Any) -> torch.Tensor:
        return _OF_HOST[cls.__name__](*args, **settings)

    return {name: _made(name, "torch", construct) for name in _NAMES}


def _made(name: str, module: str, construct: Any) -> _TensorType:
    members = {"__new__": construct, "__module__": module, "dtype": _OF_HOST[name].dtype, "layout": torch.strided}
    return _TensorType(name, (), {**members, "is_cuda": module == "torch.cuda"})


def parsed(kind: Any) -> tuple[Any, bool]:
    """What a type says, given as such or by its name: the data type, or the host's type of it, and whether it is on a device."""
    full = f"{kind.__module__}.{kind.__name__}" if isinstance(kind, _TensorType) else kind if isinstance(kind, str) else ""
    module, _, name = full.rpartition(".")
    if module not in ("torch", "torch.cuda") or name not in _OF_HOST:
        return kind, False
    on_device = module == "torch.cuda"
    return (_OF_HOST[name].dtype if on_device else _OF_HOST[name]), on_device


def set_default_tensor_type(kind: Any) -> None:
    """``torch.set_default_tensor_type``: that of the host, or a data type and a device."""
    dtype, on_device = parsed(kind)
    torch.set_default_device("cuda" if on_device else None)
    if on_device:
        torch.set_default_dtype(dtype)
    else:
        _set_of_host(dtype)


_set_of_host = torch.set_default_tensor_type
