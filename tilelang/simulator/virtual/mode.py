"""Calls of torch while a virtual device is there: ``"cuda"`` means the CPU's memory, and a tensor remembers that it was asked
to be on the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._device import DeviceContext, _device_constructors

from tilelang.simulator.virtual.events import Event
from tilelang.simulator.virtual.placement import Placement

DEVICE = torch.device("cuda", 0)
_CPU = torch.device("cpu")


class VirtualDeviceMode(TorchFunctionMode):
    """Redirects what names the device.

    An operation's result is on the device where an operand is, or where ``device=`` says so.
    """

    def __init__(self, placement: Placement):
        super().__init__()
        self.placement = placement

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = dict(kwargs or {})
        rule = _RULES.get(func)
        if rule is not None:
            return rule(self, args, kwargs)
        if func in _device_constructors() and kwargs.get("device") is None:
            kwargs["device"] = _default_device()
        if not self._wants_device(args, kwargs):
            return func(*args, **kwargs)
        start = Event.clock.now()
        result = func(*args, **kwargs)
        if next(_tensors([result]), None) is not None:
            Event.clock.operated_since(start)
        return self.placement.put(result)

    def _wants_device(self, args: tuple, kwargs: dict[str, Any]) -> bool:
        """Whether the result of a call belongs on the device; the call itself is made to name the CPU."""
        kwargs.pop("pin_memory", None)
        device = kwargs.get("device")
        if device is not None:
            kwargs["device"] = _CPU if is_cuda(device) else device
            return is_cuda(device)
        # As in torch: an operation runs where its operands are.
        return any(self.placement.holds(tensor) for tensor in _tensors((*args, *kwargs.values())))

    def of_host(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor, if NumPy can share its memory.

        Raises:
            TypeError: in torch's words, for one on the device.
        """
        if self.placement.holds(tensor):
            raise TypeError(
                f"can't convert {DEVICE} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
            )
        return tensor

    def move(self, tensor: torch.Tensor, device: Any, **options: Any) -> torch.Tensor:
        """``tensor.to``: a copy where the device changes, as between a host and a GPU.

        Args:
            tensor: on the host or on the virtual device.
            device: where to.
            options: the other arguments of ``torch.Tensor.to``.
        """
        to_device = self.placement.holds(tensor) if device is None else is_cuda(device)
        copy = options.pop("copy", False) or to_device != self.placement.holds(tensor)
        result = tensor.to(device if device is not None and not is_cuda(device) else _CPU, copy=copy, **options)
        return self.placement.put(result) if to_device else result


def _default_device() -> Any:
    """What ``torch.set_default_device`` or ``with torch.device(...)`` says; torch keeps these modes below all others."""
    contexts = (mode for mode in reversed(_get_current_function_mode_stack()) if isinstance(mode, DeviceContext))
    return next((mode.device for mode in contexts), None)


def is_cuda(device: Any) -> bool:
    """Whether ``device`` (a string, an index or a ``torch.device``) names the virtual device.

    Raises:
        RuntimeError: in CUDA's words, for a second device.
    """
    index = device if isinstance(device, int) else torch.device(device).index
    named = isinstance(device, int) or torch.device(device).type == "cuda"
    if named and index:
        raise RuntimeError("CUDA error: invalid device ordinal")
    return named


def parse_to(*args: Any, **kwargs: Any) -> Any:
    """torch's reader of the arguments of ``to``, which refuses an index for a device where there is no GPU."""
    first = [_named(value) for value in args[:1]]
    if "device" in kwargs:
        kwargs["device"] = _named(kwargs["device"])
    return _parse_to(*first, *args[1:], **kwargs)


def _named(device: Any) -> Any:
    """The device of an index; anything else as it is."""
    return DEVICE if isinstance(device, int) and not isinstance(device, bool) and is_cuda(device) else device


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _tensors(value)


# Rules of single functions ----------------------------------------------------------------------------------------------

_parse_to: Any = vars(torch._C)["_nn"]._parse_to
_RULES: dict[Any, Callable[[VirtualDeviceMode, tuple, dict[str, Any]], Any]] = {}


def _rule(*functions: Any) -> Callable[[Any], Any]:
    def register(rule: Any) -> Any:
        _RULES.update(dict.fromkeys(functions, rule))
        return rule

    return register


def _getter(attribute: str) -> Any:
    """What torch gives to a function mode when a tensor's attribute is read."""
    return getattr(torch.Tensor, attribute).__get__


@_rule(_getter("device"))
def _device(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> torch.device:
    (tensor,) = args
    return DEVICE if mode.placement.holds(tensor) else tensor.device


@_rule(_getter("is_cuda"))
def _is_cuda(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> bool:
    return mode.placement.holds(args[0])


@_rule(_getter("is_cpu"))
def _is_cpu(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> bool:
    return not mode.placement.holds(args[0]) and args[0].is_cpu


@_rule(torch.Tensor.get_device)
def _get_device(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> int:
    return 0 if mode.placement.holds(args[0]) else args[0].get_device()


@_rule(torch.Tensor.cuda)
def _cuda(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
    return mode.move(args[0], DEVICE)


@_rule(torch.Tensor.cpu)
def _cpu(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
    return mode.move(args[0], _CPU)


@_rule(torch.Tensor.to)
def _to(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
    tensor, *rest = args
    copy = kwargs.pop("copy", False)
    other = rest[0] if rest and isinstance(rest[0], torch.Tensor) else kwargs.pop("other", None)
    if other is not None:
        device = DEVICE if mode.placement.holds(other) else other.device
        return mode.move(tensor, device, dtype=other.dtype, copy=copy)
    device, dtype, _, memory_format = parse_to(*rest, **kwargs)
    options = {"copy": copy}
    if dtype is not None:
        options["dtype"] = dtype
    if memory_format is not None:
        options["memory_format"] = memory_format
    return mode.move(tensor, device, **options)


@_rule(torch.Tensor.pin_memory)
def _pin_memory(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
    return args[0].clone()


@_rule(torch.Tensor.is_pinned)
def _is_pinned(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> bool:
    return not mode.placement.holds(args[0])


@_rule(torch.Tensor.numpy)
def _numpy(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> Any:
    return args[0].numpy(**kwargs) if kwargs.get("force") else mode.of_host(args[0]).numpy(**kwargs)


@_rule(torch.Tensor.__array__)
def _array(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> Any:
    tensor, *rest = args
    return mode.of_host(tensor).__array__(*rest, **kwargs)


@_rule(torch.Tensor.__repr__)
def _repr(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> str:
    text = torch.Tensor.__repr__(args[0], **kwargs)  # a parameter's own calls this one
    return f"{text[:-1]}, device='{DEVICE}')" if mode.placement.holds(args[0]) else text


@_rule(torch.Tensor.type)
def _type(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> Any:
    tensor, *rest = args
    if not rest and not kwargs:
        return tensor.type().replace("torch.", "torch.cuda.") if mode.placement.holds(tensor) else tensor.type()
    return mode.placement.put(tensor.type(*rest, **kwargs)) if mode.placement.holds(tensor) else tensor.type(*rest, **kwargs)
