"""Operators that a program gives to torch: kernels for CUDA are called for tensors of the virtual device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.library import Library, fallthrough_kernel

from tilelang.simulator.virtual import active
from tilelang.simulator.virtual.placement import tensors_of
from tilelang.simulator.virtual.replaced import replaced

_KEYS = {"CPU": False, "CUDA": True}
"""Dispatch keys whose kernels torch would choose by device -> for the virtual device?"""


def operators_of_device() -> Any:
    """While this lasts ``torch.library`` takes kernels for CUDA, those of ``custom_op`` among them.

    Tensors of the device live in the CPU's memory, so torch calls the kernel for the CPU; what is registered there chooses.
    """
    register: Callable[..., Any] = Library.impl
    kernels: dict[str, dict[bool, Callable[..., Any]]] = {}

    def impl(self: Library, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", **settings: Any) -> Any:
        name = f"{self.ns}::{_name(op_name)}"
        on_device = _KEYS.get(dispatch_key or self.dispatch_key)
        if fn is fallthrough_kernel or settings.get("with_keyset"):
            return register(self, op_name, fn, dispatch_key, **settings)
        if on_device is None or self.ns == "aten":  # torch's own kernels for the CPU compute both devices' results
            return register(self, op_name, _seeing_device(fn), dispatch_key, **settings)
        if name not in kernels or not torch._C._dispatch_has_kernel_for_dispatch_key(name.removesuffix(".default"), "CPU"):
            kernels[name] = {on_device: fn}
            return register(self, op_name, _seeing_device(_chosen(name, kernels[name])), "CPU", **settings)
        kernels[name][on_device] = fn

    return replaced(Library, "impl", impl)


def _name(op_name: Any) -> str:
    return op_name if isinstance(op_name, str) else op_name._schema.name.split("::")[-1]


def _chosen(name: str, kernels: dict[bool, Callable[..., Any]]) -> Callable[..., Any]:
    """The kernel for where a call's tensors are."""

    def call(*args: Any, **kwargs: Any) -> Any:
        device = active.current()
        on_device = device is not None and any(map(device.placement.holds, tensors_of((*args, *kwargs.values()))))
        if on_device not in kernels:
            backend = "CUDA" if on_device else "CPU"
            raise NotImplementedError(f"Could not run '{name}' with arguments from the '{backend}' backend.")
        return kernels[on_device](*args, **kwargs)

    return call


def _seeing_device(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that sees the device; torch calls it with modes switched off."""

    def call(*args: Any, **kwargs: Any) -> Any:
        device = active.current()
        if device is None:
            return kernel(*args, **kwargs)
        with device.mode:
            return kernel(*args, **kwargs)

    return call
