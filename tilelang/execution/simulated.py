"""Calls whose launches run on the simulator.

The simulator checks every address, so each call tells it which tensors there are; what it finds is raised where the kernel
was called, and the reports of the last call are kept.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tilelang.errors import ArgumentValueError, ExecutionError
from tilelang.execution import runtime
from tilelang.execution.arguments import goes_backwards, has_memory
from tilelang.execution.signature import CallSignature
from tilelang.simulator.virtual import active


class _State(threading.local):
    def __init__(self) -> None:
        self.reports: list[Any] = []
        self.error: BaseException | None = None
        self.tensors: list[tuple[str, Any]] = []
        self.outputs: Iterator[str] = iter(())
        self.settings: Any = None
        self.watch: Any = None
        self.sources: Any = None


_state = _State()


def last_reports() -> tuple[Any, ...]:
    """The simulator's reports on the launches of this thread's last simulated call."""
    return tuple(_state.reports)


def is_active() -> bool:
    """Whether CUDA kernels run on the simulator here."""
    from tilelang.simulator import current

    return current() is not None


def simulated(call: Callable[..., Any], signature: CallSignature, sources: Any = None) -> Callable[..., Any]:
    """``call`` with its launches on the simulator.

    Args:
        call: what is called.
        signature: its arguments, and the tensors that it allocates.
        sources: the texts of its kernels, a :class:`~tilelang.simulator.sources.KernelSources`; reports name their lines.

    Returns:
        A function of the same arguments; it raises what the simulator's checks find.
    """
    names, outputs = ([signature.params[index].name for index in part] for part in (signature.inputs, signature.allocated))

    def run(*args: Any, **kwargs: Any) -> Any:
        if active.current() is None:
            return checked(*args, **kwargs)
        return virtual(*args, **kwargs)

    def checked(*args: Any, **kwargs: Any) -> Any:
        _begin([*zip(names, args), *kwargs.items()], outputs, sources)
        try:
            return call(*args, **kwargs)
        except ExecutionError:
            error = _state.error or _state.watch.error
            if error is not None:
                raise error from None
            raise
        finally:
            _end()

    virtual = on_virtual_device(checked, signature)
    return run


def wherever(call: Callable[..., Any], signature: CallSignature) -> Callable[..., Any]:
    """``call``, which takes tensors in the CPU's memory, also for those of a virtual device: the interpreter's."""
    virtual = on_virtual_device(call, signature)

    def run(*args: Any, **kwargs: Any) -> Any:
        return (virtual if _holds_any((*args, *kwargs.values())) else call)(*args, **kwargs)

    return run


def on_virtual_device(call: Callable[..., Any], signature: CallSignature) -> Callable[..., Any]:
    """``call``, which takes tensors in the CPU's memory, for those of the virtual device in force.

    Args:
        call: what is called; it sees tensors as they are, since a virtual device has torch say that they are on a GPU.
        signature: its arguments.

    Returns:
        A function of the same arguments, whose results are on the device of its tensors.
    """
    names = [signature.params[index].name for index in signature.inputs]

    def untouched(*args: Any, **kwargs: Any) -> Any:
        with unseen():
            return call(*args, **kwargs)

    def run(*args: Any, **kwargs: Any) -> Any:
        from tilelang.simulator.virtual.devices import chosen, current

        device = active.current()
        assert device is not None
        with unseen():  # questions about tensors are no work, before which kernels would have to end
            index = device_of([*zip(names, args), *kwargs.items()], device.placement)
        with chosen(index):
            return device.placement.put(device.launches.call(untouched, args, kwargs), current())

    def device_of(arguments: list[tuple[str, Any]], placement: Any) -> int | None:
        """The virtual device whose tensors a call takes, although all are in the CPU's memory; None if it takes no tensors."""
        import torch

        found: int | None = None
        for position, (name, value) in enumerate(arguments):
            index = placement.index(value) if isinstance(value, torch.Tensor) else None
            if index is None and (tensor := _as_tensor(value)) is not None and tensor.numel():
                raise ArgumentValueError(signature.kernel, name, position, "device", "cuda", str(tensor.device))
            if None not in (index, found) and index != found:
                raise ArgumentValueError(signature.kernel, name, position, "device", f"cuda:{found}", f"cuda:{index}")
            found = index if found is None else found
        return found

    return run


def _holds_any(values: Iterable[Any]) -> bool:
    """Whether one of some arguments is a tensor of a virtual device."""
    device = active.current()
    if device is None:
        return False
    import torch

    with unseen():
        return any(isinstance(value, torch.Tensor) and device.placement.holds(value) for value in values)


def unseen() -> Any:
    """While this lasts, no mode sees what is asked of tensors."""
    import torch

    return torch._C.DisableTorchFunction()  # pyright: ignore[reportPrivateUsage] - no public name


