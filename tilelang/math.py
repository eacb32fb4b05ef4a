"""Arithmetic of sizes on the host: what programs compute before they choose tiles."""

from __future__ import annotations

__all__ = ["cdiv", "next_power_of_2"]


def cdiv(a: int, b: int) -> int:
    """``a / b`` rounded up (``b`` positive)."""
    return -(-a // b)


def next_power_of_2(x: int) -> int:
    """The smallest power of two that is at least ``x``; 1 where ``x`` is less."""
    return 1 << max(0, x - 1).bit_length()
