"""Operations of torch on a stream whose kernels wait: they come after those kernels, and the program goes on, as on a GPU."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from tilelang.simulator.virtual.again import Contents, write_into, written_by
from tilelang.simulator.virtual.events import Stream
from tilelang.simulator.virtual.graphs import GraphCapture
from tilelang.simulator.virtual.placement import tensors_of
from tilelang.simulator.virtual.resident import Residents


def in_order(residents: Residents, index: int) -> contextlib.AbstractContextManager[Any]:
    """Operations that are made meanwhile come after what the current stream of a device has to do.

    Args:
        residents: the kernels that wait.
        index: of the device.
    """
    stream = Stream.current(index).cuda_stream
    if not residents.hold_back(stream) or any(isinstance(mode, Queued) for mode in _get_current_dispatch_mode_stack()):
        return contextlib.nullcontext()
    if GraphCapture.current is None:
        return Queued(residents, index)
    residents.settle_stream(stream)
    return contextlib.nullcontext()


class Queued(TorchDispatchMode):
    """``with Queued(residents, index):`` puts operations behind the kernels that the current stream waits for.

    An operation is done at once, for the sizes of its results, and again when it is its turn; what it wrote to has its former
    content until then. Those whose results the host needs, or whose sizes depend on data, let the kernels end first, and so
    do those that fail with the data of now.
    """

    supports_higher_order_operators = True

    def __init__(self, residents: Residents, index: int):
        super().__init__()
        self._residents = residents
        self._index = index

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        stream = Stream.current(self._index).cuda_stream
        if _without_data(func, args, kwargs) or not self._residents.hold_back(stream):
            return func(*args, **kwargs)
        if _can_wait(func, args, kwargs):
            with contextlib.suppress(RuntimeError, IndexError):  # because of what the memory holds before its turn
                return self._queued(stream, func, args, kwargs)
        self._residents.settle_stream(stream)
        return func(*args, **kwargs)

    def _queued(self, stream: int, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Does an operation, and will do it again."""
        before, generator = Contents(), kwargs.get("generator") or torch.default_generator
        before.keep(written_by(func, args, kwargs))
        state = generator.get_state() if torch.Tag.nondeterministic_seeded in func.tags else None
        try:
            result = func(*args, **kwargs)
        finally:
            before.restore()
        with torch._C.DisableTorchFunction():  # aliases, whose versions autograd does not look at
            args, kwargs, first = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.data, (args, kwargs, result))

        def again() -> None:
            with torch._C.DisableTorchFunction(), torch.inference_mode(False), torch.no_grad(), _state_of(generator, state):
                write_into(first, func(*args, **kwargs))

        self._residents.queue(stream, again)
        return result


def _without_data(func: Any, args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether an operator neither reads nor writes memory that a kernel might: it makes a tensor or a view."""
    if not isinstance(func, torch._ops.OpOverload):
        return False
    if func.overloadpacket.__name__ in _MAKERS or next(tensors_of((*args, *kwargs.values())), None) is None:
        return True
    aliases = [each.alias_info for each in func._schema.returns]
    return bool(aliases) and all(alias is not None and not alias.is_write for alias in aliases)


def _can_wait(func: Any, args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether an operator may be done later: one of torch's own, on plain tensors, whose results are tensors of known sizes."""
    if not isinstance(func, torch._ops.OpOverload) or func.namespace != "aten" or func.overloadpacket.__name__ in _RESIZES:
        return False
    tensors = list(tensors_of((*args, *kwargs.values())))
    selects = func is not torch.ops.aten.index.Tensor or any(tensor.dtype in _MASKS for tensor in tensors[1:])
    if selects and not _HOST_WAITS.isdisjoint(func.tags) or any("Tensor" not in str(each.type) for each in func._schema.returns):
        return False
    return all(tensor.layout is torch.strided and not tensor.is_nested for tensor in tensors)


@contextlib.contextmanager
def _state_of(generator: torch.Generator, state: torch.Tensor | None) -> Any:
    """A random generator gives what it would have given in an earlier state, if there is one."""
    if state is None:
        yield
        return
    now = generator.get_state()
    generator.set_state(state)
    try:
        yield
    finally:
        generator.set_state(now)


_MAKERS = {"empty_like", "new_empty", "new_empty_strided", "set_"}
_RESIZES = {"resize_", "resize_as_"}
_MASKS = (torch.bool, torch.uint8)
_HOST_WAITS = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
