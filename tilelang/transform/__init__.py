"""Passes over tile programs that no single target owns, one a file, and the runner that targets share."""

from tilelang.transform.config import PassConfigKey

__all__ = ["PassConfigKey"]
