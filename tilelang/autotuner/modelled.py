"""Candidates ranked by the simulator's model of time: for a GPU that is not there."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from typing import Any

from tilelang import env
from tilelang.errors import TuningError
from tilelang.jit.kernel import JITKernel

MODEL = "model"
"""The clock's name."""


def check_target(kind: str) -> None:
    """Refuses a target of whose kernels the model says nothing.

    Raises:
        TuningError: it is not CUDA.
    """
    if kind != "cuda":
        raise TuningError(
            f"backend='model' ranks kernels for CUDA, and these are for target={kind!r}",
            hint='target={"kind": "cuda", "arch": "sm_90a"} in @tilelang.jit(...), or backend="event"',
        )


def milliseconds(kernel: JITKernel, inputs: Sequence[Any]) -> tuple[float, str]:
    """What the model says of a call, and which device that is for: the virtual one, else one of the kernel's architecture."""
    from tilelang.simulator.timing import modelled_seconds
    from tilelang.simulator.virtual import active
    from tilelang.simulator.virtual.models import device_model, model_of_arch

    target = json.loads(kernel.artifact.target)
    virtual = active.current()
    name = model_of_arch(target["arch"])[0] if virtual is None else virtual.launches.device
    seconds = modelled_seconds(lambda: kernel(*inputs), name)
    return seconds * 1e3, f"by the model of {device_model(name).name}, not measured"


def note() -> str:
    """The note that times are the model's, where there is no device; empty on a device."""
    return "on the simulator, not measured" if env.on_simulator() else ""


def surroundings(backend: str) -> contextlib.AbstractContextManager[Any]:
    """Where candidates run while they are checked."""
    if backend != MODEL:
        return contextlib.nullcontext()
    from tilelang.simulator.session import session

    return session(checks="none")
