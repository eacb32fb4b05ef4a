"""Orders in which the blocks of a grid run; ``T.use_swizzle`` takes ``panel_width`` and ``order``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rasterization:
    """An order of blocks.

    Attributes:
        panel_width: blocks across a panel; 0 for the plain order.
        order: ``"row"`` or ``"column"``.
    """

    panel_width: int = 0
    order: str = "row"


@dataclass(frozen=True)
class NoRasterization(Rasterization):
    """The plain order."""


@dataclass(frozen=True)
class Rasterization2DRow(Rasterization):
    """Panels of rows."""

    panel_width: int = 4


@dataclass(frozen=True)
class Rasterization2DColumn(Rasterization):
    """Panels of columns."""

    panel_width: int = 4
    order: str = "column"
