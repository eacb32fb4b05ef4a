"""Sizes, ages, moments and targets as people read and write them."""

from __future__ import annotations

import functools
import json
import time

from tilelang import env
from tilelang.errors import CacheError

_AGE_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun: ``1 kernel``, ``2 kernels``.

    Args:
        number: how many there are.
        one: the noun in the singular.
        many: its plural, where that is not formed by an ``s``.
    """
    return f"{number} {one if number == 1 else many or one + 's'}"


def human_bytes(count: float) -> str:
    """``1536`` as ``1.5 KiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


@functools.cache
def target_name(target: str, arch: str) -> str:
    """A kernel's kind of target and architecture: ``c x86-64-v4`` and ``cpu x86-64-v4`` are different programs."""
    try:
        return f"{json.loads(target)['kind']} {arch}".rstrip()
    except (ValueError, TypeError, KeyError):
        return target[:24]


def moment(seconds: float) -> str:
    """A moment (seconds since 1970) as local date and time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def human_age(then: float) -> str:
    """Time since ``then`` (seconds since 1970) in its largest unit."""
    seconds = max(0.0, time.time() - then)
    for unit, size in reversed(_AGE_UNITS.items()):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return "now"


def parse_age(text: str | None) -> float | None:
    """``90m``, ``2d``: the moment that long ago."""
    if text is None:
        return None
    try:
        return time.time() - float(text[:-1]) * _AGE_UNITS[text[-1:]]
    except (KeyError, ValueError):
        raise CacheError(f"{text!r} is not an age; write for example 90m, 12h, 2d") from None


def parse_size(text: str | None) -> int | None:
    """``10M``, ``2GiB``: a number of bytes."""
    try:
        return None if text is None else env.byte_size(text)
    except ValueError:
        raise CacheError(f"{text!r} is not a size; write for example 500K, 10M, 2G") from None
