"""Passes over tile programs that no single target owns, one a file, and the runner that targets share."""

from tilelang.attributes import attributes
from tilelang.transform.config import PassConfigKey

__all__ = ["PassConfigKey"]

__getattr__ = attributes(__name__, {"tilelang.transform.simplify": "simplify_prim_func apply_simplify"})
