"""Questions that helpers of kernels ask about buffers and slices."""

from __future__ import annotations

import importlib

import tilelang.language as T
from tilelang.utils.language import (
    get_buffer_region_from_load,
    get_prim_func_name,
    is_full_region,
    is_shared,
    retrieve_shape,
    retrieve_stride,
    to_buffer_region,
)


def test_regions():
    seen = {}

    @T.prim_func
    def main(A: T.Tensor((64, 32), "float16")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((2, 64, 32), "float16")
            seen["whole"] = is_full_region(to_buffer_region(tile)), is_full_region(tile[1, 0:64, 0:32])
            seen["shapes"] = [
                retrieve_shape(to_buffer_region(tile[1, 8:16, :])),
                retrieve_shape(to_buffer_region(A[3, 4], "r", [1, 8])),
                retrieve_shape(get_buffer_region_from_load(tile[0, 0, 0], [4, 4])),
            ]
            seen["stride"], seen["shared"] = retrieve_stride(to_buffer_region(tile)), is_shared(to_buffer_region(tile))
            T.copy(A, to_buffer_region(tile[1, 0:64, 0:32]))

    assert seen["whole"] == (True, False) and seen["shared"]
    assert seen["shapes"] == [[1, 8, 32], [1, 8], [1, 4, 4]]
    assert seen["stride"] == [2048, 32, 1]
    assert get_prim_func_name(main) == "main"
    assert get_prim_func_name(None, "none") == "none"


def test_the_module_at_the_path_of_other_releases():
    utils = importlib.import_module("tilelang.language.utils")
    assert utils.index_to_coordinates(23, (2, 3, 4)) == [1, 2, 3] and utils.linear_index(1, 2, 3, 3, 4) == 23
    assert utils.index_to_coordinates is T.index_to_coordinates and utils.linear_index is T.linear_index

    @T.prim_func
    def main(A: T.Tensor((64, 32), "float16")):
        with T.Kernel(1):
            assert utils.get_extent(A) == [64, 32] and utils.get_extent(A[3:9, 0:8]) == [6, 8]
            A[0, 0] = 0
