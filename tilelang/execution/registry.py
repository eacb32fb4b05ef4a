"""The one table of execution backends, and which targets each of them runs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path

from tilelang.artifact import KernelArtifact
from tilelang.errors import UnknownTargetError, UnsupportedBackendError
from tilelang.execution.executor import Executor
from tilelang.records import Record


class Backend(Record):
    """One execution backend.

    Attributes:
        module: its module: ``on_cpu(artifact, directory)`` gives the call of a CPU kernel, ``on_device(artifact, directory,
            place)`` that of a CUDA kernel at a :class:`~tilelang.execution.device.Place`.
        targets: the target kinds whose kernels it runs.
    """

    module: str
    targets: tuple[str, ...]


BACKENDS: Mapping[str, Backend] = {
    "tvm_ffi": Backend("tilelang.execution.tvm_ffi", ("cpu", "c", "cuda")),
    "ctypes": Backend("tilelang.execution.ctypes", ("cpu", "c", "cuda")),
    "cython": Backend("tilelang.execution.cython", ("cpu", "c", "cuda")),
    "nvrtc": Backend("tilelang.execution.nvrtc", ("cuda",)),
    "torch": Backend("tilelang.execution.torch", ("cpu", "c", "cuda")),
    "interpreter": Backend("tilelang.jit.interpreted", ("interpret",)),
}
"""Backend name -> how it is found; the first one that runs a target is what ``"auto"`` means for it."""


def supported(target: str) -> list[str]:
    """Names of the backends that run kernels of a target kind (``"cpu"``, ``"c"``, ``"cuda"``)."""
    return [name for name, backend in BACKENDS.items() if target in backend.targets]


def resolve(backend: str | None, target: str) -> str:
    """The backend that ``backend`` (``None`` and ``"auto"`` included) names for a target kind.

    Raises:
        UnknownTargetError: no backend has that name.
        UnsupportedBackendError: it does not run kernels of that target; the message lists those that do.
    """
    names = supported(target)
    if backend in (None, "auto") and names:
        return names[0]
    if backend not in BACKENDS:
        raise UnknownTargetError(str(backend), ["auto", *names], "execution backend")
    if backend not in names:
        raise UnsupportedBackendError(str(backend), target, names)
    return backend


def load(artifact: KernelArtifact, directory: Path) -> Executor:
    """Loads an artifact whose files lie in ``directory`` with the backend that it was built for.

    Raises:
        ExecutionError: the artifact cannot be loaded here.
    """
    if artifact.backend not in BACKENDS:
        raise UnsupportedBackendError(artifact.backend, artifact.target, list(BACKENDS))
    from tilelang.execution.native import is_device_artifact

    module = importlib.import_module(BACKENDS[artifact.backend].module)
    if not is_device_artifact(artifact):
        return Executor(artifact, artifact.backend, module.on_cpu(artifact, Path(directory)))
    from tilelang.execution.device import device_call  # a CPU kernel is ready sooner without it

    return Executor(artifact, artifact.backend, device_call(artifact, Path(directory), module.on_device))
