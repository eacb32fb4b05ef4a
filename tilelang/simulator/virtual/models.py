"""Device properties of GPUs, one record for each model."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from tilelang.errors import SimulatorArgumentError

KIB, GIB = 2**10, 2**30


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """Public figures of a GPU (its data sheet, and the compute capability table of the CUDA programming guide).

    Attributes:
        name: as ``torch.cuda.get_device_name`` gives it.
        capability: compute capability.
        multiprocessors: streaming multiprocessors (SMs).
        shared_bytes: shared memory of one SM.
        shared_bytes_per_block: the most that a block may opt in to.
        l2_bytes: size of the L2 cache.
        memory_bytes: size of the device's memory.
        bandwidth: of that memory, in bytes a second.
        clock: of the SMs under load (boost), in hertz.
        tensor_fma: multiply-adds of a SM's tensor cores in a clock, float16 with float32 sums, no sparsity.
        float_fma: multiply-adds of a SM's float32 units in a clock.
        blocks_per_multiprocessor: the most that may be resident.
    """

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    shared_bytes: int
    shared_bytes_per_block: int
    l2_bytes: int
    memory_bytes: int
    bandwidth: float
    clock: float
    tensor_fma: int
    float_fma: int
    blocks_per_multiprocessor: int = 32
    warp_size: int = 32
    threads_per_multiprocessor: int = 2048
    registers_per_multiprocessor: int = 65536

    @property
    def arch(self) -> str:
        """The architecture that kernels are compiled for."""
        major, minor = self.capability
        return f"sm_{major}{minor}"


MODELS = {
    "a100": DeviceModel(
        "NVIDIA A100-SXM4-80GB", (8, 0), 108, 164 * KIB, 163 * KIB, 40 * 2**20, 80 * GIB, 2.039e12, 1.410e9, 1024, 64,
    ),
    "rtx3090": DeviceModel(
        "NVIDIA GeForce RTX 3090", (8, 6), 82, 100 * KIB, 99 * KIB, 6 * 2**20, 24 * GIB, 0.936e12, 1.695e9, 256, 128, 16,
        threads_per_multiprocessor=1536,
    ),
    "l40s": DeviceModel(
        "NVIDIA L40S", (8, 9), 142, 100 * KIB, 99 * KIB, 96 * 2**20, 48 * GIB, 0.864e12, 2.520e9, 512, 128, 24,
        threads_per_multiprocessor=1536,
    ),
    "rtx4090": DeviceModel(
        "NVIDIA GeForce RTX 4090", (8, 9), 128, 100 * KIB, 99 * KIB, 72 * 2**20, 24 * GIB, 1.008e12, 2.520e9, 256, 128, 24,
        threads_per_multiprocessor=1536,
    ),
    "h100": DeviceModel(
        "NVIDIA H100 80GB HBM3", (9, 0), 132, 228 * KIB, 227 * KIB, 50 * 2**20, 80 * GIB, 3.35e12, 1.980e9, 2048, 128,
    ),
    "h200": DeviceModel(
        "NVIDIA H200", (9, 0), 132, 228 * KIB, 227 * KIB, 50 * 2**20, 141 * GIB, 4.8e12, 1.980e9, 2048, 128,
    ),
}  # fmt: skip
"""Models by the name that ``--device`` takes."""

DEFAULT = "h100"


def model_of_arch(arch: str) -> tuple[str, DeviceModel]:
    """The first model of an architecture (``"sm_90a"``), with its name in :data:`MODELS`.

    Raises:
        SimulatorArgumentError: there is none.
    """
    plain = arch.rstrip("abcdefghijklmnopqrstuvwxyz")
    for name, model in MODELS.items():
        if model.arch == plain:
            return name, model
    raise SimulatorArgumentError(f"there is no device model of {arch}", f"known are {', '.join(MODELS)}")


def device_model(name: str) -> DeviceModel:
    """The model of a name, in any case.

    Raises:
        SimulatorArgumentError: there is none; the message offers the nearest.
    """
    found = MODELS.get(name.lower())
    if found is None:
        near = difflib.get_close_matches(name.lower(), MODELS, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(MODELS)}"
        raise SimulatorArgumentError(f"there is no device model {name!r}", hint)
    return found
