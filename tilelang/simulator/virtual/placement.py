"""Which tensors count as being on the virtual device.

Their memory is the CPU's. A tensor is on the device if there is an entry for its storage, so a view is where its base is. An
entry holds a weak reference, which keeps the address of a freed storage from being reused for another one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

_LOOKED_AT = 256  # storages for each new one


class Placement:
    """The storages on the virtual device.

    Attributes:
        peak: the most bytes that were there at once, counted when storages arrive (of more than some hundred storages at every
            so many arrivals).
    """

    def __init__(self) -> None:
        self._storages: dict[int, StorageWeakRef] = {}
        self._until_pruning = 1
        self._everything = False
        self.peak = 0

    def bytes_now(self) -> int:
        """Bytes of the storages that are still referenced."""
        self._prune()
        alive = (_alive(ref) for ref in self._storages.values())
        now = sum(storage.nbytes() for storage in alive if storage is not None)
        self.peak = max(self.peak, now)
        return now

    def reset_peak(self) -> None:
        """The peak is what is there now."""
        self.peak = 0
        self.bytes_now()

    def put(self, value: Any) -> Any:
        """Marks the tensors of ``value`` (a tensor, or a tuple or list of them) as the device's, and returns it."""
        if isinstance(value, torch.Tensor):
            self._add(value)
        elif isinstance(value, (tuple, list)):
            for item in value:
                self.put(item)
        return value

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is on the device."""
        storage = _storage(tensor)
        return storage is not None and (self._everything or self.holds_storage(storage))

    def holds_storage(self, storage: Any) -> bool:
        """Whether the memory of a storage, typed or not, is the device's."""
        return getattr(storage, "_untyped_storage", storage)._cdata in self._storages

    def put_storage(self, storage: Any) -> Any:
        """Marks a storage as the device's, and returns it."""
        untyped = getattr(storage, "_untyped_storage", storage)
        if untyped._cdata not in self._storages:
            self._storages[untyped._cdata] = StorageWeakRef(untyped)
            self._until_pruning -= 1
            if self._until_pruning <= 0:
                self.bytes_now()
        return storage

    def reached(self, addresses: torch.Tensor) -> list[torch.Tensor]:
        """The storages, as bytes, in which some of the numbers of ``addresses`` (int64) are addresses."""
        alive = (_alive(ref) for ref in self._storages.values())
        storages = sorted((each for each in alive if each is not None and each.nbytes()), key=lambda each: each.data_ptr())
        if not storages:
            return []
        begins = torch.tensor([storage.data_ptr() for storage in storages])
        ends = begins + torch.tensor([storage.nbytes() for storage in storages])
        place = (torch.bucketize(addresses, begins, right=True) - 1).clamp(min=0)
        inside = (addresses >= begins[place]) & (addresses < ends[place])
        return [torch.empty(0, dtype=torch.uint8).set_(storages[index]) for index in place[inside].unique().tolist()]

    @contextlib.contextmanager
    def holding_everything(self) -> Iterator[None]:
        """While this lasts every tensor counts as the device's: gradients, which torch's engine makes unseen."""
        outer, self._everything = self._everything, True
        try:
            yield
        finally:
            self._everything = outer

    def _add(self, tensor: torch.Tensor) -> None:
        storage = _storage(tensor)
        if storage is not None:
            self.put_storage(storage)

    def _prune(self) -> None:
        self._storages = {key: ref for key, ref in self._storages.items() if not ref.expired()}
        self._until_pruning = 1 + len(self._storages) // _LOOKED_AT


def _alive(ref: StorageWeakRef) -> torch.UntypedStorage | None:
    """The storage of a reference, or None where it was freed."""
    return torch.UntypedStorage._new_with_weak_ptr(ref.cdata)


def _storage(tensor: torch.Tensor) -> Any:
    """A tensor's storage, of what ``torch.func`` has wrapped; None where the layout has none (sparse tensors)."""
    functorch: Any = vars(torch._C)["_functorch"]
    while functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    return tensor.untyped_storage() if tensor.layout is torch.strided else None
