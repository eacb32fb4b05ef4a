"""Backend ``cython``: the C entry point of ``kernel_lib.so``, called through a compiled adapter.

The adapter (``src/cython``) reads tensors through DLPack's exchange table, checks them against a plan in C++, and calls the
entry; this module makes the plan.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilelang.artifact import Dim, KernelArtifact, KernelParam
from tilelang.dtypes import canonical
from tilelang.errors import ExecutionError, KernelFailedError
from tilelang.execution.arguments import integer_range
from tilelang.execution.entry import FILE, entry_kinds, entry_name, failure_text, open_library
from tilelang.execution.signature import CallSignature, torch_dtypes
from tilelang.execution.wrapper import PLAIN, Surroundings, give_up, slow_path
from tilelang.sizes import AXIS
from tilelang.storage import DLPACK_TYPES, storage_dtypes, storage_shape, storage_strides

if TYPE_CHECKING:
    from tilelang.execution.device import Place

_TENSOR, _INTEGER, _UNSIGNED, _FLOAT, _POINTER = range(5)
_NUMBER, _VARIABLE, _PROGRAM = range(3)
_OPERATIONS = {"add": 2, "sub": 3, "mul": 4, "floordiv": 5, "floormod": 6, "ceildiv": 7, "min": 8, "max": 9}
_DEVICE_TYPES = {"cpu": 1, "cuda": 2}  # DLDeviceType
_MOST_TENSORS = _MOST_VARIABLES = 64


@lru_cache(maxsize=1)
def adapter() -> Any:
    """The compiled module.

    Raises:
        ExecutionError: it was not built.
    """
    import torch

    try:
        from tilelang.lib import entry_adapter
    except ImportError as error:
        raise ExecutionError(f"the compiled adapter is missing: {error}", hint="build it: python3 dev.py build") from None
    entry_adapter.use_tensor_type(torch.Tensor)
    return entry_adapter


def on_cpu(artifact: KernelArtifact, directory: Path) -> Callable[..., Any]:
    """The call of a CPU kernel.

    Raises:
        ExecutionError: the library or the adapter cannot be loaded, or the kernel has more arguments than the adapter takes.
    """
    return adapted_call(CallSignature.of(artifact, "cpu"), artifact, open_library(artifact, directory), on_stream=False)


def on_device(artifact: KernelArtifact, directory: Path, place: Place) -> Callable[..., Any]:
    """The call of a CUDA kernel.

    Args:
        artifact: the kernel.
        directory: where its files are.
        place: the device or the simulator.

    Raises:
        ExecutionError: as :func:`on_cpu`; or the device does not take the code.
    """
    from tilelang.execution.runtime import bound_library

    library, keep = bound_library(artifact, directory / FILE, place.device)
    return adapted_call(place.signature, artifact, library, place.stream is not None, place.surroundings, keep)


def adapted_call(
    signature: CallSignature,
    artifact: KernelArtifact,
    library: ctypes.CDLL,
    on_stream: bool,
    surroundings: Surroundings = PLAIN,
    keep: tuple[Any, ...] = (),
) -> Callable[..., Any]:
    """The adapter for one kernel.

    Args:
        signature: how it is called.
        artifact: its artifact.
        library: the library with its entry.
        on_stream: pass torch's current stream.
        surroundings: how outputs are made, and what else may be tried.
        keep: objects that must live as long as the call.

    Returns:
        The function that a user's call runs.
    """
    module = adapter()
    plan = _plan(module, signature, artifact)
    describe = failure_text(library)
    plan["entry"] = ctypes.cast(getattr(library, entry_name(artifact)), ctypes.c_void_p).value
    plan["failure"] = _Failure(artifact.name, describe, keep)
    plan["on_stream"] = on_stream
    plan["allocate"] = surroundings.allocate or plan["allocate"]
    # For the second attempt, with the arguments in plain form: it reports errors and does not try again.
    second = module.EntryAdapter(**plan, slow=give_up(signature))
    return module.EntryAdapter(**plan, slow=slow_path(signature, second, module.Refused, surroundings.elsewhere))


class _Failure:
    """Makes the error of a failed call; lives as long as the adapter, and with it what ``keep`` holds."""

    def __init__(self, name: str, describe: Callable[[int], str], keep: tuple[Any, ...]):
        self.name, self.describe, self.keep = name, describe, keep

    def __call__(self, code: int) -> KernelFailedError:
        return KernelFailedError(self.name, self.describe(code))


def _plan(module: Any, signature: CallSignature, artifact: KernelArtifact) -> dict[str, Any]:
    import torch

    targets = _targets(module, signature, artifact)
    slots = _Slots()
    params = signature.params
    scalar_slots = {i: slots.of(params[i].name) for i in signature.inputs if _scalar_kind(params[i]) in (_INTEGER, _UNSIGNED)}
    bindings, derived = _bindings(signature, slots)
    tensors = [i for i in signature.inputs if params[i].kind == "tensor"]
    if len(tensors) > _MOST_TENSORS:
        raise ExecutionError(f"{signature.kernel}: the cython backend passes at most {_MOST_TENSORS} tensors")
    plan: dict[str, Any] = {
        "device_type": _DEVICE_TYPES[signature.device],
        "inputs": [
            _input(params[i], targets[i], scalar_slots.get(i, -1), signature.alignment.get(params[i].name, 1))
            for i in signature.inputs
        ],
        "tensors": [_tensor(params[i], signature, slots) for i in tensors],
        "bindings": bindings,
        "derived": derived,
        "outputs": [
            (targets[i], [slots.size(dim) for dim in storage_shape(params[i])], torch_dtypes(params[i])[0])
            for i in signature.allocated
        ],
        "returned": [signature.allocated.index(i) for i in signature.returned],
        "dynamic": [(slots.of(name), targets[len(params) + k]) for k, name in enumerate(signature.dynamic)],
        "stream_target": targets[-1],
        "allocate": torch.empty,
        "device": torch.device(signature.device),
    }
    if len(slots.names) > _MOST_VARIABLES:
        raise ExecutionError(f"{signature.kernel}: more than {_MOST_VARIABLES} dynamic sizes; use execution_backend='ctypes'")
    plan["counts"] = (targets[-1] + 1, len(slots.names))
    return plan


class _Slots:
    """Numbers dynamic variables."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}

    def of(self, name: str) -> int:
        """The number of a variable."""
        return self.names.setdefault(name, len(self.names))

    def size(self, dim: Dim) -> tuple[int, int, tuple[tuple[int, int], ...]]:
        """A size as the adapter takes it: kind, value, postfix program."""
        if isinstance(dim, int):
            return _NUMBER, dim, ()
        if isinstance(dim, str):
            return _VARIABLE, self.of(dim), ()
        return _PROGRAM, 0, tuple(self._postfix(dim))

    def _postfix(self, dim: Dim) -> list[tuple[int, int]]:
        if not isinstance(dim, tuple):
            return [(_NUMBER, dim) if isinstance(dim, int) else (_VARIABLE, self.of(dim))]
        return [*self._postfix(dim[1]), *self._postfix(dim[2]), (_OPERATIONS[dim[0]], 0)]


