"""How many blocks of a kernel fit on a multiprocessor at once, and what limits them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tilelang.simulator.virtual.models import DeviceModel

_REGISTER_UNIT = 256  # registers are given to a warp in units of this many
_RESERVED_SHARED = 1024  # bytes that the system takes for each block
_SHARED_UNIT = 128


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Of one kernel on one device.

    Attributes:
        blocks: resident blocks a multiprocessor.
        warps: resident warps a multiprocessor.
        most_warps: what the device can hold.
        limits: how many blocks each resource allows: ``blocks``, ``threads``, ``shared memory``, ``registers`` (if known).
    """

    blocks: int
    warps: int
    most_warps: int
    limits: Mapping[str, int]


def occupancy(device: DeviceModel, threads: int, shared_bytes: int, registers: int | None = None) -> Occupancy:
    """The occupancy of blocks of ``threads`` threads, by the rules of the CUDA programming guide's occupancy tables.

    Args:
        device: the model.
        threads: of a block.
        shared_bytes: of a block, static and dynamic.
        registers: of a thread; None where they are not known.

    Returns:
        Resident blocks and warps of a multiprocessor, and what limits them.
    """
    warps = math.ceil(threads / device.warp_size)
    shared = math.ceil((shared_bytes + _RESERVED_SHARED) / _SHARED_UNIT) * _SHARED_UNIT
    limits = {
        "blocks": device.blocks_per_multiprocessor,
        "threads": device.threads_per_multiprocessor // (warps * device.warp_size),
        "shared memory": device.shared_bytes // shared,
    }
    if registers:
        # Registers are allocated to whole warps, in units (CUDA programming guide, "Hardware Multithreading").
        of_warp = math.ceil(registers * device.warp_size / _REGISTER_UNIT) * _REGISTER_UNIT
        limits["registers"] = device.registers_per_multiprocessor // of_warp // warps
    blocks = min(limits.values())
    return Occupancy(blocks, blocks * warps, device.threads_per_multiprocessor // device.warp_size, limits)
