"""What a program remarks about a kernel: nothing here changes what it computes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tilelang.layout import make_swizzled_layout


@dataclass(eq=False)
class Hints:
    """The remarks about a kernel; each is noted by the rule of its operator.

    Attributes:
        layouts: (buffer, layout, span) of each annotation, in order.
        safe_values: what an out-of-bounds read of a buffer gives, where not zero.
        may_overlap: names of parameters that lose ``__restrict__``.
        blocks_per_sm: blocks that must fit on one multiprocessor.
        rasterisation: ``"row"`` or ``"column"``, and how many of them make a panel of blocks.
    """

    layouts: list[tuple[Any, Any, Any]] = field(default_factory=list)
    safe_values: dict[Any, Any] = field(default_factory=dict)
    may_overlap: set[str] = field(default_factory=set)
    blocks_per_sm: int | None = None
    rasterisation: tuple[str, int] | None = None


def is_default_swizzle(buffer: Any, layout: Any) -> bool:
    """Whether a layout is the swizzle that any compiler would choose for a shared tile, and none in particular."""
    return buffer.scope().startswith("shared") and layout == make_swizzled_layout(buffer)