def allocate(*args: Any, **kwargs: Any) -> Any:
    """``torch.empty`` whose result the launches of this call may touch."""
    import torch

    tensor = torch.empty(*args, **kwargs)
    _state.tensors.append((next(_state.outputs, "a tensor that the call allocates"), tensor))
    _announce()
    return tensor


def _begin(arguments: list[tuple[str, Any]], outputs: Iterable[str], sources: Any) -> None:
    from tilelang.lib.signals import SignalWatch
    from tilelang.simulator import Settings, current

    _state.reports, _state.error, _state.watch, _state.sources = [], None, SignalWatch(), sources
    _state.settings, _state.outputs = current() or Settings(), iter(outputs)
    _state.tensors = [(name, tensor) for name, value in arguments if (tensor := _as_tensor(value)) is not None]
    _state.tensors += _pointed(arguments)
    _announce()


def _pointed(arguments: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The tensors of a virtual device whose addresses stand in the arguments: as numbers, or in tensors of 64-bit integers."""
    import torch

    device = active.current()
    if device is None:
        return []
    numbers = [(name, torch.tensor([value])) for name, value in arguments if type(value) is int and abs(value) < 1 << 63]
    wide = [(name, tensor) for name, tensor in _state.tensors if tensor.dtype in (torch.int64, torch.uint64)]
    tables = numbers + [(name, tensor.view(torch.int64).flatten()) for name, tensor in wide]
    return [(f"a tensor of {name}", tensor) for name, table in tables for tensor in device.placement.reached(table)]


def _end() -> None:
    """Forgets the call: the native side keeps nothing of Python's, which may be gone before its threads are."""
    _state.tensors = []
    runtime.function("set_simulator_session")([], [], 0, False, 0, 0, None, None)


def _as_tensor(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        dense = value.device.type == "cpu" and value.layout is torch.strided and not value.is_nested
        return value if dense and has_memory(value) else None
    if hasattr(value, "__dlpack__") and not goes_backwards(value):
        try:
            return torch.from_dlpack(value)
        except Exception:
            return None  # the argument check says why it cannot be taken
    return None


def _announce() -> None:
    from tilelang.simulator.checks import check_bits, trace_bits

    settings = _state.settings
    allocations = [number for _, tensor in _state.tensors for number in (tensor.data_ptr(), _bytes(tensor), 0)]
    runtime.function("set_simulator_session")(
        allocations, [name for name, _ in _state.tensors], check_bits(settings.checks) | trace_bits(settings.trace),
        bool(settings.counters) or settings.trace != "off",
        int(settings.seed) & 0x7FFFFFFFFFFFFFFF, int(settings.workers), _on_report, _state.watch,
    )  # fmt: skip
    if _has_streams():
        runtime.function("set_simulator_streams")(_before_launch, _on_resident)


def _bytes(tensor: Any) -> int:
    if not tensor.numel():
        return 0
    # From the first to the last element: what lies between the elements of a strided tensor is its memory as well.
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return (last + 1) * tensor.element_size()


def _has_streams() -> bool:
    """Whether a launch may wait for one on another stream; a graph's are recorded one after the other."""
    import torch

    return active.current() is not None and not torch.cuda.is_current_stream_capturing()


def _residents() -> tuple[Any, int]:
    """The virtual device's waiting launches, and the current stream."""
    import torch

    device = active.current()
    assert device is not None
    return device.residents, torch.cuda.current_stream().cuda_stream


def _before_launch() -> bool:
    """Whether the launch is held back: those of one stream run in order."""
    residents, stream = _residents()
    try:
        return residents.hold_back(stream)
    except BaseException as error:
        _state.error = error
        raise


def _on_resident(handle: Any) -> None:
    """A launch waits for what one on another stream may write."""
    residents, stream = _residents()
    settings, sources, tensors = _state.settings, _state.sources, _state.tensors

    def ended(text: str) -> None:
        _raise(_taken(text, settings, sources, tensors), settings)

    residents.add(stream, handle, ended)


def _on_report(text: str) -> None:
    report = _taken(text, _state.settings, _state.sources, _state.tensors)
    _state.reports.append(report)
    try:
        _raise(report, _state.settings)
    except BaseException as error:
        _state.error = error
        raise


def _taken(text: str, settings: Any, sources: Any, tensors: list[tuple[str, Any]]) -> Any:
    """The report of a launch, for everyone who wants it."""
    from tilelang.simulator import Report

    report = Report.from_json(str(text), sources, sum(_bytes(tensor) for _, tensor in tensors))
    if settings.collect is not None:
        settings.collect(report)
    if report.printed:
        print(report.printed, end="", flush=True)
    return report


def _raise(report: Any, settings: Any) -> None:
    from tilelang.errors import SimulatorError

    if report.findings and settings.strict:
        raise SimulatorError(report.findings)
