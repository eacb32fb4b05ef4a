"""Sizes that only stand inside arithmetic: the value of ``n`` where an axis of ``n * 4 + 1`` elements has 33.

Plain data, as :data:`tilelang.artifact.Dim`: the front end and the execution backends solve alike.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.artifact import Dim, dim_names, evaluate_dim


def inverse(dim: Dim, known: frozenset[str] | set[str]) -> tuple[str, Dim] | None:
    """The only unknown variable of ``dim``, and its value as a size over the known ones and ``""``, the size of the axis.

    None where ``dim`` has no unknown variable or several, or uses it otherwise than in sums, differences and products. A
    product is turned around by a division that rounds down: the caller compares ``dim`` with the axis afterwards.
    """
    unknown = [name for name in dim_names((dim,)) if name not in known]
    if len(unknown) != 1:
        return None
    value: Dim | None = ""
    while isinstance(dim, tuple) and value is not None:
        name, left, right = dim
        on_left = unknown[0] in dim_names((left,))
        value = _turned(name, value, right if on_left else left, on_left)
        dim = left if on_left else right
    return None if value is None else (unknown[0], value)


def _turned(operator: str, value: Dim, other: Dim, on_left: bool) -> Dim | None:
    """``x`` where ``x operator other`` (or ``other operator x``) is ``value``."""
    if operator == "add":
        return ("sub", value, other)
    if operator == "sub":
        return ("add", value, other) if on_left else ("sub", other, value)
    return ("floordiv", value, other) if operator == "mul" else None


def solved(dim: Dim, size: int, known: Mapping[str, int]) -> tuple[str, int] | None:
    """The unknown variable of ``dim`` and its value where the axis has ``size`` elements; None as :func:`inverse`, or where no
    value gives that size."""
    found = inverse(dim, known.keys())
    if found is None:
        return None
    name, value = found
    try:
        number = evaluate_dim(value, {**known, "": size})
    except ZeroDivisionError:
        return None
    return (name, number) if number >= 0 and evaluate_dim(dim, {**known, name: number}) == size else None
