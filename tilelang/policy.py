"""How the warps of a block share a matrix product."""

from __future__ import annotations

import enum


class GemmWarpPolicy(enum.IntEnum):
    """The parts of C that warps own: near-square, whole bands of rows, or whole bands of columns."""

    Square = 0
    FullRow = 1
    FullCol = 2

    def is_square(self) -> bool:
        """Whether the parts are near-square."""
        return self is GemmWarpPolicy.Square

    def is_full_row(self) -> bool:
        """Whether the parts are whole bands of rows."""
        return self is GemmWarpPolicy.FullRow

    def is_full_col(self) -> bool:
        """Whether the parts are whole bands of columns."""
        return self is GemmWarpPolicy.FullCol

    @classmethod
    def from_warp_partition(cls, m_warp: int, n_warp: int) -> GemmWarpPolicy:
        """The policy for given numbers of warps along rows and columns: bands if one of them is 1, else near-square."""
        if (m_warp == 1) == (n_warp == 1):
            return cls.Square
        return cls.FullRow if n_warp == 1 else cls.FullCol
