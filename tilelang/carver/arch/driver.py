"""Properties of the current device; without a GPU, those of a stand-in.

Persistent programs ask :func:`get_num_sms` how many blocks run at once. On the simulator that is the number of the default CUDA
target's device, on the CPU the number of cores.
"""

from __future__ import annotations

import os
from typing import Any

from tilelang import env


def get_cuda_device_properties(device_id: int = 0) -> Any:
    """torch's properties of a GPU; None without one."""
    import torch

    return torch.cuda.get_device_properties(device_id) if torch.cuda.is_available() else None


def get_num_sms(device_id: int = 0) -> int:
    """How many blocks run at once: the multiprocessors of the GPU, or what stands for them."""
    found = get_cuda_device_properties(device_id)
    if found is not None:
        return found.multi_processor_count
    return _model().compute_max_core if env.on_simulator() else os.cpu_count() or 1


def get_device_name(device_id: int = 0) -> str:
    """The device's name."""
    found = get_cuda_device_properties(device_id)
    return _model().name if found is None else found.name


def get_shared_memory_per_block(device_id: int = 0, format: str = "bytes") -> int:
    """Shared memory that a block has without asking for more, in ``"bytes"``, ``"kb"`` or ``"mb"``."""
    found = get_cuda_device_properties(device_id)
    return _in_units(49152 if found is None else found.shared_memory_per_block, format)


def get_max_dynamic_shared_size_bytes(device_id: int = 0, format: str = "bytes") -> int:
    """Shared memory that a block can have, in ``"bytes"``, ``"kb"`` or ``"mb"``."""
    found = get_cuda_device_properties(device_id)
    return _in_units(_model().smem_cap if found is None else found.shared_memory_per_block_optin, format)


def get_persisting_l2_cache_max_size(device_id: int = 0) -> int:
    """Bytes of the L2 cache that a program can keep for itself: three quarters of it."""
    found = get_cuda_device_properties(device_id)
    return (_model().l2_cache_size_bytes if found is None else found.L2_cache_size) * 3 // 4


def get_registers_per_block(device_id: int = 0) -> int:
    """32-bit registers that a block can have."""
    found = get_cuda_device_properties(device_id)
    return _model().reg_cap if found is None else found.regs_per_multiprocessor


def _in_units(size: int, format: str) -> int:
    return size // {"bytes": 1, "kb": 1024, "mb": 1024 * 1024}[format]


def _model() -> Any:
    from tilelang.carver.arch.cuda import CUDA

    return CUDA("cuda")
