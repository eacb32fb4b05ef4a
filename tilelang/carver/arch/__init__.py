"""Devices: :class:`CUDA` records, and :mod:`~tilelang.carver.arch.driver` for the current one."""

from __future__ import annotations

from typing import Any

from tilelang.carver.arch import driver
from tilelang.carver.arch.cuda import CUDA, TileDevice
from tilelang.errors import UnknownTargetError


def CDNA(target: Any = "hip") -> TileDevice:
    """AMD's devices, for which there is no target.

    Raises:
        UnknownTargetError: always.
    """
    raise UnknownTargetError(str(target), ["cuda"])


def auto_infer_current_arch() -> TileDevice:
    """The CUDA device at hand; without one that of the default CUDA target."""
    return CUDA("cuda")


__all__ = ["CDNA", "CUDA", "TileDevice", "auto_infer_current_arch", "driver"]
