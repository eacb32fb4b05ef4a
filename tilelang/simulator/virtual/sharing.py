"""Tensors on the virtual device that are passed to other processes: there they are on that process's device, if it has one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions

from tilelang.simulator.virtual import active
from tilelang.simulator.virtual.placement import Placement


@contextlib.contextmanager
def shared_with_processes(placement: Placement) -> Iterator[None]:
    """While this lasts storages of the device are shared as those of the host are, by memory that both processes map."""

    def reduce(storage: torch.UntypedStorage) -> tuple[Any, ...]:
        index = placement.index_of_storage(storage)
        if index is None:
            return reductions.reduce_storage(storage)
        with placement.holding_nothing():
            return _on_device, (index, *reductions.reduce_storage(storage))

    reducers: dict[type, Any] = vars(ForkingPickler)["_extra_reducers"]
    before = reducers[torch.UntypedStorage]
    ForkingPickler.register(torch.UntypedStorage, reduce)
    try:
        yield
    finally:
        ForkingPickler.register(torch.UntypedStorage, before)


def _on_device(index: int, rebuild: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """The storage in the process that receives it."""
    storage, device = rebuild(*args), active.current()
    return storage if device is None else device.placement.put_storage(storage, index)
