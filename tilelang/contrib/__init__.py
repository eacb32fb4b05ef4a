"""Helpers around the compiler under the names that programs import them by."""

from tilelang.attributes import attributes

__getattr__ = attributes(__name__, {})
