"""What templates recommend."""

from tilelang.carver.roller.hint import Hint
from tilelang.carver.roller.rasterization import NoRasterization, Rasterization, Rasterization2DColumn, Rasterization2DRow

__all__ = ["Hint", "NoRasterization", "Rasterization", "Rasterization2DColumn", "Rasterization2DRow"]
