"""What programs ask about a device of :func:`~tilelang.carver.arch.cuda.CUDA`."""

from __future__ import annotations

from tilelang.carver.arch.cuda import TileDevice
from tilelang.dtypes import canonical


def is_cuda_arch(arch: TileDevice) -> bool:
    """Whether it runs CUDA kernels."""
    return arch.platform == "CUDA"


def is_volta_arch(arch: TileDevice) -> bool:
    """Whether its compute capability is 7.0 to 7.5."""
    return 70 <= arch.sm_version < 80


def is_ampere_arch(arch: TileDevice) -> bool:
    """Whether its compute capability is 8.0 to 8.7."""
    return 80 <= arch.sm_version < 89


def is_ada_arch(arch: TileDevice) -> bool:
    """Whether its compute capability is 8.9."""
    return arch.sm_version == 89


def is_hopper_arch(arch: TileDevice) -> bool:
    """Whether its compute capability is 9.0."""
    return arch.sm_version == 90


def has_mma_support(arch: TileDevice) -> bool:
    """Whether products run on tensor cores: from compute capability 8.0 on."""
    return arch.sm_version >= 80


def is_never(arch: TileDevice) -> bool:
    """False: the question is about devices that no kernel is compiled for."""
    return False


is_cpu_arch = is_cdna_arch = is_rdna_arch = is_metal_arch = is_never


def is_tensorcore_supported_precision(in_dtype: str, accum_dtype: str, arch: TileDevice) -> bool:
    """Whether products of one type with sums in another run on the device's tensor cores.

    Args:
        in_dtype: of both operands.
        accum_dtype: of the sums.
        arch: the device.
    """
    given, total = canonical(in_dtype), str(canonical(accum_dtype))
    if given.is_float and given.bits == 8:
        return arch.sm_version >= 89 and total in ("float16", "float32")
    if given == "float16":
        return arch.sm_version >= 70 and total in ("float16", "float32")
    if given in ("bfloat16", "float32", "float64"):
        return has_mma_support(arch) and total == ("float64" if given == "float64" else "float32")
    return given in ("int8", "uint8", "int4", "uint4") and arch.sm_version >= 75 and total == "int32"
