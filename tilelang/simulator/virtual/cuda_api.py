"""``torch.cuda`` of the virtual device: one table from names to replacements."""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
import uuid
from collections import defaultdict
from typing import Any

import torch

from tilelang.simulator.virtual import devices
from tilelang.simulator.virtual.events import Event, ExternalStream, Stream, StreamContext, residents
from tilelang.simulator.virtual.graphs import CUDAGraph, GraphCapture, refuse_in_capture
from tilelang.simulator.virtual.models import DeviceModel
from tilelang.simulator.virtual.placement import Placement
from tilelang.simulator.virtual.replaced import constant
from tilelang.simulator.virtual.tensor_types import tensor_types


def replacements(model: DeviceModel, placement: Placement) -> dict[str, Any]:
    """Attributes of ``torch.cuda`` (or of its modules) and what they are while the device is there."""
    random = torch.default_generator  # of both devices: torch seeds the GPU's with the CPU's
    table = {
        "manual_seed": lambda seed: random.manual_seed(int(seed)),
        "manual_seed_all": lambda seed: random.manual_seed(int(seed)),
        "seed": lambda: random.seed(),
        "seed_all": lambda: random.seed(),
        **{name: constant(None) for name in _WITHOUT_EFFECT},
        **{name: lambda device: placement.bytes_now(device) for name in ("memory_allocated", "memory_reserved")},
        **{name: lambda device: placement.peak(device) for name in ("max_memory_allocated", "max_memory_reserved")},
        **{name: lambda device: placement.reset_peak(device) for name in _RESETS},
        "synchronize": lambda device: _synchronize(),
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": devices.count,
        "current_device": devices.current,
        "set_device": lambda device: devices.choose(device),
        "device": _device_context,
        "device_of": _device_context,
        "get_device_name": lambda device: model.name,
        "get_device_capability": lambda device: model.capability,
        "get_device_properties": lambda device: properties(model, device),
        "get_arch_list": lambda: [model.arch],
        "is_bf16_supported": lambda including_emulation=True: model.capability >= (8, 0),
        "mem_get_info": lambda device: _free_and_total(model, placement, device),
        "memory_stats": lambda device: memory_stats(placement, device),
        "memory_stats_as_nested_dict": lambda device: _nested(memory_stats(placement, device)),
        **{name: lambda device: 0 for name in ("utilization", "memory_usage", "temperature", "power_draw")},
        "clock_rate": lambda device: int(model.clock / 1e6),
        "device_memory_used": lambda device: placement.bytes_now(device),
        "memory_snapshot": lambda mempool_id=None, include_traces=True: [],
        "_snapshot": lambda device=0, augment_with_fx_traces=False: {"segments": [], "device_traces": []},
        "get_per_process_memory_fraction": lambda device: 1.0,
        "get_allocator_backend": lambda: "native",
        "get_sync_debug_mode": lambda: 0,
        "can_device_access_peer": lambda device, peer_device: device != devices.index_of(peer_device),
        "default_generators": (random,) * devices.count(),
        "cudart": lambda: _runtime(model, placement),
        "current_blas_handle": lambda: 0,
        "list_gpu_processes": lambda device: f"GPU:{model.name} (simulated)\nno processes are running",
        "host_memory_stats": lambda: defaultdict(int),
        "host_memory_stats_as_nested_dict": dict,
        **_raw_memory(placement),
        "MemPool": _MemPool,
        "use_mem_pool": lambda pool, device=None: contextlib.nullcontext(),
        "_is_compiled": lambda: True,
        "memory_summary": lambda device=0, abbreviated=False: f"{model.name} (simulated)",
        "get_rng_state": lambda device: torch.get_rng_state(),
        "set_rng_state": lambda state, device: torch.set_rng_state(state),
        "get_rng_state_all": lambda: [torch.get_rng_state()] * devices.count(),
        "set_rng_state_all": lambda states: torch.set_rng_state(states[0]),
        "initial_seed": torch.initial_seed,
        "current_stream": lambda device: Stream.current(device),
        "default_stream": lambda device: Stream.default(device),
        "set_stream": _set_stream,
        "stream": StreamContext,
        "Stream": Stream,
        "ExternalStream": ExternalStream,
        "StreamContext": StreamContext,
        "get_stream_from_external": lambda data_ptr, device=None: Stream(device, stream_ptr=data_ptr),
        "Event": Event,
        "CUDAGraph": CUDAGraph,
        "graph": GraphCapture,
        "graph_pool_handle": lambda: (0, 0),
        **tensor_types(placement),
        "make_graphed_callables": lambda callables, *_, **__: callables,
        "is_current_stream_capturing": lambda: GraphCapture.current is not None,
    }
    return {name: _of_device(value) for name, value in table.items()}


def _of_device(value: Any) -> Any:
    """A function that has an argument ``device`` takes its index there; others than CUDA's are refused first."""
    names = inspect.getfullargspec(value).args if isinstance(value, types.FunctionType) else []
    if "device" not in names:
        return value
    place = names.index("device")

    def call(*args: Any, **kwargs: Any) -> Any:
        device = args[place] if len(args) > place else kwargs.get("device")
        index = devices.current() if device is None else devices.index_of(device)
        if index is None:
            raise ValueError(f"Expected a cuda device, but got: {device}")
        if len(args) > place:
            return value(*args[:place], index, *args[place + 1 :], **kwargs)
        return value(*args, **{**kwargs, "device": index})

    return call


