"""Latencies and throughputs of GPUs, each with the publication it is from. Sizes and clocks are the device models'."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilelang.simulator.virtual.models import DeviceModel

SOURCES = {
    "luo": "W. Luo et al., Benchmarking and Dissecting the Nvidia Hopper GPU Architecture, arXiv:2402.13499: of memories",
    "abdelkhalik": "H. Abdelkhalik et al., Demystifying the Nvidia Ampere Architecture, arXiv:2208.11174: of instructions",
    "sun": "W. Sun et al., Dissecting Tensor Cores via Microbenchmarks, arXiv:2206.02874: latency of mma",
    "guide": "CUDA C++ Programming Guide: schedulers, lanes of each kind of unit, banks of shared memory",
    "whitepaper": "NVIDIA A100 Tensor Core GPU Architecture: bytes a clock of the L2 cache",
}


@dataclass(frozen=True, slots=True)
class Figures:
    """Clocks, and work a clock of one multiprocessor.

    Attributes:
        schedulers: warp schedulers, each of which issues one instruction a clock (guide).
        arithmetic: from an instruction to one that needs its result (abdelkhalik: 4 for add and mad of 32 bits).
        special: the same for special functions; a scheduler starts one every 8 clocks (guide: 16 lanes a multiprocessor).
        shared: latency of a load from shared memory (luo).
        l2: latency of a load that finds its data in the L2 cache (luo).
        dram: latency of one that does not (luo).
        tensor: from an ``mma`` to one that needs its result (sun).
        barrier: from the last arrival at a barrier to the first instruction after it; no publication has it: two dependent
            instructions.
        l2_bytes: bytes a clock between the L2 cache and one multiprocessor (whitepaper: 5120 for the whole A100).
    """

    schedulers: int = 4
    arithmetic: int = 4
    special: int = 18
    special_interval: int = 8
    shared: int = 29
    l2: float = 262
    dram: float = 466
    tensor: int = 33
    barrier: int = 8
    l2_bytes: float = 48.0


_BY_CAPABILITY = {
    (8, 0): Figures(shared=29, l2=262, dram=466),
    (8, 6): Figures(shared=30, l2=273, dram=542),
    (8, 9): Figures(shared=30, l2=273, dram=542),
    (9, 0): Figures(shared=29, l2=263, dram=479),
}


def figures_of(device: DeviceModel) -> Figures:
    """The figures of a device's architecture; 8.6, which none of the publications measures, has those of 8.9."""
    return _BY_CAPABILITY[device.capability]


def with_traffic(figures: Figures, device: DeviceModel, share: float, multiprocessors: int) -> Figures:
    """The figures where some of the bytes come from memory, not from the L2 cache: the mean latency of a load, and what a
    multiprocessor gets in a clock while all of them draw on the memory.

    Args:
        figures: of the device.
        device: whose memory it is.
        share: of the bytes that are moved, those that come from memory or go there: 0 to 1.
        multiprocessors: that work at the same time.
    """
    of_memory = device.bandwidth / device.clock / multiprocessors / share if share else figures.l2_bytes
    return replace(figures, l2=figures.l2 + share * (figures.dram - figures.l2), l2_bytes=min(figures.l2_bytes, of_memory))
