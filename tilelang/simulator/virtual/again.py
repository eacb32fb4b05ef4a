"""Work that is done once for its results, and again on the same memory: that of graphs, and of streams whose kernels wait."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from tilelang.simulator.virtual.placement import tensors_of


def written_by(operator: Any, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
    """The arguments that an operation of torch writes to.

    Args:
        operator: the overload that is called.
        args, kwargs: all of its arguments.
    """
    declared = operator._schema.arguments
    named = {**dict(zip((each.name for each in declared), args)), **kwargs}
    return [named.get(each.name) for each in declared if each.alias_info is not None and each.alias_info.is_write]


class Contents:
    """What was in the memory of tensors before something wrote to it."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}

    def keep(self, values: Iterable[Any]) -> None:
        """Keeps the memory of the tensors among some values, where it is not kept yet."""
        for tensor in tensors_of(values):
            storage = tensor.untyped_storage()
            if storage._cdata not in self._kept:
                self._kept[storage._cdata] = (storage, storage.clone())

    def restore(self) -> None:
        """Puts it back, and forgets it."""
        for storage, content in self._kept.values():
            storage.copy_(content)
        self._kept.clear()


def write_into(first: Any, again: Any) -> None:
    """Puts the tensors of a repeated call where those of the first one are; autograd does not notice."""
    if isinstance(first, torch.Tensor):
        with torch._C.DisableTorchFunction():  # the device has no such copy, whose time would count
            if again is not first and again.data_ptr() != first.data_ptr():
                first.data.copy_(again.data)
    elif isinstance(first, (tuple, list)):
        for old, new in zip(first, again, strict=True):
            write_into(old, new)
