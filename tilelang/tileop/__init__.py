"""Tile operators as records in the IR, one file for each family; see :mod:`tilelang.tileop.base`."""

from tilelang.tileop import atomic, copy, debug, gemm, hint, reduce, scan, thread, warp_group  # noqa: F401  (each registers its operators)
from tilelang.tileop.base import OPERATORS, TileOp, decode, is_tile_op

__all__ = ["OPERATORS", "TileOp", "decode", "is_tile_op"]
