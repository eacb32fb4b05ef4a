"""Layouts: how tiles lie in shared memory (:class:`TileLayout`) and in registers (:class:`FragmentLayout`).

This package imports neither TVM nor torch.
"""

from tilelang.attributes import attributes
from tilelang.layout.draw import draw
from tilelang.layout.fragment import (
    Fragment,
    FragmentLayout,
    Mode,
    make_fully_replicated_layout_fragment,
    on_register,
    on_thread,
    replicated,
)
from tilelang.layout.memory import IndexLayout, Layout, MemoryLayout, TileLayout, memory_layout_from_text, row_major
from tilelang.layout.panels import (
    SwizzleMode,
    make_full_bank_swizzled_layout,
    make_half_bank_swizzled_layout,
    make_quarter_bank_swizzled_layout,
    panel_layout,
)
from tilelang.layout.swizzle import conflicts, make_swizzled_layout, padded, swizzled
from tilelang.layout.tensor_core import make_gemm_fragment_8x8, make_gemm_fragment_8x8_transposed, make_linear_layout

make_wgmma_swizzled_layout = make_swizzled_layout
"""The widest swizzle that fits is also what ``wgmma`` reads."""

__getattr__ = attributes(__name__, {"tilelang.cuda.intrinsics.maps": "make_mma_swizzle_layout"})

__all__ = [
    "Fragment",
    "FragmentLayout",
    "IndexLayout",
    "Layout",
    "MemoryLayout",
    "Mode",
    "SwizzleMode",
    "TileLayout",
    "conflicts",
    "draw",
    "from_text",
    "make_full_bank_swizzled_layout",
    "make_fully_replicated_layout_fragment",
    "make_gemm_fragment_8x8",
    "make_gemm_fragment_8x8_transposed",
    "make_half_bank_swizzled_layout",
    "make_linear_layout",
    "make_quarter_bank_swizzled_layout",
    "make_swizzled_layout",
    "make_wgmma_swizzled_layout",
    "memory_layout_from_text",
    "on_register",
    "on_thread",
    "padded",
    "panel_layout",
    "replicated",
    "row_major",
    "swizzled",
]


def from_text(text: str) -> FragmentLayout | MemoryLayout:
    """The layout of canonical text, of either kind."""
    return FragmentLayout.from_text(text) if text.startswith('{"fragment"') else memory_layout_from_text(text)
