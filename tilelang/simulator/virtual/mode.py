"""Calls of torch while a virtual device is there: ``"cuda"`` means the CPU's memory, and a tensor remembers that it was asked
to be on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._device import DeviceContext, _device_constructors
from torch.utils.dlpack import DLDeviceType

from tilelang.simulator.virtual.events import AnyEvent, Stream
from tilelang.simulator.virtual.graphs import refuse_in_capture
from tilelang.simulator.virtual.one_device import check_one_device
from tilelang.simulator.virtual.placement import Placement, tensors_of
from tilelang.simulator.virtual.resident import Residents

DEVICE = torch.device("cuda", 0)
_CPU = torch.device("cpu")


class VirtualDeviceMode(TorchFunctionMode):
    """Redirects what names the device.

    An operation's result is on the device where an operand is, or where ``device=`` says so.

    Attributes:
        placement: the storages on the device.
        residents: kernels that wait for those of other streams.
        pinned: the host's storages that are page-locked.
    """

    def __init__(self, placement: Placement, residents: Residents):
        super().__init__()
        self.placement = placement
        self.residents = residents
        self.pinned = Placement()

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = dict(kwargs or {})
        rule = _RULES.get(func)
        if rule is not None:
            return rule(self, args, kwargs)
        if func in _device_constructors() and kwargs.get("device") is None:
            kwargs["device"] = _default_device()
        pinned = kwargs.pop("pin_memory", False)
        operands = list(tensors_of((*args, *kwargs.values())))
        host = [tensor for tensor in operands if not self.placement.holds(tensor)]
        if host and len(host) < len(operands):
            check_one_device(func, host)
        if not self._wants_device(kwargs, has_operands=len(host) < len(operands)):
            result = func(*args, **kwargs)
            return self.pinned.put(result) if pinned else result
        self.residents.settle_stream(Stream.current().cuda_stream)
        start = AnyEvent.clock.now()
        result = self._on_device(func, args, kwargs)
        if next(tensors_of([result]), None) is not None:
            AnyEvent.clock.operated_since(start)
        return self.placement.put(result, but=host)

    def _wants_device(self, kwargs: dict[str, Any], has_operands: bool) -> bool:
        """Whether the result of a call belongs on the device; the call itself is made to name the CPU."""
        device = kwargs.get("device")
        if device is None:
            return has_operands  # as in torch: an operation runs where its operands are
        kwargs["device"] = _CPU if is_cuda(device) else device
        return is_cuda(device)

    def _on_device(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """An operation of the device.

        Raises:
            torch.OutOfMemoryError: this machine has no memory for its result.
        """
        try:
            with self.placement.holding_everything():  # also for hooks that look at its results before they are marked
                return func(*args, **kwargs)
        except RuntimeError as error:
            if "DefaultCPUAllocator: can't allocate memory" not in str(error):
                raise
            raise torch.OutOfMemoryError(f"CUDA out of memory. {error}") from None

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
        on_device = self.placement.holds(tensor)
        to_device = on_device if device is None else is_cuda(device)
        if on_device and not to_device and not options.pop("non_blocking", False):
            refuse_in_capture()
        if on_device or to_device:
            self.residents.settle_stream(Stream.current().cuda_stream)
        copy = options.pop("copy", False) or to_device != on_device
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
    if named and (index or 0) > 0:
        raise RuntimeError("CUDA error: invalid device ordinal")
    return named


def parse_to(*args: Any, **kwargs: Any) -> Any:
    """torch's reader of the arguments of ``to``, which refuses an index for a device where there is no GPU."""
    first = [_named(value) for value in args[:1]]
    if "device" in kwargs:
        kwargs["device"] = _named(kwargs["device"])
    with torch._C.DisableTorchFunction():  # for modules it is called with modes on, which would take the device for the CPU
        return _parse_to(*first, *args[1:], **kwargs)


