"""Types such as ``torch.cuda.FloatTensor``: constructors, and names that ``isinstance`` and ``Tensor.type`` take."""

from __future__ import annotations

from typing import Any

import torch

from tilelang.simulator.virtual import devices
from tilelang.simulator.virtual.placement import Placement

_NAMES = tuple(f"{name}Tensor" for name in "Float Double Half BFloat16 Byte Char Short Int Long Bool".split())


class _TensorType(type):
    """One of them; tensors on a device are its instances."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch.Tensor) and instance.type() == f"torch.cuda.{cls.__name__}"


def tensor_types(placement: Placement) -> dict[str, Any]:
    """Attributes of ``torch.cuda``, by name."""

    def construct(cls: type, *args: Any, device: Any = None) -> torch.Tensor:
        given = [value for value in args if isinstance(value, torch.Tensor)]
        if not all(map(placement.holds, given)):
            raise TypeError("expected CUDA (got CPU)")
        index = devices.current() if device is None else devices.index_of(device)
        return placement.put(getattr(torch, cls.__name__)(*args), index or 0)

    def members(name: str) -> dict[str, Any]:
        dtype = getattr(torch, name).dtype
        return {"__new__": construct, "__module__": "torch.cuda", "dtype": dtype, "is_cuda": True, "layout": torch.strided}

    return {name: _TensorType(name, (), members(name)) for name in _NAMES}


def parsed(kind: Any) -> tuple[Any, bool]:
    """What a type says, given as such or by its name: the data type, or the host's type of it, and whether it is on a device."""
    if isinstance(kind, _TensorType):
        return vars(kind)["dtype"], True
    if isinstance(kind, str) and kind.startswith("torch.cuda."):
        return getattr(torch, kind.rsplit(".", 1)[1]).dtype, True
    return kind, False


def set_default_tensor_type(kind: Any) -> None:
    """``torch.set_default_tensor_type``: that of the host, or a data type and a device."""
    dtype, on_device = parsed(kind)
    torch.set_default_device("cuda" if on_device else None)
    if on_device:
        torch.set_default_dtype(dtype)
    else:
        _of_host(kind)


_of_host = torch.set_default_tensor_type
