"""Calls of torch while a virtual device is there: ``"cuda"`` means the CPU's memory, and a tensor remembers that it was asked
to be on the device."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._device import DeviceContext, _device_constructors
from torch.utils.dlpack import DLDeviceType

from tilelang.simulator.virtual.devices import index_of, named
from tilelang.simulator.virtual.division import as_on_gpu
from tilelang.simulator.virtual.events import AnyEvent, Stream
from tilelang.simulator.virtual.graphs import refuse_in_capture
from tilelang.simulator.virtual.one_device import check_one_device
from tilelang.simulator.virtual.placement import Placement, tensors_of
from tilelang.simulator.virtual.queued import in_order
from tilelang.simulator.virtual.resident import Residents
from tilelang.simulator.virtual.tensor_types import parsed

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
        return self.perform(func, args, kwargs) if rule is None else rule(self, args, kwargs)

    def perform(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A call of a function of torch that has no rule of its own.

        Args:
            func: what is called.
            args, kwargs: its arguments; ``kwargs`` is changed.
        """
        if func in _device_constructors() and kwargs.get("device") is None:
            kwargs["device"] = _default_device()
        pinned = kwargs.pop("pin_memory", False)
        operands = list(tensors_of((*args, *kwargs.values())))
        places = [self.placement.index(tensor) for tensor in operands]
        if len(set(places)) > 1:
            check_one_device(func, operands, places)
        index = self._index_of_result(kwargs, places)
        if index is None:
            result = self.placement.keep_on_host(func(*args, **kwargs))
            return self.pinned.put(result) if pinned else result
        host = [tensor for tensor, place in zip(operands, places) if place is None]
        if host:
            self.residents.settle_stream(Stream.current(index).cuda_stream)
        start = AnyEvent.clock.now()
        result = self._on_device(index, func, args, kwargs)
        if next(tensors_of([result]), None) is not None:
            AnyEvent.clock.operated_since(start)
        return self.placement.put(result, index, but=host)

    def _index_of_result(self, kwargs: dict[str, Any], places: list[int | None]) -> int | None:
        """The device that the result of a call belongs to; the call itself is made to name the CPU."""
        device = kwargs.get("device")
        if device is None:  # as in torch: an operation runs where its operands are
            return next((place for place in places if place is not None), None)
        index = index_of(device)
        kwargs["device"] = device if index is None else _CPU
        return index

    def _on_device(self, index: int, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """An operation of a device.

        Raises:
            torch.OutOfMemoryError: this machine has no memory for its result.
        """
        func, args = as_on_gpu(func, args, kwargs)
        try:
            # Everything, also for hooks that look at its results before they are marked.
            with self.placement.holding_everything(index), in_order(self.residents, index):
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
        index = self.placement.index(tensor)
        if index is not None:
            raise TypeError(
                f"can't convert {named(index)} device type tensor to numpy."
                " Use Tensor.cpu() to copy the tensor to host memory first."
            )
        return tensor

    def move(self, tensor: torch.Tensor, device: Any, **options: Any) -> torch.Tensor:
        """``tensor.to``: a copy where the device changes, as between a host and a GPU.

        Args:
            tensor: on the host or on a virtual device.
            device: where to.
            options: the other arguments of ``torch.Tensor.to``.
        """
        before = self.placement.index(tensor)
        after = before if device is None else index_of(device)
        blocking = not options.pop("non_blocking", False)
        if before is not None and after is None and blocking:
            refuse_in_capture()
        if before != after and (blocking or before is not None):  # a copy to new memory of a device may be made at once
            for index in {before, after} - {None}:
                self.residents.settle_stream(Stream.current(index).cuda_stream)
        copy = options.pop("copy", False) or after != before
        with contextlib.nullcontext() if after is None else in_order(self.residents, after):
            result = tensor.to(device if device is not None and after is None else _CPU, copy=copy, **options)
        return self.placement.keep_on_host(result) if after is None else self.placement.put(result, after)


def _default_device() -> Any:
    """What ``torch.set_default_device`` or ``with torch.device(...)`` says; torch keeps these modes below all others."""
    contexts = (mode for mode in reversed(_get_current_function_mode_stack()) if isinstance(mode, DeviceContext))
    return next((mode.device for mode in contexts), None)


def parse_to(*args: Any, **kwargs: Any) -> Any:
    """torch's reader of the arguments of ``to``, which refuses an index for a device where there is no GPU."""
    first = [_by_index(value) for value in args[:1]]
    if "device" in kwargs:
        kwargs["device"] = _by_index(kwargs["device"])
    with torch._C.DisableTorchFunction():  # for modules it is called with modes on, which would take the device for the CPU
        return _parse_to(*first, *args[1:], **kwargs)


def _by_index(device: Any) -> Any:
    """The device of an index; anything else as it is."""
    if not isinstance(device, int) or isinstance(device, bool):
        return device
    index = index_of(device)
    return device if index is None else named(index)


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
    return torch.device(*map(_by_index, args[:1]), *args[1:], **kwargs)


@_rule(_getter("device"))
def _device(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> torch.device:
    (tensor,) = args
    index = mode.placement.index(tensor)
    return tensor.device if index is None else named(index)


@_rule(_getter("is_cuda"))
def _is_cuda(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> bool:
    return mode.placement.holds(args[0])


@_rule(_getter("is_cpu"))
def _is_cpu(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> bool:
    return not mode.placement.holds(args[0]) and args[0].is_cpu


@_rule(torch.Tensor.get_device)
def _get_device(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> int:
    index = mode.placement.index(args[0])
    return args[0].get_device() if index is None else index


@_rule(torch.Tensor.cuda)
def _cuda(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
    tensor, *rest = args
    device = rest[0] if rest else kwargs.get("device")
    return mode.move(tensor, "cuda" if device is None else device)


@_rule(torch.Tensor.cpu)
def _cpu(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
    return mode.move(args[0], _CPU)


@_rule(torch.Tensor.to)
def _to(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
    tensor, *rest = args
    copy = kwargs.pop("copy", False)
    other = rest[0] if rest and isinstance(rest[0], torch.Tensor) else kwargs.pop("other", None)
    if other is not None:
        index = mode.placement.index(other)
        device = other.device if index is None else named(index)
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
    index = mode.placement.index(args[0])
    if index is not None:
        Stream.current(index).synchronize()
    return args[0].tolist()


@_rule(torch.Tensor.__array__)
def _array(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> Any:
    tensor, *rest = args
    return mode.of_host(tensor).__array__(*rest, **kwargs)


@_rule(torch.Tensor.__repr__)
def _repr(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> str:
    index = mode.placement.index(args[0])
    if index is not None:
        Stream.current(index).synchronize()
    text = torch.Tensor.__repr__(args[0], **kwargs)  # a parameter's own calls this one
    return text if index is None else f"{text[:-1]}, device='{named(index)}')"


@_rule(torch.Tensor.type)
def _type(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> Any:
    tensor, *rest = args
    index = mode.placement.index(tensor)
    if not rest and not kwargs:
        return tensor.type() if index is None else tensor.type().replace("torch.", "torch.cuda.")
    kind = rest[0] if rest else kwargs["dtype"]
    dtype, on_device = parsed(kind)
    if on_device:
        return mode.move(tensor, "cuda" if index is None else None, dtype=dtype)
    if index is not None and isinstance(kind, torch.dtype):
        return mode.move(tensor, None, dtype=kind)
    return mode.move(tensor, _CPU).type(dtype)


@_rule(torch.Tensor.__dlpack_device__)
def _dlpack_device(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, int]:
    index = mode.placement.index(args[0])
    return args[0].__dlpack_device__() if index is None else (DLDeviceType.kDLCUDA, index)


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
        index = mode.placement.index(args[0])
        if index is None:
            return function(*args, **kwargs)
        with in_order(mode.residents, index):
            data, lengths = function(*args, **kwargs)
        return mode.placement.put(data, index), lengths

    return rule


for _function in (torch._VF._pack_padded_sequence, torch._VF._pad_packed_sequence):
    _rule(_function)(_with_lengths(_function))


@_rule(torch.nn.functional.scaled_dot_product_attention)
def _attention(mode: VirtualDeviceMode, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
    """Which of CUDA's kernels for it a program allows says nothing of the CPU's."""
    allowed = torch.backends.cuda.math_sdp_enabled()
    torch.backends.cuda.enable_math_sdp(True)
    try:
        return mode.perform(torch.nn.functional.scaled_dot_product_attention, args, kwargs)
    finally:
        torch.backends.cuda.enable_math_sdp(allowed)
