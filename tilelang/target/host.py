"""The host's processor, as LLVM names it; read from the operating system because asking LLVM would load the compiler."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from functools import lru_cache

from tilelang.records import Record

_X86_LEVELS = (
    # LLVM processor name, the kernel's flags that it needs
    ("x86-64-v4", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx2", "fma"}),
    ("x86-64-v3", {"avx2", "fma", "bmi1", "bmi2", "f16c"}),
    ("x86-64-v2", {"sse4_2", "popcnt", "ssse3"}),
    ("x86-64", set()),
)

_X86_FEATURES = {
    # the kernel's flag -> LLVM's feature
    "sse4_2": "sse4.2", "popcnt": "popcnt", "avx": "avx", "avx2": "avx2", "fma": "fma", "f16c": "f16c", "bmi1": "bmi",
    "bmi2": "bmi2", "avx512f": "avx512f", "avx512bw": "avx512bw", "avx512cd": "avx512cd", "avx512dq": "avx512dq",
    "avx512vl": "avx512vl", "avx512_bf16": "avx512bf16", "avx512_vnni": "avx512vnni", "avx512_fp16": "avx512fp16",
    "avx_vnni": "avxvnni", "amx_tile": "amx-tile", "amx_bf16": "amx-bf16", "amx_int8": "amx-int8",
}  # fmt: skip

_TILE_FLAGS = frozenset({"amx_tile", "amx_bf16", "amx_int8"})
"""Flags of instructions that a process may use once the system has granted it the tiles' registers."""

_ASK, _TILE_DATA = 0x1023, 18
"""``ARCH_REQ_XCOMP_PERM`` and the state component of the tiles' content, as ``arch_prctl`` names them."""

_ARCH_PRCTL = 158

SLOW_BF16_DOT = "slow-dpbf16ps"
"""Feature of a target, named as LLVM names its own of this kind: vdpbf16ps sums products slower than float32 multiply-adds do."""

_SLOW = {
    # vendor -> a flag, and the feature that says that its instructions are slow there
    # vdpbf16ps starts every second cycle, multiply-adds of float32 twice in each: 87 beside 191 Gop/s (Emerald Rapids).
    "GenuineIntel": {"avx512_bf16": SLOW_BF16_DOT},
}

_ARM_FEATURES = {
    "asimd": "neon", "asimdhp": "fullfp16", "asimddp": "dotprod", "bf16": "bf16", "i8mm": "i8mm", "sve": "sve", "sve2": "sve2",
    "atomics": "lse",
}  # fmt: skip


class HostCpu(Record):
    """LLVM's processor name, feature names (sorted) and target triple of this machine."""

    arch: str
    features: tuple[str, ...]
    triple: str


@lru_cache(maxsize=1)
def host_cpu() -> HostCpu:
    """This machine's processor."""
    machine = platform.machine().lower()
    system = {"darwin": "apple-darwin", "windows": "pc-windows-msvc"}.get(platform.system().lower(), "unknown-linux-gnu")
    vendor, flags = _kernel_report()
    if flags & _TILE_FLAGS and not grants_tiles():
        flags -= _TILE_FLAGS
    if machine in ("x86_64", "amd64"):
        arch = next(name for name, needed in _X86_LEVELS if needed <= flags)
        features = _translate(_X86_FEATURES, flags) + _translate(_SLOW.get(vendor, {}), flags)
        return HostCpu(arch, tuple(sorted(features)), f"x86_64-{system}")
    if machine in ("aarch64", "arm64"):
        features = _translate(_ARM_FEATURES, flags) or ("neon",)
        return HostCpu("apple-m1" if system == "apple-darwin" else "generic", features, f"aarch64-{system}")
    return HostCpu("generic", (), f"{machine}-{system}")


def grants_tiles() -> bool:
    """Asks the system for the registers of AMX, for this process and those that it forks; whether it grants them.

    It refuses where a thread has too small a stack for signals.
    """
    import ctypes

    return ctypes.CDLL(None).syscall(_ARCH_PRCTL, _ASK, _TILE_DATA) == 0


def _translate(table: dict[str, str], flags: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(table[flag] for flag in flags if flag in table))


def _kernel_report() -> tuple[str, frozenset[str]]:
    """The first processor's vendor and flags as the kernel reports them; empty where it does not."""
    found = {"vendor_id": "", "flags": "", "features": ""}
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name.strip().lower() in found:
                    found[name.strip().lower()] = value.strip()
                elif not line.strip():
                    break
    except OSError:
        pass
    return found["vendor_id"], frozenset((found["flags"] or found["features"]).split())
