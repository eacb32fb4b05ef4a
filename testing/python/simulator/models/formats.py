"""Rounding into a format, modelled on the list of all its values.

Nothing here shares an idea with the simulator's encoder: a format is the sorted list of its finite
magnitudes, and rounding picks one of the two neighbours of a number in that list.
"""

import functools
import math
from fractions import Fraction

import ml_dtypes
import numpy as np

_TYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
}
MAGNITUDE_BITS = {"f16": 15, "bf16": 15, "tf32": 18, "e4m3": 7, "e5m2": 7, "e2m3": 5, "e3m2": 5, "e2m1": 3}
SHIFT = {"tf32": 13}
NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "tf32": 0x7FFFFFFF, "e4m3": 0x7F, "e5m2": 0x7F}
INFINITY = {"f16": 0x7C00, "bf16": 0x7F80, "tf32": 0x3FC00, "e5m2": 0x7C}


def decode(codes: np.ndarray, name: str) -> np.ndarray:
    """Values (float64) of the codes of a format."""
    codes = np.asarray(codes, dtype=np.uint64)
    if name == "tf32":
        with np.errstate(invalid="ignore"):
            return codes.astype(np.uint32).view(np.float32).astype(np.float64)
    dtype = _TYPES[name]
    storage = np.uint16 if np.dtype(dtype).itemsize == 2 else np.uint8
    with np.errstate(invalid="ignore"):
        return codes.astype(storage).view(dtype).astype(np.float64)


@functools.cache
def magnitudes(name: str) -> np.ndarray:
    """The non-negative finite values of a format in ascending order; the index is the code."""
    codes = np.arange(1 << MAGNITUDE_BITS[name], dtype=np.uint64) << np.uint64(SHIFT.get(name, 0))
    values = decode(codes, name)
    return values[np.isfinite(values)]


def encode(values: np.ndarray, name: str, mode: str, satfinite: bool) -> np.ndarray:
    """Codes (uint64) of float64 values rounded by `mode` (rn, rz, rm, rp, rna)."""
    table = magnitudes(name)
    last = len(table) - 1
    # One more value beyond the largest tells where rounding to nearest overflows.
    extended = np.append(table, 2 * table[last] - table[last - 1])
    magnitude = np.abs(values)
    negative = np.signbit(values)
    inside = np.minimum(np.where(np.isnan(magnitude), 0, magnitude), extended[-1])
    below = np.clip(np.searchsorted(extended, inside, side="right") - 1, 0, last)
    low, high = extended[below], extended[below + 1]
    exact = inside == low
    midpoint = low + (high - low) / 2
    nearest = (inside > midpoint) | ((inside == midpoint) & ((below % 2 == 1) | (mode == "rna")))
    up = {
        "rn": nearest,
        "rna": nearest,
        "rz": np.zeros_like(exact),
        "rm": negative & ~exact,
        "rp": ~negative & ~exact,
    }[mode]
    code = below + up
    overflow = (code > last) | (inside >= extended[-1])
    code = np.where(overflow, _overflow_code(name, mode, negative, np.isinf(values), satfinite, last), code)
    code = code.astype(np.uint64) | (negative.astype(np.uint64) << np.uint64(MAGNITUDE_BITS[name]))
    code <<= np.uint64(SHIFT.get(name, 0))
    return np.where(np.isnan(values), np.uint64(NAN.get(name, last)), code)


def _overflow_code(name, mode, negative, infinite, satfinite, last):
    beyond = NAN.get(name, last) if name not in INFINITY else INFINITY[name]
    if satfinite or name in ("e2m3", "e3m2", "e2m1"):
        return np.full(negative.shape, last)
    stops = {"rz": np.ones_like(negative), "rm": ~negative, "rp": negative}.get(mode, np.zeros_like(negative))
    return np.where(stops & ~infinite, last, beyond)


def interesting_floats(name: str, rng: np.random.Generator, count: int) -> np.ndarray:
    """Float32 inputs (as float64) that probe a format: its values, midpoints, their neighbours, and noise."""
    table = magnitudes(name)
    picked = table if len(table) <= count else rng.choice(table, count, replace=False)
    middle = (table[:-1] + table[1:]) / 2
    if len(middle) > count:
        middle = rng.choice(middle, count, replace=False)
    specials = [
        0.0,
        np.inf,
        np.nan,
        table[-1],
        2 * table[-1],
        2 * table[-1] - table[-2],
        table[1] / 2,
        table[1] / 4,
        1e-45,
    ]
    with np.errstate(over="ignore"):
        base = np.concatenate([picked, middle, specials]).astype(np.float32)
    noise = rng.integers(0, 2**32, count, dtype=np.uint32).view(np.float32)
    near = np.concatenate([base, np.nextafter(base, np.float32(np.inf)), np.nextafter(base, np.float32(0))])
    with np.errstate(invalid="ignore"):
        return np.concatenate([near, -near, noise]).astype(np.float64)


def double_rounded_to_odd(value: Fraction) -> float:
    """The double next to `value` with an odd last bit, unless one is equal: safe to round once more."""
    near = float(value)
    if Fraction(near) == value:
        return near
    other = math.nextafter(near, math.inf if Fraction(near) < value else -math.inf)
    return near if int(np.float64(near).view(np.uint64)) % 2 else other
