"""``with tvm.transform.PassContext(config=...)`` around ``tilelang.lower``."""

from __future__ import annotations

import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import CompileError
from tilelang.transform import PassConfigKey


@T.prim_func
def copy_tile(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
    with T.Kernel(1, threads=128):
        tile = T.alloc_shared((64, 64), "float16")
        T.copy(A, tile)
        T.copy(tile, B)


def is_bulk(**options):
    return "CUtensorMap" in tilelang.lower(copy_tile, target={"kind": "cuda", "arch": "sm_90a"}, **options).kernel_source


@pytest.mark.parametrize("key", ["tl.disable_tma_lower", PassConfigKey.TL_DISABLE_TMA_LOWER])
def test_configurations_of_an_enclosing_context(key):
    from tvm import transform

    off = transform.PassContext(opt_level=3, config={key: True, "tirx.disable_vectorize": True})
    for _ in range(2):
        with off:
            assert not is_bulk()
            assert is_bulk(pass_configs={"tl.disable_tma_lower": False})
            with transform.PassContext():
                assert is_bulk()
            assert not is_bulk()
        assert is_bulk()


def test_a_mistaken_name_is_an_error():
    from tvm import transform

    context = transform.PassContext(config={"tl.disable_tma_lowering": True})
    with context, pytest.raises(CompileError, match=r"unknown pass configuration(.|\n)*'tl.disable_tma_lower'"):
        is_bulk()
