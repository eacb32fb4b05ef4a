"""Questions about the CUDA device that programs compile for."""

from __future__ import annotations

from typing import Any

from tilelang import env
from tilelang.attributes import attributes
from tilelang.target.info import parse_target

__getattr__ = attributes(__name__, {})


def get_target_compute_version(target: Any = None) -> str:
    """The compute capability of a CUDA target (by default the one that kernels are compiled for): ``"9.0"``."""
    major, minor = divmod(parse_target(target or "cuda").sm, 10)
    return f"{major}.{minor}"


def parse_compute_version(compute_version: str) -> tuple[int, int]:
    """``"9.0"`` as ``(9, 0)``."""
    major, _, minor = compute_version.partition(".")
    return int(major), int(minor or 0)


def get_target_arch(compute_version: str | tuple[int, int]) -> str:
    """What follows ``sm_`` in the name of an architecture: ``"80"`` for ``"8.0"``, ``"90a"`` for ``"9.0"`` or ``(9, 0)``."""
    major, minor = parse_compute_version(compute_version) if isinstance(compute_version, str) else compute_version
    return f"{major}{minor}" + ("a" if major >= 9 else "")


def find_cuda_path() -> str:
    """The root of the CUDA toolkit, ``CUDA_HOME`` or that of the nvcc on the path.

    Raises:
        RuntimeError: there is none.
    """
    import shutil
    from pathlib import Path

    nvcc = shutil.which("nvcc")
    root = env.get("CUDA_HOME") or (str(Path(nvcc).resolve().parents[1]) if nvcc else None)
    if root is None:
        raise RuntimeError("no CUDA toolkit: set CUDA_HOME")
    return root


def have_fp16(compute_version: str) -> bool:
    """Whether devices of a compute capability (``"9.0"``) compute in float16: from 5.3 on."""
    return parse_compute_version(compute_version) >= (5, 3)


def have_int8(compute_version: str) -> bool:
    """Whether devices of a compute capability (``"9.0"``) have dp4a: from 6.1 on."""
    return parse_compute_version(compute_version) >= (6, 1)


def have_tensorcore(compute_version: str | None = None, target: Any = None) -> bool:
    """Whether devices of a compute capability, or of a target where none is given, have tensor cores: from 7.0 on."""
    return parse_compute_version(compute_version or get_target_compute_version(target)) >= (7, 0)


def _since(version: float, meaning: str) -> Any:
    def have(target: Any = None) -> bool:
        return float(get_target_compute_version(target)) >= version

    have.__doc__ = f"Whether {meaning}: from compute capability {version} on."
    return have


have_bf16 = _since(8.0, "a CUDA target computes in bfloat16")
have_fp8 = _since(8.9, "a CUDA target computes in float8")
have_tma = have_mbarrier = have_pdl = _since(9.0, "a CUDA target has TMA, mbarriers and dependent launches")


def is_hopper(target: Any = None) -> bool:
    """Whether a CUDA target is sm_90."""
    return get_target_compute_version(target) == "9.0"
