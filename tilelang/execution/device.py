"""Calls of CUDA artifacts: on a GPU where there is one, on the simulator where that is asked for.

Nothing is loaded before the first call, so that kernels can be compiled, read and kept where there is no device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tilelang.artifact import KernelArtifact
from tilelang.errors import ON_THE_SIMULATOR, ExecutionError
from tilelang.execution.signature import CallSignature
from tilelang.execution.simulated import allocate, is_active, simulated
from tilelang.execution.wrapper import PLAIN, Surroundings
from tilelang.simulator.sources import KernelSources
from tilelang.simulator.virtual import active


@dataclass(frozen=True, slots=True)
class Place:
    """Where a kernel is to run.

    Attributes:
        device: ``"cuda"`` or ``"simulator"``.
        signature: the call, with the torch device that tensors live on.
        stream: device index -> address of the stream to launch on; None where there are no streams.
        surroundings: how outputs are made, and what to try with a call that is refused.
    """

    device: str
    signature: CallSignature
    stream: Callable[[int], int] | None
    surroundings: Surroundings


Build = Callable[[Place], Callable[..., Any]]


def device_call(artifact: KernelArtifact, directory: Path, on_device: Callable[..., Any]) -> Callable[..., Any]:
    """The call of a CUDA artifact, for the device that is selected when it is first called.

    Args:
        artifact: the kernel.
        directory: where its files are.
        on_device: the backend's, which loads them for a :class:`Place`.
    """
    build = partial(on_device, artifact, directory)
    simulate = _once(lambda: _on_simulator(artifact, directory, build))
    if _gpu_is_there():
        return _on_gpu(artifact, build, simulate)

    def call(*args: Any, **kwargs: Any) -> Any:
        if is_active():
            return simulate()(*args, **kwargs)
        raise ExecutionError(f"{artifact.name}: there is no CUDA device on this machine", hint=ON_THE_SIMULATOR)

    return call


def _gpu_is_there() -> bool:
    """Whether there is a real one."""
    import torch

    return active.current() is None and torch.cuda.is_available()


def _once(make: Callable[[], Any]) -> Callable[[], Any]:
    made: list[Any] = []

    def get() -> Any:
        if not made:
            made.append(make())
        return made[0]

    return get


# The simulator -----------------------------------------------------------------------------------------------------------


def _on_simulator(artifact: KernelArtifact, directory: Path, build: Build) -> Callable[..., Any]:
    signature = CallSignature.of(artifact, "cpu")
    call = build(Place("simulator", signature, None, Surroundings(allocate=allocate)))
    return simulated(call, signature, KernelSources(directory, artifact.metadata.get("resources", {})))


# A GPU -------------------------------------------------------------------------------------------------------------------


def _on_gpu(artifact: KernelArtifact, build: Build, simulate: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """The call on a GPU; CPU tensors go to the simulator where it is switched on."""
    import torch

    def elsewhere(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any] | None:
        values = (*args, *kwargs.values())
        if not is_active() or any(isinstance(value, torch.Tensor) and value.is_cuda for value in values):
            return None
        return lambda: simulate()(*args, **kwargs)

    signature = CallSignature.of(artifact, "cuda")
    place = Place("cuda", signature, _stream_getter(), Surroundings(PLAIN.allocate, elsewhere))
    return _lazy(lambda: _on_its_device(build(place)))


def _lazy(make: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """A function that ``make`` gives, when it is first called."""
    get = _once(make)

    def call(*args: Any, **kwargs: Any) -> Any:
        return get()(*args, **kwargs)

    return call


def _on_its_device(call: Callable[..., Any]) -> Callable[..., Any]:
    """``call`` with the device of its tensors as the current one; needed only where there are several."""
    import torch

    if torch.cuda.device_count() < 2:
        return call

    def guarded(*args: Any, **kwargs: Any) -> Any:
        tensors = (value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor) and value.is_cuda)
        device = next((tensor.device for tensor in tensors), None)
        with torch.cuda.device(device):
            return call(*args, **kwargs)

    return guarded


def _stream_getter() -> Callable[[int], int]:
    import torch

    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # pyright: ignore[reportPrivateUsage]

    def stream(index: int) -> int:
        if index < 0:
            index = torch.cuda.current_device()
        return raw(index) if raw is not None else torch.cuda.current_stream(index).cuda_stream

    return stream
