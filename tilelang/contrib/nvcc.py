"""Questions about the CUDA device that programs compile for."""

from __future__ import annotations

from typing import Any

from tilelang.target.info import parse_target


def get_target_compute_version(target: Any = None) -> str:
    """The compute capability of a CUDA target (by default the one that kernels are compiled for): ``"9.0"``."""
    major, minor = divmod(parse_target(target or "cuda").sm, 10)
    return f"{major}.{minor}"


def parse_compute_version(compute_version: str) -> tuple[int, int]:
    """``"9.0"`` as ``(9, 0)``."""
    major, _, minor = compute_version.partition(".")
    return int(major), int(minor or 0)
