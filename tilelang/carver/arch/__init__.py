"""Devices: :class:`CUDA` records, and :mod:`~tilelang.carver.arch.driver` for the current one."""

from __future__ import annotations

from typing import Any

from tilelang.attributes import attributes
from tilelang.carver.arch import driver
from tilelang.carver.arch.cuda import CUDA, TileDevice
from tilelang.carver.arch.questions import (
    has_mma_support,
    is_ada_arch,
    is_ampere_arch,
    is_cdna_arch,
    is_cpu_arch,
    is_cuda_arch,
    is_hopper_arch,
    is_metal_arch,
    is_rdna_arch,
    is_tensorcore_supported_precision,
    is_volta_arch,
)
from tilelang.errors import UnknownTargetError


def CDNA(target: Any = "hip") -> TileDevice:
    """AMD's devices, for which there is no target.

    Raises:
        UnknownTargetError: always.
    """
    raise UnknownTargetError(str(target), ["cuda"])


def get_arch(target: Any = "cuda") -> TileDevice:
    """The device of a target, as :func:`CUDA`."""
    return CUDA(target)


def auto_infer_current_arch() -> TileDevice:
    """The CUDA device at hand; without one that of the default CUDA target."""
    return CUDA("cuda")


__getattr__ = attributes(__name__, {})

__all__ = [
    "CDNA", "CUDA", "TileDevice", "auto_infer_current_arch", "driver", "get_arch", "has_mma_support", "is_ada_arch",
    "is_ampere_arch", "is_cdna_arch", "is_cpu_arch", "is_cuda_arch", "is_hopper_arch", "is_metal_arch", "is_rdna_arch",
    "is_tensorcore_supported_precision", "is_volta_arch",
]  # fmt: skip
