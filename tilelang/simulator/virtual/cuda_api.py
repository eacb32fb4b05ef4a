"""``torch.cuda`` of the virtual device: one table from names to replacements."""

from __future__ import annotations

import contextlib
import inspect
import types
import uuid
from collections import defaultdict
from typing import Any

import torch

from tilelang.simulator.virtual.events import Event, Stream, residents
from tilelang.simulator.virtual.graphs import CUDAGraph, GraphCapture, refuse_in_capture
from tilelang.simulator.virtual.mode import is_cuda
from tilelang.simulator.virtual.models import DeviceModel
from tilelang.simulator.virtual.placement import Placement
from tilelang.simulator.virtual.replaced import constant


def replacements(model: DeviceModel, placement: Placement) -> dict[str, Any]:
    """Attributes of ``torch.cuda`` (or of its modules) and what they are while the device is there."""
    default = Stream.current()
    random = torch.default_generator  # of both devices: torch seeds the GPU's with the CPU's
    table = {
        "manual_seed": lambda seed: random.manual_seed(int(seed)),
        "manual_seed_all": lambda seed: random.manual_seed(int(seed)),
        "seed": lambda: random.seed(),
        "seed_all": lambda: random.seed(),
        **{name: constant(None) for name in _WITHOUT_EFFECT},
        **{name: lambda device=None: placement.bytes_now() for name in ("memory_allocated", "memory_reserved")},
        **{name: lambda device=None: _peak(placement) for name in ("max_memory_allocated", "max_memory_reserved")},
        **{name: lambda device=None: placement.reset_peak() for name in _RESETS},
        "synchronize": lambda device=None: _synchronize(),
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "device": _device_context,
        "device_of": _device_context,
        "get_device_name": lambda device=None: model.name,
        "get_device_capability": lambda device=None: model.capability,
        "get_device_properties": lambda device=None: properties(model),
        "get_arch_list": lambda: [model.arch],
        "is_bf16_supported": lambda including_emulation=True: model.capability >= (8, 0),
        "mem_get_info": lambda device=None: (max(model.memory_bytes - placement.bytes_now(), 0), model.memory_bytes),
        "memory_stats": lambda device=None: memory_stats(placement),
        **{name: lambda device=None: 0 for name in ("utilization", "memory_usage", "temperature", "power_draw")},
        "clock_rate": lambda device=None: int(model.clock / 1e6),
        "device_memory_used": lambda device=None: placement.bytes_now(),
        "memory_snapshot": lambda mempool_id=None, include_traces=True: [],
        "get_per_process_memory_fraction": lambda device=None: 1.0,
        "get_allocator_backend": lambda: "native",
        "get_sync_debug_mode": lambda: 0,
        "can_device_access_peer": lambda device, peer_device: False,
        "default_generators": (random,),
        "cudart": lambda: _RUNTIME,
        "current_blas_handle": lambda: 0,
        "list_gpu_processes": lambda device=None: f"GPU:{model.name} (simulated)\nno processes are running",
        "host_memory_stats": lambda: defaultdict(int),
        "MemPool": _MemPool,
        "use_mem_pool": lambda pool, device=None: contextlib.nullcontext(),
        "_is_compiled": lambda: True,
        "memory_summary": lambda device=None, abbreviated=False: f"{model.name} (simulated)",
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
        "get_rng_state_all": lambda: [torch.get_rng_state()],
        "set_rng_state_all": lambda states: torch.set_rng_state(states[0]),
        "initial_seed": torch.initial_seed,
        "current_stream": lambda device=None: Stream.current(),
        "default_stream": lambda device=None: default,
        "set_stream": _set_stream,
        "stream": lambda chosen: chosen if chosen is not None else contextlib.nullcontext(),
        "Stream": Stream,
        "ExternalStream": lambda stream_ptr, device=None, **_: Stream(stream_ptr=stream_ptr),
        "StreamContext": lambda chosen: chosen if chosen is not None else contextlib.nullcontext(),
        "Event": Event,
        "CUDAGraph": CUDAGraph,
        "graph": GraphCapture,
        "graph_pool_handle": lambda: (0, 0),
        "make_graphed_callables": lambda callables, *_, **__: callables,
        "is_current_stream_capturing": lambda: GraphCapture.current is not None,
    }
    return {name: _of_device(value) for name, value in table.items()}


