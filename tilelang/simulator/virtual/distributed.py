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

    names = {"init_process_group": dist.init_process_group, "new_group": dist.new_group}
    changes: list[tuple[Any, str, Any]] = [
        (owner, name, _by_gloo(function)) for name, function in names.items() for owner in (dist, distributed_c10d)
    ]
    return [*changes, (dist, "is_nccl_available", lambda: True)]


def _by_gloo(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes a group of processes, with the one backend that there is."""

    def call(*args: Any, backend: Any = None, device_id: Any = None, pg_options: Any = None, **settings: Any) -> Any:
        if args and isinstance(args[0], str):  # the backend is ``init_process_group``'s first argument
            return function("gloo", *args[1:], **settings)
        return function(*args, backend="gloo", **settings)

    return call
