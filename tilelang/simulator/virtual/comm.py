"""Copies between devices for ``torch.nn.parallel``, which torch has only where it was built for CUDA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def replacements() -> list[tuple[Any, str, Any]]:
    """(owner, name, value): functions that are there with the devices."""
    return [(torch._C, function.__name__, function) for function in (_scatter, _gather, _broadcast, _broadcast_coalesced)]


def _scatter(tensor: torch.Tensor, devices: Sequence[int], sizes: Any, dim: int, streams: Any) -> list[torch.Tensor]:
    parts = tensor.chunk(len(devices), dim) if sizes is None else tensor.split(sizes, dim)
    return [part.to(device) for part, device in zip(parts, devices)]


def _gather(tensors: Sequence[torch.Tensor], dim: int, destination: int | None) -> torch.Tensor:
    place = "cuda" if destination is None else "cpu" if destination == -1 else destination
    return torch.cat([tensor.to(place) for tensor in tensors], dim)


def _broadcast(tensor: torch.Tensor, devices: Sequence[int]) -> list[torch.Tensor]:
    return [tensor.to(device) for device in devices]


def _broadcast_coalesced(tensors: Sequence[torch.Tensor], devices: Sequence[int], size: int) -> list[list[torch.Tensor]]:
    return [[tensor.to(device) for tensor in tensors] for device in devices]
