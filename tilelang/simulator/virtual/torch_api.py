"""What of torch is another while the virtual device is there, beside ``torch.cuda`` itself."""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.backends.cudnn
import torch.utils.dlpack

from tilelang.simulator.virtual import amp, comm, cuda_api
from tilelang.simulator.virtual.devices import current, index_of, named
from tilelang.simulator.virtual.distributed import distributed
from tilelang.simulator.virtual.events import AnyEvent, Stream, fresh_streams
from tilelang.simulator.virtual.mode import parse_to
from tilelang.simulator.virtual.models import DeviceModel
from tilelang.simulator.virtual.placement import Placement
from tilelang.simulator.virtual.replaced import constant, replaced
from tilelang.simulator.virtual.tensor_types import host_types, set_default_tensor_type

Change = tuple[Any, str, Any]
"""(owner, name, value)"""


@contextlib.contextmanager
def patched(model: DeviceModel, placement: Placement) -> Iterator[None]:
    """Puts the replacements in place, and what was there back afterwards."""
    of_cuda = cuda_api.replacements(model, placement)
    changes = [
        *_of_cuda(of_cuda), *_whole_torch(), *_unseen_by_modes(placement), *_markers(), *_accelerator(of_cuda), *_libraries(),
        *amp.replacements(), *comm.replacements(), *distributed(),
    ]  # fmt: skip
    with contextlib.ExitStack() as stack:
        stack.enter_context(fresh_streams())
        stack.enter_context(amp.half_by_default())
        for owner, name, value in changes:
            if hasattr(owner, name) or owner is torch._C:
                stack.enter_context(replaced(owner, name, value))
        stack.enter_context(replaced(torch._C, "_cuda_getCurrentRawStream", lambda device: Stream.current(device).cuda_stream))
        stack.enter_context(_without_graph_trees())
        yield


@contextlib.contextmanager
def _without_graph_trees() -> Iterator[None]:
    """``torch.compiler.reset`` and others load the compiler's part for graphs where there is a GPU; it needs CUDA's allocator."""
    name = "torch._inductor.cudagraph_trees"
    empty: Any = types.ModuleType(name)
    empty.reset_cudagraph_trees = empty.mark_step_begin = lambda: None
    before, sys.modules[name] = sys.modules.get(name), empty
    try:
        yield
    finally:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before


def _of_cuda(table: dict[str, Any]) -> list[Change]:
    """``torch.cuda``, and the modules that its names are from."""
    modules = [torch.cuda, *(sys.modules[f"torch.cuda.{name}"] for name in ("graphs", "memory", "random", "streams"))]
    return [(module, name, value) for name, value in table.items() for module in modules]


def _whole_torch() -> list[Change]:
    """Functions and classes of every device."""
    return [
        (torch, "Generator", Generator),
        (torch, "Stream", Stream),
        (torch, "Event", AnyEvent),
        (torch, "compile", _eagerly),
        (torch.jit, "script", _unscripted(torch.jit.script)),
        (torch.jit, "trace", lambda func, *_, **__: func),
        (torch.version, "cuda", "13.0"),
        (torch.profiler, "profile", _profile),
        (torch.autograd.profiler, "profile", _older_profile),
        (vars(torch._C)["_nn"], "_parse_to", parse_to),  # of modules; tensors have a rule of the mode
        (torch._C, "_get_accelerator", lambda check=None: torch.device("cuda")),
        (torch.Tensor, "record_stream", lambda *_: None),  # nothing is pending when a tensor dies
        (torch, "set_default_tensor_type", set_default_tensor_type),
        *((torch, name, kind) for name, kind in host_types().items()),
    ]


def _unseen_by_modes(placement: Placement) -> list[Change]:
    """What gives tensors or storages without asking a function mode."""
    from_dlpack: Callable[..., Any] = torch.utils.dlpack.from_dlpack

    def sharing(ext_tensor: Any, **settings: Any) -> torch.Tensor:
        with torch._C.DisableTorchFunction():
            tensor = from_dlpack(ext_tensor, **settings)
            _, device = getattr(ext_tensor, "__dlpack_device__", lambda: (None, 0))()
            return placement.put(tensor, device) if placement.reached(torch.tensor([tensor.data_ptr()])) else tensor

    def to_device(self: torch.UntypedStorage, device: Any = None, non_blocking: bool = False) -> torch.UntypedStorage:
        return placement.put_storage(self.clone(), current() if device is None else index_of(device) or 0)

    return [
        (torch._C, "_group_tensors_by_device_and_dtype", _grouping(placement)),
        (torch, "from_dlpack", sharing),
        (torch.utils.dlpack, "from_dlpack", sharing),
        (torch.UntypedStorage, "cuda", to_device),
        (torch.UntypedStorage, "is_cuda", property(lambda self: placement.index_of_storage(self) is not None)),
    ]