def _of_device(value: Any) -> Any:
    """A function that has an argument ``device`` refuses other devices first."""
    names = inspect.getfullargspec(value).args if isinstance(value, types.FunctionType) else []
    if "device" not in names:
        return value
    place = names.index("device")

    def call(*args: Any, **kwargs: Any) -> Any:
        device = args[place] if len(args) > place else kwargs.get("device")
        if device is not None and not is_cuda(device):
            raise ValueError(f"Expected a cuda device, but got: {device}")
        return value(*args, **kwargs)

    return call


_WITHOUT_EFFECT = (
    "init", "empty_cache", "ipc_collect", "set_per_process_memory_fraction", "set_sync_debug_mode", "check_error",
    "reset_peak_host_memory_stats", "reset_accumulated_host_memory_stats", "_lazy_init", "_sleep", "_record_memory_history",
    "_dump_snapshot",
)  # fmt: skip
_RESETS = (
    "reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached", "reset_accumulated_memory_stats",
)  # fmt: skip


def _synchronize() -> None:
    refuse_in_capture()
    residents().settle_all()


def _peak(placement: Placement) -> int:
    placement.bytes_now()
    return placement.peak


def memory_stats(placement: Placement) -> dict[str, int]:
    """What ``torch.cuda.memory_stats`` gives: bytes, where memory that is allocated is all that is reserved; the other counts,
    which belong to torch's allocator, are zero."""
    now, peak = placement.bytes_now(), _peak(placement)
    kinds = ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes")
    return defaultdict(int, {f"{kind}.all.{when}": v for kind in kinds for when, v in (("current", now), ("peak", peak))})


def _set_stream(chosen: Stream | None) -> None:
    if chosen is not None:
        chosen.choose()


class _CudaDeviceProperties(types.SimpleNamespace):
    """torch's name, which its text shows."""


def properties(model: DeviceModel) -> Any:
    """What ``torch.cuda.get_device_properties`` gives: torch's names for a model's figures."""
    major, minor = model.capability
    return _CudaDeviceProperties(
        name=model.name, major=major, minor=minor, total_memory=model.memory_bytes, gcnArchName="",
        multi_processor_count=model.multiprocessors, warp_size=model.warp_size, L2_cache_size=model.l2_bytes,
        max_threads_per_multi_processor=model.threads_per_multiprocessor, max_threads_per_block=1024,
        regs_per_multiprocessor=model.registers_per_multiprocessor, shared_memory_per_block=48 * 2**10,
        shared_memory_per_block_optin=model.shared_bytes_per_block, shared_memory_per_multiprocessor=model.shared_bytes,
        clock_rate=int(model.clock / 1e3), is_integrated=0, is_multi_gpu_board=0, uuid=uuid.uuid5(uuid.NAMESPACE_DNS, model.name),
        pci_bus_id=1, pci_device_id=0, pci_domain_id=0, luid=b"",
    )  # fmt: skip


class _device_context(contextlib.nullcontext):  # noqa: N801 (torch's name)
    """``with torch.cuda.device(0):``, or a tensor of it"""

    def __init__(self, device: Any = None):
        super().__init__()
        if device is not None and not isinstance(device, torch.Tensor):
            is_cuda(device)
        self.idx = 0


class _MemPool:
    """A pool of memory, without effect."""

    def __init__(self, *_: Any, **__: Any):
        self.id = (0, 1)


_RUNTIME = types.SimpleNamespace(cudaProfilerStart=lambda: 0, cudaProfilerStop=lambda: 0)
"""What programs call of CUDA's own runtime."""
