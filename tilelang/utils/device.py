"""Queries of the current device."""

from __future__ import annotations

import os
from typing import Any

import torch

from tilelang.attributes import attributes

__getattr__ = attributes(__name__, {})

IS_CUDA = torch.cuda.is_available()
Event = torch.cuda.Event if IS_CUDA else None


def get_current_device() -> int | None:
    """Number of the current CUDA device; None without one."""
    return torch.cuda.current_device() if IS_CUDA else None


def device_synchronize(device: Any = None) -> None:
    """Waits for the work of a CUDA device (by default the current one); there is nothing to wait for on a CPU."""
    if IS_CUDA:
        torch.cuda.synchronize(device)


def get_available_cpu_count() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
