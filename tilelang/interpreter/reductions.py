"""The operations of reductions, reducers and scans: how two values combine, and the identity that a reduction starts from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilelang.interpreter.numbers import Element

_COMBINE: Mapping[str, tuple[np.ufunc, np.ufunc]] = {
    # operation -> NumPy's on integers, on floats (of a number and NaN, fmax and fmin give the number, as fmaxf in CUDA)
    "sum": (np.add, np.add),
    "max": (np.maximum, np.fmax),
    "min": (np.minimum, np.fmin),
    "bitand": (np.bitwise_and, np.bitwise_and),
    "bitor": (np.bitwise_or, np.bitwise_or),
    "bitxor": (np.bitwise_xor, np.bitwise_xor),
}


def combination(op: str, kind: Element, nan_propagate: bool = False) -> np.ufunc:
    """The function that combines two values.

    Args:
        op: ``"sum"``, ``"max"``, ``"min"``, ``"bitand"``, ``"bitor"`` or ``"bitxor"``; of magnitudes with ``"abs"`` before it.
        kind: type of the values.
        nan_propagate: whether the maximum or minimum of a number and NaN is NaN.
    """
    of_integers, of_floats = _COMBINE[op.removeprefix("abs")]
    return of_floats if kind.kind == "float" and not nan_propagate else of_integers


def identity(op: str, kind: Element) -> Any:
    """The value that changes nothing when it is combined with another one of a type; for magnitudes, with no negative one."""
    low, high = _limits(kind)
    name = op.removeprefix("abs")
    if name == "max":
        return 0 if op == "absmax" else low
    if name == "min":
        return high
    return _all_ones(kind) if name == "bitand" else 0


def _limits(kind: Element) -> tuple[Any, Any]:
    """The least and the largest value of a type."""
    if kind.kind == "float":
        return -np.inf, np.inf
    if kind.kind == "bool":
        return False, True
    low = -(1 << (kind.bits - 1)) if kind.kind == "int" else 0
    return low, (1 << (kind.bits - (kind.kind == "int"))) - 1


def _all_ones(kind: Element) -> Any:
    """The value whose bits are all set."""
    if kind.kind == "bool":
        return True
    return -1 if kind.kind == "int" else (1 << kind.bits) - 1
