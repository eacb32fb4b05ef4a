"""What programs for CUDA import beside the language."""

from tilelang.attributes import attributes

__getattr__ = attributes(__name__, {})
