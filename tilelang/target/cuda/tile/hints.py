"""What the remarks of a program mean for several steps."""

from __future__ import annotations

from typing import Any

from tilelang.layout import from_text, make_swizzled_layout
from tilelang.tileop.hint import AnnotateLayout


def asks_for_a_swizzle(hint: Any) -> bool:
    """Whether a hint gives a tile the swizzle that any compiler would choose, and no layout in particular."""
    if not isinstance(hint, AnnotateLayout) or not hint.buffer.scope.startswith("shared"):
        return False
    return from_text(hint.layout) == make_swizzled_layout(hint.buffer.buffer)
