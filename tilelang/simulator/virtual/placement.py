"""Which tensors count as being on a virtual device.

Their memory is the CPU's. A tensor is on a device if there is an entry for its storage, so a view is where its base is. An
entry holds a weak reference, which keeps the address of a freed storage from being reused for another one.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.parameter import is_lazy

_LOOKED_AT = 256  # storages for each new one


class Placement:
    """The storages on virtual devices, and the index of each one's device."""

    def __init__(self) -> None:
        self._storages: dict[int, tuple[StorageWeakRef, int | None]] = {}
        self._until_pruning = 1
        self._thread = threading.local()
        self._peaks: Counter[int] = Counter()

    def bytes_now(self, index: int) -> int:
        """Bytes of a device's storages that are still referenced."""
        self._prune()
        now: Counter[int] = Counter()
        for ref, place in self._storages.values():
            storage = _alive(ref)
            if place is not None:
                now[place] += 0 if storage is None else storage.nbytes()
        self._peaks |= now
        return now[index]

    def peak(self, index: int) -> int:
        """The most bytes that a device held at once, counted when storages arrive (of more than some hundred storages at every
        so many arrivals)."""
        self.bytes_now(index)
        return self._peaks[index]

    def reset_peak(self, index: int) -> None:
        """The peak is what is there now."""
        self._peaks[index] = self.bytes_now(index)

    def put(self, value: Any, index: int | None = 0, but: Iterable[torch.Tensor] = ()) -> Any:
        """Marks the tensors of ``value`` (a tensor, or a tuple or list of them) as a device's, and returns it.

        Args:
            value: what an operation gave.
            index: of the device, or None for the host; tensors of another one stay there.
            but: tensors of the host that it was given; a result in their memory is theirs.
        """
        kept = {storage._cdata for tensor in but for storage in _storages(tensor)}
        for tensor in tensors_of([value]):
            for storage in _storages(tensor):
                if storage._cdata not in kept:
                    self.put_storage(storage, index)
        return value

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is on a device."""
        return self.index(tensor) is not None

    def index(self, tensor: torch.Tensor) -> int | None:
        """The index of a tensor's device; None for one of the host."""
        storage = next(iter(_storages(tensor)), None)
        return None if storage is None else self.index_of_storage(storage, self._unmarked)

    def index_of_storage(self, storage: Any, unmarked: int | None = None) -> int | None:
        """The index of the device whose memory a storage, typed or not, is; None for the host's.

        Args:
            storage: of a tensor.
            unmarked: where it is if nothing says so.
        """
        untyped = getattr(storage, "_untyped_storage", storage)
        _, index = self._storages.get(untyped._cdata, (None, unmarked))
        return None if getattr(self._thread, "nothing", False) else index

    @property
    def _unmarked(self) -> int | None:
        """Where the tensors are that nothing has marked."""
        return getattr(self._thread, "everything", None)

    def keep_on_host(self, value: Any) -> Any:
        """Returns ``value``, whose new tensors are the host's, also where every other one is a device's."""
        return value if self._unmarked is None else self.put(value, None)

    def put_storage(self, storage: Any, index: int | None = 0) -> Any:
        """Marks a storage as a device's, or with None as the host's, and returns it."""
        untyped = getattr(storage, "_untyped_storage", storage)
        if untyped._cdata not in self._storages:
            self._storages[untyped._cdata] = (StorageWeakRef(untyped), index)
            self._until_pruning -= 1
            if self._until_pruning <= 0:
                self.bytes_now(index or 0)
        return storage

    def reached(self, addresses: torch.Tensor) -> list[torch.Tensor]:
        """The storages, as bytes, in which some of the numbers of ``addresses`` (int64) are addresses."""
        alive = (_alive(ref) for ref, place in self._storages.values() if place is not None)
        storages = sorted((each for each in alive if each is not None and each.nbytes()), key=lambda each: each.data_ptr())
        if not storages:
            return []
        begins = torch.tensor([storage.data_ptr() for storage in storages])
        ends = begins + torch.tensor([storage.nbytes() for storage in storages])
        place = (torch.bucketize(addresses, begins, right=True) - 1).clamp(min=0)
        inside = (addresses >= begins[place]) & (addresses < ends[place])
        return [torch.empty(0, dtype=torch.uint8).set_(storages[index]) for index in place[inside].unique().tolist()]

    @contextlib.contextmanager
    def holding_everything(self, index: int) -> Iterator[None]:
        """While this lasts every other tensor is a device's in this thread: gradients, which torch's engine makes unseen."""
        with self._counting("everything", index):
            yield

    @contextlib.contextmanager
    def holding_nothing(self) -> Iterator[None]:
        """While this lasts no storage counts as the device's in this thread: torch shares those of the host with processes."""
        with self._counting("nothing", True):
            yield

    @contextlib.contextmanager
    def _counting(self, what: str, value: Any) -> Iterator[None]:
        outer = getattr(self._thread, what, None)
        setattr(self._thread, what, value)
        try:
            yield
        finally:
            setattr(self._thread, what, outer)

    def _prune(self) -> None:
        self._storages = {key: entry for key, entry in self._storages.items() if not entry[0].expired()}
        self._until_pruning = 1 + len(self._storages) // _LOOKED_AT


def _alive(ref: StorageWeakRef) -> torch.UntypedStorage | None:
    """The storage of a reference, or None where it was freed."""
    return torch.UntypedStorage._new_with_weak_ptr(ref.cdata)


def tensors_of(values: Any) -> Iterator[torch.Tensor]:
    """The tensors among some values, and in the tuples and lists among them."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from tensors_of(value)


def _storages(tensor: torch.Tensor) -> list[Any]:
    """A tensor's storage; those of its parts, where it consists of others: nested and sparse tensors."""
    functorch: Any = vars(torch._C)["_functorch"]
    while functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is not None:
        parts: Any = [getattr(tensor, name) for name in flatten()[0]]
    elif is_lazy(tensor):
        with torch._C.DisableTorchFunctionSubclass():  # it refuses most questions
            return [tensor.untyped_storage()]
    elif tensor.layout is torch.strided:
        return [tensor.untyped_storage()]
    else:
        parts = [read(tensor) for read in _PARTS.get(tensor.layout, ())]
    return [storage for part in parts for storage in _storages(part)]


_ROWS = (torch.Tensor.values, torch.Tensor.crow_indices, torch.Tensor.col_indices)
_COLUMNS = (torch.Tensor.values, torch.Tensor.ccol_indices, torch.Tensor.row_indices)
_PARTS: dict[Any, tuple[Callable[[torch.Tensor], torch.Tensor], ...]] = {
    torch.sparse_coo: (torch.Tensor._values, torch.Tensor._indices),
    torch.sparse_csr: _ROWS,
    torch.sparse_bsr: _ROWS,
    torch.sparse_csc: _COLUMNS,
    torch.sparse_bsc: _COLUMNS,
}
"""What a sparse tensor of each layout consists of."""