_WITHOUT_EFFECT = (
    "init", "empty_cache", "ipc_collect", "set_per_process_memory_fraction", "set_sync_debug_mode", "check_error",
    "reset_peak_host_memory_stats", "reset_accumulated_host_memory_stats", "_lazy_init", "_sleep", "_record_memory_history",
    "_dump_snapshot", "caching_allocator_enable",
)  # fmt: skip
_RESETS = (
    "reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached", "reset_accumulated_memory_stats",
)  # fmt: skip


def _synchronize() -> None:
    refuse_in_capture()
    residents().settle_all()


def _free_and_total(model: DeviceModel, placement: Placement, index: int) -> tuple[int, int]:
    return max(model.memory_bytes - placement.bytes_now(index), 0), model.memory_bytes


def memory_stats(placement: Placement, index: int) -> dict[str, int]:
    """What ``torch.cuda.memory_stats`` gives: bytes, where memory that is allocated is all that is reserved; the other counts,
    which belong to torch's allocator, are zero."""
    now, peak = placement.bytes_now(index), placement.peak(index)
    kinds = ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes")
    return defaultdict(int, {f"{kind}.all.{when}": v for kind in kinds for when, v in (("current", now), ("peak", peak))})


def _nested(stats: dict[str, int]) -> dict[str, Any]:
    """The same by the parts of the names."""
    nested: dict[str, Any] = {}
    for name, value in stats.items():
        *outer, last = name.split(".")
        functools.reduce(lambda level, part: level.setdefault(part, {}), outer, nested)[last] = value
    return nested


def _set_stream(chosen: Stream | None) -> None:
    if chosen is not None:
        chosen.choose()


class _CudaDeviceProperties(types.SimpleNamespace):
    """torch's name, which its text shows."""


def properties(model: DeviceModel, index: int) -> Any:
    """What ``torch.cuda.get_device_properties`` gives: torch's names for a model's figures, the same for each device."""
    major, minor = model.capability
    return _CudaDeviceProperties(
        name=model.name, major=major, minor=minor, total_memory=model.memory_bytes, gcnArchName="",
        multi_processor_count=model.multiprocessors, warp_size=model.warp_size, L2_cache_size=model.l2_bytes,
        max_threads_per_multi_processor=model.threads_per_multiprocessor, max_threads_per_block=1024,
        regs_per_multiprocessor=model.registers_per_multiprocessor, shared_memory_per_block=48 * 2**10,
        shared_memory_per_block_optin=model.shared_bytes_per_block, shared_memory_per_multiprocessor=model.shared_bytes,
        clock_rate=int(model.clock / 1e3), is_integrated=0, is_multi_gpu_board=0, luid=b"",
        uuid=uuid.uuid5(uuid.NAMESPACE_DNS, f"{model.name} {index}" if index else model.name), pci_bus_id=1 + index,
        pci_device_id=0, pci_domain_id=0,
    )  # fmt: skip


class _device_context:  # noqa: N801 (torch's name)
    """``with torch.cuda.device(0):``, or a tensor of it; none, and a tensor of the host, leave the device as it is."""

    def __init__(self, device: Any = None):
        place = device.get_device() if isinstance(device, torch.Tensor) else device
        self.idx = None if place is None or place == -1 else devices.index_of(place)
        self._outer: list[int] = []

    def __enter__(self) -> None:
        self._outer.append(devices.current())
        devices.choose(devices.current() if self.idx is None else self.idx)

    def __exit__(self, *_: Any) -> None:
        devices.choose(self._outer.pop())


class _MemPool:
    """A pool of memory, without effect."""

    def __init__(self, *_: Any, **__: Any):
        self.id = (0, 1)

    def snapshot(self, include_traces: bool = True) -> list[Any]:
        """Its segments: none."""
        return []

    def use_count(self) -> int:
        """Its owners: whoever asks."""
        return 1


def _raw_memory(placement: Placement) -> dict[str, Any]:
    """Memory that a program takes and gives back by its address."""
    taken: dict[int, torch.Tensor] = {}

    def allocate(size: int, device: Any = None, stream: Any = None) -> int:
        tensor = placement.put(torch.empty(size, dtype=torch.uint8), device)
        taken[tensor.data_ptr()] = tensor
        return tensor.data_ptr()

    return {"caching_allocator_alloc": allocate, "caching_allocator_delete": lambda mem_ptr: taken.pop(mem_ptr)}


def _runtime(model: DeviceModel, placement: Placement) -> Any:
    """What torch gives of CUDA's own runtime: functions whose result is a code, 0 for no error."""
    names = ("cudaProfilerStart", "cudaProfilerStop", "cudaHostRegister", "cudaHostUnregister")
    return types.SimpleNamespace(
        cudaMemGetInfo=lambda device: _free_and_total(model, placement, device),
        cudaGetErrorString=lambda error: "no error" if error == 0 else f"error {int(error)}",
        cudaError=types.SimpleNamespace(success=0),
        **{name: constant(0) for name in names},
    )
