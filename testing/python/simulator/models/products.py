"""Random operands of matrix instructions, and the products they should give."""

import numpy as np

from . import formats, fragments

INTEGERS = ("s8", "u8", "s4", "u4")


def random_codes(rng, shape, fmt):
    """Codes of moderate values, so that sums in single precision stay accurate."""
    if fmt in INTEGERS:
        return rng.integers(0, 2 ** fragments.BITS[fmt], shape).astype(np.uint64)
    return formats.encode(rng.normal(0, 1, shape), fmt, "rn", False)


def values_of(codes, fmt):
    if fmt not in INTEGERS:
        return formats.decode(codes, fmt)
    bits = fragments.BITS[fmt]
    signed = codes.astype(np.int64)
    return np.where(fmt.startswith("s") & (signed >= 2 ** (bits - 1)), signed - 2**bits, signed)


def ordered_sum(a, b, c):
    """c + a @ b in single precision, one product after the other along k: the simulator's order."""
    total = c.astype(np.float32)
    for k in range(a.shape[1]):
        total = total + a[:, k : k + 1].astype(np.float32) * b[k : k + 1].astype(np.float32)
    return total
