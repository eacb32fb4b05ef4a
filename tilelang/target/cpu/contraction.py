"""Where a product is rounded before it is added.

Compilers fuse a product with the sum that takes it (one rounding, as GPUs do it). In ``a * b - c * d`` only one of the two can
be fused, so equal products leave the rounding error of the other, not 0. ``exp2(x * scale - top * scale)`` in a row of a softmax
whose scores are all -1e30 becomes infinity that way.
"""

from __future__ import annotations

from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.floats import is_float

PRODUCTS = {"float32": "tl_product_f32", "float64": "tl_product_f64"}
"""Type -> name of the C macro for a product that no sum is fused with."""

PRODUCTS_C = """
/* GCC has no fence for one operation, but fuses no sum with a fused one. Without the instruction nothing is fused. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define tl_product_f32(a, b) __builtin_fmaf((a), (b), -0.0f)
#define tl_product_f64(a, b) __builtin_fma((a), (b), -0.0)
#else
#define tl_product_f32(a, b) ((a) * (b))
#define tl_product_f64(a, b) ((a) * (b))
#endif
"""


def combines_products(node: Any) -> bool:
    """Whether a node is the sum or difference of two products of floats, each of which is rounded by itself."""
    return isinstance(node, (ir.Add, ir.Sub)) and is_float(node.ty) and _is_product(node.a) and _is_product(node.b)


def _is_product(node: Any) -> bool:
    return isinstance(node.value if isinstance(node, ir.Broadcast) else node, ir.Mul)
