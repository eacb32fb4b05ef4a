"""CUDA devices as a table of what decides tile sizes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tilelang.errors import UnknownTargetError
from tilelang.target.info import parse_target


@dataclass(frozen=True)
class TileDevice:
    """A device, as far as tile sizes depend on it.

    Attributes:
        name: the product's name.
        arch: ``"sm_80"`` …
        sm_version: the same as a number.
        compute_capability: the same as digits.
        compute_max_core: multiprocessors.
        smem_cap: bytes of shared memory that one block can have.
        reg_cap: 32-bit registers of a multiprocessor.
        l2_cache_size_bytes: of the L2 cache.
        bandwidth: of device memory and of the L2 cache, in GB/s.
        peak_tflops: dense float16 products with float32 sums.
        warp_size, sm_partition: threads of a warp, schedulers of a multiprocessor.
        transaction_size: bytes that one shared and one global access should cover.
    """

    name: str
    arch: str
    sm_version: int
    compute_max_core: int
    smem_cap: int
    l2_cache_size_bytes: int
    bandwidth: tuple[int, int]
    peak_tflops: float
    platform: str = "CUDA"
    reg_cap: int = 65536
    warp_size: int = 32
    sm_partition: int = 4
    transaction_size: tuple[int, int] = (32, 128)

    @property
    def compute_capability(self) -> str:
        """``"80"`` …"""
        return str(self.sm_version)

    @property
    def max_smem_usage(self) -> int:
        """Bytes of shared memory that one block can have."""
        return self.smem_cap

    @property
    def target(self) -> dict[str, str]:
        """The compilation target."""
        return {"kind": "cuda", "arch": self.arch}


_KIB, _MIB = 1024, 1024 * 1024

_DEVICES = {
    # sm: name, multiprocessors, shared KiB of a block, L2 MiB, memory GB/s, L2 GB/s, TFLOPS; from the vendor's data sheets
    75: ("T4", 40, 64, 4, 320, 1200, 65),
    80: ("A100", 108, 163, 40, 1555, 4800, 312),
    86: ("RTX 3090", 82, 99, 6, 936, 2400, 71),
    87: ("Jetson Orin", 16, 163, 4, 204, 800, 42),
    89: ("RTX 4090", 128, 99, 72, 1008, 5000, 165),
    90: ("H100", 132, 227, 50, 3350, 7000, 989),
    100: ("B200", 148, 227, 126, 8000, 12000, 2250),
    120: ("RTX 5090", 170, 99, 96, 1792, 7000, 209),
}


def CUDA(target: Any = "cuda") -> TileDevice:
    """The device of a CUDA target: of the target's architecture, with the figures of the GPU at hand where there is one.

    Args:
        target: as for ``tilelang.jit``.

    Raises:
        UnknownTargetError: no such architecture, or no CUDA target.
    """
    info = parse_target(target)
    if info.kind != "cuda":
        raise UnknownTargetError(str(target), ["cuda"], what="CUDA target")
    version = check_sm_version(info.arch)
    # An architecture without a row (sm_103, for instance) has the figures of the one before it.
    known = max((sm for sm in _DEVICES if sm <= version), default=min(_DEVICES))
    name, cores, shared, l2, memory, cache, tflops = _DEVICES[known]
    return TileDevice(
        name, info.arch, version, _cores_at_hand(version) or cores, shared * _KIB, l2 * _MIB, (memory, cache), float(tflops)
    )


def peak_tflops(compute_capability: str) -> float | None:
    """Dense float16 products with float32 sums of the device of ``"80"`` …; None where there is none in the table."""
    known = _DEVICES.get(check_sm_version(compute_capability))
    return float(known[-1]) if known else None


def check_sm_version(arch: str) -> int:
    """90 of ``"sm_90a"``; -1 of what is no CUDA architecture."""
    found = re.fullmatch(r"(?:sm_)?(\d+)[a-z]?", arch)
    return int(found.group(1)) if found else -1


def _cores_at_hand(version: int) -> int | None:
    """Multiprocessors of the GPU at hand, if it is of this architecture."""
    import torch

    if not torch.cuda.is_available():
        return None
    found = torch.cuda.get_device_properties(torch.cuda.current_device())
    return found.multi_processor_count if found.major * 10 + found.minor == version else None
