"""Small tools around kernels: see :mod:`tilelang.utils.tensor`."""
