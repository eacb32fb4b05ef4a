"""Layouts as tables of cells: which thread and register hold an element, or which bank of shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilelang.dtypes import canonical

_ROWS, _COLUMNS = 16, 32
_BANKS, _BANK_BYTES = 32, 4


def drawings(origins: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The layouts of a kernel's tiles with two axes, the first rows and columns of each.

    A cell of a fragment is ``(thread, register)``, one of a shared tile ``(bank, offset)``.
    """
    from tilelang.layout import from_text

    drawn = []
    for kind in ("fragments", "shared"):
        for tile in origins[kind]:
            layout: Any = from_text(tile["layout"]) if tile["layout"] else None
            if layout is None or len(layout.shape) != 2:
                continue
            cell = layout.locate if kind == "fragments" else _bank_of(layout, canonical(tile["dtype"]).stored_bits / 8)
            rows, columns = (min(most, extent) for most, extent in zip((_ROWS, _COLUMNS), layout.shape))
            cells = [[cell((row, column)) for column in range(columns)] for row in range(rows)]
            drawn.append({"name": tile["name"], "dtype": tile["dtype"], "shape": layout.shape, "kind": kind, "cells": cells})
    return drawn


def _bank_of(layout: Any, size: float) -> Any:
    def cell(index: tuple[int, int]) -> tuple[int, int]:
        offset = layout.offset(index)
        return int(offset * size) // _BANK_BYTES % _BANKS, offset

    return cell
