"""``T.print`` and ``T.device_assert``."""

from __future__ import annotations

from typing import Any

from tilelang.ir.region import Region
from tilelang.tileop.base import TileOp, operand, operands, reads, tile_operator


@tile_operator("tl.print_buffer")
class PrintBuffer(TileOp):
    """Prints every element of a buffer with its index, once a block."""

    buffer: Region = reads()
    message: str = ""


@tile_operator("tl.print_line")
class PrintLine(TileOp):
    """Prints a line: texts, with a value between each two of them."""

    by_iteration = True
    texts: tuple[str, ...]
    values: tuple[Any, ...] = operands()


@tile_operator("tl.device_assert")
class DeviceAssert(TileOp):
    """Stops the kernel with ``message`` where ``condition`` is false; ``place`` is the line of the program, as ``file.py:12``.

    It is part of the program: a kernel whose assertions moved to other lines is compiled anew.
    """

    by_iteration = True
    condition: Any = operand()
    message: str = ""
    place: str = ""

    @property
    def text(self) -> str:
        """What is said where the condition is false."""
        said = f"T.device_assert failed: {self.message or 'condition is false'}"
        return f"{self.place}: {said}" if self.place else said