def _targets(module: Any, signature: CallSignature, artifact: KernelArtifact) -> list[int]:
    """Place of each argument of the entry among those of its register file."""
    counts = {True: 0, False: 0}
    targets: list[int] = []
    for kind in entry_kinds(artifact):
        is_float = kind == "float"
        targets.append(counts[is_float])
        counts[is_float] += 1
    if counts[True] > module.MAX_FLOATS or counts[False] > module.MAX_INTEGERS:
        raise ExecutionError(
            f"{signature.kernel}: the cython backend passes at most {module.MAX_FLOATS} floating-point scalars and "
            f"{module.MAX_INTEGERS} other arguments", hint="use execution_backend='ctypes'",
        )  # fmt: skip
    return targets


def _scalar_kind(param: KernelParam) -> int:
    kind = canonical(param.dtype)
    if param.kind == "pointer":
        return _POINTER
    if param.kind == "tensor":
        return _TENSOR
    return _FLOAT if kind.is_float else _UNSIGNED if kind.kind == "uint" else _INTEGER


def _input(param: KernelParam, target: int, slot: int, alignment: int) -> tuple[int, int, int, int, int]:
    kind = _scalar_kind(param)
    low, high = integer_range(param.dtype) if kind in (_INTEGER, _UNSIGNED) else (0, alignment - 1)
    return kind, target, slot, low, high


def _tensor(param: KernelParam, signature: CallSignature, slots: _Slots) -> tuple[Any, ...]:
    shape = [slots.size(dim) for dim in storage_shape(param)]
    declared = storage_strides(param)
    strides = None if declared is None else [slots.size(dim) for dim in declared]
    alignment = max(signature.alignment.get(param.name, 1), canonical(param.dtype).bytes)
    return [DLPACK_TYPES[name] for name in storage_dtypes(param)], shape, strides, alignment


def _bindings(signature: CallSignature, slots: _Slots) -> tuple[list[tuple[int, int, int]], list[tuple[int, tuple[Any, ...]]]]:
    """The axes that are read: tensor, axis, slot; and the sizes that are computed from them: slot, size."""
    tensors = [signature.params[i].name for i in signature.inputs if signature.params[i].kind == "tensor"]
    read: list[tuple[int, int, int]] = []
    derived: list[tuple[int, tuple[Any, ...]]] = []
    for binding in signature.bindings():
        axis = f"{binding.tensor}:{binding.axis}" if binding.solved else binding.name
        read.append((tensors.index(binding.tensor), binding.axis, slots.of(axis)))
        if binding.solved:
            derived.append((slots.of(binding.name), slots.size(_over(binding.value, axis))))
    return read, derived


def _over(value: Dim, axis: str) -> Dim:
    """The value of a binding, with the name of a slot for its axis."""
    if isinstance(value, tuple):
        return (value[0], _over(value[1], axis), _over(value[2], axis))
    return axis if value == AXIS else value
