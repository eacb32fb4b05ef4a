"""``torch.save`` and ``torch.load`` of tensors on the virtual device."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import serialization

from tilelang.simulator.virtual.devices import index_of
from tilelang.simulator.virtual.events import Stream
from tilelang.simulator.virtual.placement import Placement

_PRIORITY = 0  # before torch's own entries


@contextlib.contextmanager
def known_location(placement: Placement) -> Iterator[None]:
    """While this lasts "cuda" is a place that storages are saved from and loaded to."""

    def tag(storage: Any) -> str | None:
        index = placement.index_of_storage(storage)
        if index is None:
            return None
        Stream.current(index).synchronize()  # it is written next
        return f"cuda:{index}"

    def restore(storage: Any, location: str) -> Any:
        if location.split(":")[0] != "cuda":
            return None
        index = index_of(location)
        return None if index is None else placement.put_storage(storage, index)

    entry = (_PRIORITY, tag, restore)
    registry: list[Any] = serialization._package_registry
    registry.insert(0, entry)
    try:
        yield
    finally:
        registry.remove(entry)
