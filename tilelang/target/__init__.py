"""Targets: what code is generated for. See :mod:`tilelang.target.info` for how one is named."""

from tilelang.target.info import TargetInfo, parse_target

__all__ = ["TargetInfo", "parse_target"]
