"""How the warps of a block share a matrix product."""

from __future__ import annotations

import enum


class GemmWarpPolicy(enum.IntEnum):
    """The parts of C that warps own: near-square, whole bands of rows, or whole bands of columns."""

    Square = 0
    FullRow = 1
    FullCol = 2
