"""Sums and differences of two products, which must not be contracted to a fused multiply-add.

Compilers contract a product and the sum that uses it to one operation with one rounding, as on GPUs. In ``a * b - c * d`` only
one of the products can be contracted, so for equal products the result is the rounding error of the other one, not 0. ``exp2(x *
scale - top * scale)`` in a row of a softmax whose scores are all -1e30 becomes infinity that way.
"""

from __future__ import annotations

from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.floats import is_float

_C_PRODUCT = """\
static inline {type} {name}({type} a, {type} b) {{
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return {fma}(a, b, -0.0); /* GCC has no fence for one operation, but fuses no sum with a fused one */
#else
  return a * b;
#endif
}}"""
_C_FUNCTIONS = {
    "float32": ("tl_product_f32", "float", "__builtin_fmaf"),
    "float64": ("tl_product_f64", "double", "__builtin_fma"),
}


def combines_products(node: Any) -> bool:
    """Whether a node is the sum or difference of two products of floats, each of which is rounded by itself."""
    return isinstance(node, (ir.Add, ir.Sub)) and is_float(node.ty) and _is_product(node.a) and _is_product(node.b)


def _is_product(node: Any) -> bool:
    return isinstance(node.value if isinstance(node, ir.Broadcast) else node, ir.Mul)


def c_product(dtype: str) -> tuple[str, str] | None:
    """The name and the text of the C function for a product that no sum is fused with; None for vectors."""
    if dtype not in _C_FUNCTIONS:
        return None
    name, type_, fma = _C_FUNCTIONS[dtype]
    return name, _C_PRODUCT.format(name=name, type=type_, fma=fma)