def _named(device: Any) -> Any:
    """The device of an index; anything else as it is."""
    return DEVICE if isinstance(device, int) and not isinstance(device, bool) and is_cuda(device) else device


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


@_rule(torch.device)
def _torch_device(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> torch.device:
    return torch.device(*map(_named, args[:1]), *args[1:], **kwargs)


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
    device, dtype, non_blocking, memory_format = parse_to(*rest, **kwargs)
    options = {"copy": copy, "non_blocking": non_blocking}
    if dtype is not None:
        options["dtype"] = dtype
    if memory_format is not None:
        options["memory_format"] = memory_format
    return mode.move(tensor, device, **options)


@_rule(torch.Tensor.pin_memory)
def _pin_memory(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
    (tensor, *_) = args
    if mode.placement.holds(tensor):
        raise RuntimeError(f"cannot pin 'torch.cuda.{tensor.type().split('.')[-1]}' only dense CPU tensors can be pinned")
    return tensor if mode.pinned.holds(tensor) else mode.pinned.put(tensor.clone())


@_rule(torch.Tensor.is_pinned)
def _is_pinned(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> bool:
    return not mode.placement.holds(args[0]) and mode.pinned.holds(args[0])


@_rule(torch.Tensor.is_shared)
def _is_shared(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> bool:
    return mode.placement.holds(args[0]) or args[0].is_shared()


@_rule(torch.Tensor.type_as)
def _type_as(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
    return _to(mode, args, kwargs)


@_rule(torch.Tensor.numpy)
def _numpy(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> Any:
    return args[0].numpy(**kwargs) if kwargs.get("force") else mode.of_host(args[0]).numpy(**kwargs)


@_rule(torch.Tensor.tolist)
def _tolist(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> Any:
    if mode.placement.holds(args[0]):
        Stream.current().synchronize()
    return args[0].tolist()


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


@_rule(torch.Tensor.__dlpack_device__)
def _dlpack_device(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, int]:
    return (DLDeviceType.kDLCUDA, 0) if mode.placement.holds(args[0]) else args[0].__dlpack_device__()


@_rule(_getter("__cuda_array_interface__"))
def _cuda_array_interface(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    (tensor,) = args
    if not mode.placement.holds(tensor):
        return tensor.__cuda_array_interface__  # says why there is none
    known = tensor.dtype not in (torch.bfloat16, *_FLOAT8)
    text = torch.empty(0, dtype=tensor.dtype).numpy().dtype.str if known else f"<V{tensor.itemsize}"
    strides = None if tensor.is_contiguous() else tuple(step * tensor.itemsize for step in tensor.stride())
    data = (tensor.data_ptr() if tensor.numel() else 0, False)
    return {"typestr": text, "shape": tuple(tensor.shape), "strides": strides, "data": data, "version": 2}


_FLOAT8 = [value for name, value in vars(torch).items() if name.startswith("float8_")]


def _with_lengths(function: Any) -> Any:
    """The rule of a function that gives a tensor, and lengths that are always the host's."""

    def rule(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> Any:
        on_device = mode.placement.holds(args[0])
        data, lengths = function(*args, **kwargs)
        return (mode.placement.put(data) if on_device else data), lengths

    return rule


for _function in (torch._VF._pack_padded_sequence, torch._VF._pad_packed_sequence):
    _rule(_function)(_with_lengths(_function))


@_rule(torch.nn.functional.scaled_dot_product_attention)
def _attention(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
    """Which of CUDA's kernels for it a program allows says nothing of the CPU's."""
    allowed = torch.backends.cuda.math_sdp_enabled()
    torch.backends.cuda.enable_math_sdp(True)
    try:
        result = torch.nn.functional.scaled_dot_product_attention(*args, **kwargs)
        return mode.placement.put(result) if mode.placement.holds(args[0]) else result
    finally:
        torch.backends.cuda.enable_math_sdp(allowed)
