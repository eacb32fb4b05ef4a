"""``torch.cuda`` of the virtual device: one table from names to replacements."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tilelang.simulator.virtual.events import CUDAGraph, Event, GraphCapture, Stream
from tilelang.simulator.virtual.models import DeviceModel


def replacements(model: DeviceModel) -> dict[str, Any]:
    """Attributes of ``torch.cuda`` and what they are while the device is there."""
    stream = Stream()
    random = torch.default_generator  # of both devices: torch seeds the GPU's with the CPU's
    return {
        "manual_seed": lambda seed: random.manual_seed(int(seed)),
        "manual_seed_all": lambda seed: random.manual_seed(int(seed)),
        "seed": lambda: random.seed(),
        "seed_all": lambda: random.seed(),
        **{name: _constant(None) for name in _WITHOUT_EFFECT},
        **{name: _constant(0) for name in _COUNTERS},
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "device": _device_context,
        "device_of": _device_context,
        "get_device_name": lambda device=None: model.name,
        "get_device_capability": lambda device=None: model.capability,
        "get_device_properties": lambda device=None: properties(model),
        "get_arch_list": lambda: [model.arch],
        "is_bf16_supported": lambda including_emulation=True: model.capability >= (8, 0),
        "mem_get_info": lambda device=None: (model.memory_bytes, model.memory_bytes),
        "memory_stats": lambda device=None: {},
        "memory_summary": lambda device=None, abbreviated=False: f"{model.name} (simulated)",
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
        "initial_seed": torch.initial_seed,
        "current_stream": lambda device=None: stream,
        "default_stream": lambda device=None: stream,
        "stream": lambda chosen: chosen if chosen is not None else contextlib.nullcontext(),
        "Stream": Stream,
        "ExternalStream": Stream,
        "Event": Event,
        "CUDAGraph": CUDAGraph,
        "graph": GraphCapture,
        "is_current_stream_capturing": lambda: GraphCapture.current is not None,
    }


_WITHOUT_EFFECT = (
    "init", "synchronize", "empty_cache", "ipc_collect", "set_device", "reset_peak_memory_stats", "reset_max_memory_allocated",
    "reset_accumulated_memory_stats", "set_per_process_memory_fraction", "set_stream",
)  # fmt: skip
_COUNTERS = (
    "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "utilization",
)  # fmt: skip


def properties(model: DeviceModel) -> Any:
    """What ``torch.cuda.get_device_properties`` gives: torch's names for a model's figures."""
    major, minor = model.capability
    return types.SimpleNamespace(
        name=model.name, major=major, minor=minor, total_memory=model.memory_bytes, gcnArchName="",
        multi_processor_count=model.multiprocessors, warp_size=model.warp_size, L2_cache_size=model.l2_bytes,
        max_threads_per_multi_processor=model.threads_per_multiprocessor, max_threads_per_block=1024,
        regs_per_multiprocessor=model.registers_per_multiprocessor, shared_memory_per_block=48 * 2**10,
        shared_memory_per_block_optin=model.shared_bytes_per_block, shared_memory_per_multiprocessor=model.shared_bytes,
        clock_rate=int(model.clock / 1e3), is_integrated=0, is_multi_gpu_board=0,
    )  # fmt: skip


def _constant(value: Any) -> Callable[..., Any]:
    """What has no effect on a device that works at once and owns no memory. A function of its own for each name: torch keeps
    tables by function."""
    return lambda *_, **__: value


class _device_context(contextlib.nullcontext):  # noqa: N801 (torch's name)
    """``with torch.cuda.device(0):``"""

    def __init__(self, device: Any = None):
        super().__init__()
        self.idx = 0


class Generator(torch.Generator):
    """A random generator of either device."""

    def __new__(cls, device: Any = "cpu") -> Generator:
        return super().__new__(cls, "cpu")  # pyright: ignore[reportCallIssue] - its stub has no arguments


def _eagerly(function: Callable[..., Any] | None = None, **_: Any) -> Any:
    """``torch.compile``: the function as it is, since no compiler of torch knows this device."""
    return function if function is not None else _eagerly


class _profile(torch.profiler.profile):  # noqa: N801 (torch's name)
    """``torch.profiler.profile`` of the host alone: nothing runs on a device that could be observed there."""

    def __init__(self, *, activities: Any = None, use_cuda: bool | None = None, **settings: Any):
        super().__init__(activities=[torch.profiler.ProfilerActivity.CPU], **settings)


@contextlib.contextmanager
def patched(model: DeviceModel) -> Iterator[None]:
    """Puts the replacements in place, and what was there back afterwards."""
    changes = [(torch.cuda, name, value) for name, value in replacements(model).items()]
    changes += [(torch, "Generator", Generator), (torch, "compile", _eagerly), (torch.version, "cuda", "13.0")]
    changes.append((torch.profiler, "profile", _profile))
    changes = [(owner, name, value) for owner, name, value in changes if hasattr(owner, name)]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
    for owner, name, value in changes:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)