def _grouping(placement: Placement) -> Callable[..., Any]:
    """torch's groups of tensors, on which optimisers and the clipping of gradients work."""
    by_type: Callable[..., Any] = vars(torch._C)["_group_tensors_by_device_and_dtype"]

    def grouped(lists: Any, with_indices: bool = False) -> dict[Any, Any]:
        groups = {}
        for (device, dtype), (parts, indices) in by_type(lists, with_indices).items():
            places = [placement.index(tensor) for tensor in parts[0]]
            for place in dict.fromkeys(places):
                there = [position for position, other in enumerate(places) if other == place]
                chosen = [[part[position] for position in there if part] for part in (*parts, indices)]
                groups[device if place is None else named(place), dtype] = (chosen[:-1], chosen[-1])
        return groups

    return grouped


def _markers() -> list[Change]:
    """Markers and switches of NVIDIA's profilers, without effect here."""
    marks = [(torch.cuda.nvtx, name, constant(0)) for name in ("mark", "range_push", "range_pop", "range_start", "range_end")]
    emitting = (torch.autograd.profiler, "emit_nvtx", lambda enabled=True, record_shapes=False: contextlib.nullcontext())
    return [*marks, emitting, *((torch.cuda.profiler, name, constant(None)) for name in ("start", "stop"))]


def _accelerator(of_cuda: dict[str, Any]) -> list[Change]:
    """``torch.accelerator``: CUDA under the name that all kinds of devices share."""
    others = {
        "current_accelerator": lambda check_available=False: torch.device("cuda"),
        "current_device_index": of_cuda["current_device"],
        "current_device_idx": of_cuda["current_device"],
        "set_device_index": of_cuda["set_device"],
        "set_device_idx": of_cuda["set_device"],
        "device_index": of_cuda["device"],
        "get_memory_info": of_cuda["mem_get_info"],
        "empty_host_cache": constant(None),
    }
    shared = {name: of_cuda[name] for name in torch.accelerator.__all__ if name in of_cuda}
    return [(torch.accelerator, name, value) for name, value in (shared | others).items()]


def _libraries() -> list[Change]:
    """NVIDIA's libraries are said to be there, and accept no tensor."""
    return [
        (torch.backends.cuda, "is_built", constant(True)),
        (torch.backends.cudnn, "is_available", constant(True)),
        (sys.modules["torch.cuda.nccl"], "is_available", constant(False)),  # copies between devices are not its work here
        (sys.modules["torch.cuda.nccl"], "version", constant((2, 28, 3))),
        (torch.backends.cudnn, "version", constant(91400)),
        (torch.backends.cudnn, "is_acceptable", constant(False)),
        (torch.backends.cuda, "preferred_linalg_library", lambda backend=None: torch._C._LinalgBackend.Default),
        (torch.backends.cuda, "preferred_blas_library", lambda backend=None: torch._C._BlasBackend.Cublas),
    ]


class Generator(torch.Generator):
    """A random generator of either device."""

    def __new__(cls, device: Any = "cpu") -> Generator:
        return super().__new__(cls, "cpu")  # pyright: ignore[reportCallIssue] - its stub has no arguments

    def __init__(self, device: Any = "cpu"):
        self._named = torch.device(device)

    @property
    def device(self) -> torch.device:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As the program named it."""
        return self._named

    def clone_state(self) -> Generator:
        """Another generator in the same state."""
        other = Generator(self._named)
        other.set_state(self.get_state())
        return other

    def graphsafe_get_state(self) -> Generator:
        """Its state, as a generator."""
        return self.clone_state()

    def graphsafe_set_state(self, state: torch.Generator) -> None:
        """Takes the state of another generator."""
        self.set_state(state.get_state())


class _profile(torch.profiler.profile):  # noqa: N801 (torch's name)
    """``torch.profiler.profile`` of the host alone: nothing runs on a device that could be observed there."""

    def __init__(self, *, activities: Any = None, use_cuda: bool | None = None, **settings: Any):
        super().__init__(activities=[torch.profiler.ProfilerActivity.CPU], **settings)


class _older_profile(torch.autograd.profiler.profile):  # noqa: N801 (torch's name)
    """``torch.autograd.profiler.profile``, of the host alone, too."""

    def __init__(self, enabled: bool = True, *, use_cuda: bool = False, use_device: str | None = None, **settings: Any):
        super().__init__(enabled, **settings)


def _eagerly(function: Callable[..., Any] | None = None, **_: Any) -> Any:
    """``torch.compile``: the function as it is, since no compiler of torch knows this device."""
    return function if function is not None else _eagerly


def _unscripted(script: Callable[..., Any]) -> Callable[..., Any]:
    """``torch.jit.script``: a program's function as it is; torch scripts functions of its own for ``torch.func.jvp``."""

    def call(obj: Any, *args: Any, **settings: Any) -> Any:
        is_torchs = isinstance(obj, types.FunctionType) and obj.__module__.split(".")[0] == "torch"
        return script(obj, *args, **settings) if is_torchs else obj

    return call
