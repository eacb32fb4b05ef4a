"""Functions of the program that something else calls: torch's engine, an operation that saves its operands, a thread.

Torch calls them with the mode of the virtual device switched off, and a new thread starts without it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.autograd.graph

from tilelang.simulator.session import current, entered
from tilelang.simulator.virtual.mode import VirtualDeviceMode
from tilelang.simulator.virtual.queued import in_order
from tilelang.simulator.virtual.replaced import replaced


@contextlib.contextmanager
def callbacks_under(mode: VirtualDeviceMode) -> Iterator[None]:
    """While this lasts such functions see the device."""
    with _backward_under(mode), _saving_under(mode), _threads_under(mode):
        yield


def _backward_under(mode: VirtualDeviceMode) -> Any:
    """Backward functions of the program run inside of torch's engine."""
    engine: Callable[..., Any] = torch.autograd.graph._engine_run_backward

    def run(roots: Any, *args: Any, **kwargs: Any) -> Any:
        index = next((place for place in map(mode.placement.index, roots) if place is not None), None)
        if index is None:
            return engine(roots, *args, **kwargs)
        with mode, mode.placement.holding_everything(index), in_order(mode.residents, index):
            found = engine(roots, *args, **kwargs)
        return mode.placement.put(found, index)

    return replaced(torch.autograd, "_engine_run_backward", run)


def _saving_under(mode: VirtualDeviceMode) -> Any:
    """Hooks for tensors that an operation saves (those of checkpoints among them) are called by the operation."""
    hooks: Any = torch.autograd.graph.saved_tensors_hooks
    initialise: Callable[..., None] = hooks.__init__

    def seen(hook: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def call(value: Any) -> Any:
            with mode:
                return hook(value)

        return call

    def init(self: Any, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        initialise(self, seen(pack_hook), seen(unpack_hook))

    return replaced(hooks, "__init__", init)


def _threads_under(mode: VirtualDeviceMode) -> Any:
    """Modes of torch and the simulator's settings belong to a thread."""
    start: Callable[[threading.Thread], None] = vars(threading.Thread)["_bootstrap_inner"]  # ``run`` may be the program's own
    settings = current()

    def run(thread: threading.Thread) -> None:
        with mode, entered(settings):
            start(thread)

    return replaced(threading.Thread, "_bootstrap_inner", run)
