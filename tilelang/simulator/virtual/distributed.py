"""``torch.distributed`` on the virtual device: NCCL's operations are Gloo's, whose tensors are in the CPU's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.distributed as dist


def distributed() -> list[tuple[Any, str, Any]]:
    """(owner, name, value): what is another while the device is there."""
    if not dist.is_available():
        return []
    from torch.distributed import distributed_c10d

    # Gloo's threads hold the device's mode until they have dropped their last operation, and need Python's lock for that. Were a
    # DistributedDataParallel the last to hold a group, its destructor would wait for them with that lock.
    groups: list[Any] = []
    functions = {
        "init_process_group": _by_gloo(dist.init_process_group, lambda _: groups.append(dist.group.WORLD)),
        "new_group": _by_gloo(dist.new_group, groups.append),
    }
    changes: list[tuple[Any, str, Any]] = [
        (owner, name, function) for name, function in functions.items() for owner in (dist, distributed_c10d)
    ]
    return [*changes, (dist, "is_nccl_available", lambda: True)]


def _by_gloo(function: Callable[..., Any], keep: Callable[[Any], None]) -> Callable[..., Any]:
    """A function that makes a group of processes, with the one backend that there is, and what it returns given to ``keep``."""

    def call(*args: Any, backend: Any = None, device_id: Any = None, pg_options: Any = None, **settings: Any) -> Any:
        if args and isinstance(args[0], str):  # the backend is ``init_process_group``'s first argument
            made = function("gloo", *args[1:], **settings)
        else:
            made = function(*args, backend="gloo", **settings)
        keep(made)
        return made

    return call
