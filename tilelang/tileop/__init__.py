"""Tile operators as records in the IR, one file for each family; see :mod:`tilelang.tileop.base`."""

# Each module registers its operators.
from tilelang.policy import GemmWarpPolicy
from tilelang.tileop import atomic as atomic
from tilelang.tileop import copy as copy
from tilelang.tileop import debug as debug
from tilelang.tileop import gemm as gemm
from tilelang.tileop import hint as hint
from tilelang.tileop import reduce as reduce
from tilelang.tileop import scan as scan
from tilelang.tileop import thread as thread
from tilelang.tileop import warp_group as warp_group
from tilelang.tileop.base import OPERATORS, TileOp, decode, is_tile_op, record_of

__all__ = ["OPERATORS", "GemmWarpPolicy", "TileOp", "decode", "is_tile_op", "record_of"]
