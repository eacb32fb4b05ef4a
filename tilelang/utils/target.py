"""Which target a name means, and what programs ask about targets and devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def determine_target(target: Any = "auto", return_object: bool = False) -> Any:
    """The target that ``target`` means here: CUDA where there is a device, else the CPU, for ``"auto"``.

    Args:
        return_object: give a ``tvm.target.Target`` instead of its kind and architecture as a dict.

    Raises:
        UnknownTargetError: no such target.
    """
    from tilelang.target.info import parse_target

    info = parse_target(target)
    found = {"kind": "cuda", "arch": info.arch} if info.kind == "cuda" else info.kind
    if not return_object:
        return found
    from tilelang.ir import nodes as ir

    return ir.Target("llvm" if info.kind == "cpu" else found)


def check_cuda_availability() -> bool:
    """Whether kernels of the cuda target can run here, on a GPU or the simulator."""
    from tilelang.target.info import cuda_is_available

    return cuda_is_available()


def check_hip_availability() -> bool:
    """False: there are no kernels for AMD's devices."""
    return False


def check_metal_availability() -> bool:
    """False: there are no kernels for Apple's devices."""
    return False


def check_metal4_availability() -> bool:
    """False: there are no kernels for Apple's devices."""
    return False


def check_ascend_availability() -> bool:
    """False: there are no kernels for NPUs."""
    return False


def _compute_capability(target: Any) -> int:
    """Of a target as ``sm_90a`` -> 90; 0 where it is none of CUDA's."""
    from tilelang.errors import UnknownTargetError
    from tilelang.target.info import parse_target

    try:
        info = parse_target(target)
    except UnknownTargetError:
        return 0
    return info.sm if info.kind == "cuda" else 0


def _is_of(low: int, high: int) -> Callable[..., bool]:
    def question(target: Any, *_: Any, **__: Any) -> bool:
        return low <= _compute_capability(target) <= high

    question.__doc__ = f"Whether a target has a compute capability of {low / 10} to {high / 10}."
    return question


_NEWEST = 999

target_is_cuda = _is_of(1, _NEWEST)
target_is_volta = _is_of(70, 74)
target_is_turing = _is_of(75, 79)
target_is_ampere = _is_of(80, 89)
target_is_hopper = _is_of(90, 99)
target_is_sm120 = _is_of(120, 129)
target_has_async_copy = _is_of(80, _NEWEST)
target_has_ldmatrix = _is_of(75, _NEWEST)
target_has_stmatrix = target_has_bulk_copy = _is_of(90, _NEWEST)


def target_get_warp_size(target: Any) -> int:
    """How many threads of a target run in step."""
    return 32 if target_is_cuda(target) else 1


def _is_never(target: Any) -> bool:
    """False: the question is about devices that no kernel is compiled for."""
    return False


target_is_hip = target_is_rocm = target_is_cdna = target_is_rdna = target_is_gfx950 = _is_never
target_is_metal = target_is_ascend = target_is_webgpu = _is_never
