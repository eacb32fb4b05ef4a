"""Import paths of public programs give the modules that are meant."""

from __future__ import annotations

import copy
import importlib
import subprocess
import sys

import pytest

from tilelang.errors import CompileError
from tilelang.moved import ABSENT, MOVED


@pytest.mark.parametrize("path", MOVED)
def test_a_moved_module_is_the_one_that_is_meant(path):
    module = importlib.import_module(path)
    home = sys.modules[MOVED[path]]
    assert module is home and home.__spec__.name == MOVED[path]


@pytest.mark.parametrize("path", [path for paths in ABSENT.values() for path in paths.split()])
def test_unsupported_names_are_refused_at_their_use(path):
    module = importlib.import_module(path)
    assert importlib.import_module(f"{path}.inner").__name__ == f"{path}.inner"
    with pytest.raises(CompileError, match=rf"{path}.Emitter is not available: (it is|fragments)"):
        module.Emitter(128, 128)
    assert not hasattr(module, "__wrapped__")


def test_modules_are_reached_as_attributes_without_an_import_of_their_own():
    program = """
import tilelang
assert tilelang.engine.callback.register_cuda_postproc and tilelang.engine.param.KernelParam
assert tilelang.cuda.intrinsics.layout.mma_layout and tilelang.cuda.intrinsics.macro.mma_macro_generator
assert tilelang.utils.device.get_current_device and tilelang.autotuner.param.CompileArgs and tilelang.contrib.nvcc
assert tilelang.transform.pass_config.PassConfigKey and tilelang.layout.swizzle_mode.SwizzleMode
assert not hasattr(tilelang.autotuner, "parm") and not hasattr(tilelang.layout, "__wrapped__")
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_is_below_a_refused_name_is_refused_too():
    import tilelang

    with pytest.raises(CompileError, match=r"tilelang\.metal\.op is not available: it is for devices of another vendor"):
        tilelang.metal.op.gemm.GemmMetal()
    assert copy.copy(tilelang.metal.op).name == "tilelang.metal.op"


def test_the_old_paths_of_another_vendor_are_refused_when_used():
    from tilelang.intrinsics.mfma_macro_generator import MatrixCoreIntrinEmitter

    with pytest.raises(CompileError, match="another vendor"):
        MatrixCoreIntrinEmitter(a_dtype="float16")


def test_adapters_of_backends_are_refused_where_they_are_used():
    from tilelang.jit.adapter.libgen import LibraryGenerator
    from tilelang.jit.adapter.nvrtc.adapter import NVRTCKernelAdapter

    for name in (LibraryGenerator, NVRTCKernelAdapter):
        with pytest.raises(CompileError, match="kernels are in the cache"):
            name()


def test_questions_about_devices_have_answers():
    from tilelang.cuda.target import (
        check_cuda_availability,
        target_has_bulk_copy,
        target_is_ampere,
        target_is_cuda,
        target_is_hopper,
    )
    from tilelang.jit.adapter.cutedsl.checks import check_cutedsl_available
    from tilelang.metal.target import check_metal_availability
    from tilelang.rocm.target import check_hip_availability, target_is_cdna

    from tilelang.utils.target import target_get_warp_size

    hopper = {"kind": "cuda", "arch": "sm_90a"}
    assert target_is_cuda(hopper) and target_is_hopper(hopper) and target_has_bulk_copy(hopper) and not target_is_ampere(hopper)
    assert not target_is_cuda("cpu") and not target_is_cdna(hopper) and not target_is_hopper({"kind": "hip"})
    assert (target_get_warp_size(hopper), target_get_warp_size("cpu")) == (32, 1)
    assert isinstance(check_cuda_availability(), bool) and not check_hip_availability() and not check_metal_availability()
    with pytest.raises(CompileError, match="another vendor"):
        check_cutedsl_available()


def test_modules_that_tvm_has_moved():
    from tvm import arith, tir
    from tvm.ir import PrimExpr
    from tvm.tir.stmt_functor import substitute
    from tvm.tirx import Call, SizeVar, StringImm
    from tvm.tirx.stmt_functor import post_order_visit

    assert tir.PrimFunc and arith.Analyzer and PrimExpr and Call and SizeVar and StringImm and post_order_visit and substitute


def test_modules_below_those_that_tvm_has_moved_are_loaded_once():
    import tvm.arith.analyzer
    from tvm import sym, tirx
    from tvm.tir.expr import IntImm
    from tvm.tir.function import PrimFunc

    assert IntImm is tirx.IntImm and PrimFunc is tirx.PrimFunc and tvm.arith.analyzer is sym.analyzer
    with pytest.raises(ModuleNotFoundError, match="tvm.tirx.rocket"):
        importlib.import_module("tvm.tir.rocket")


def test_a_module_that_does_not_exist_is_not_found():
    with pytest.raises(ModuleNotFoundError, match="tilelang.rocket"):
        importlib.import_module("tilelang.rocket")


def test_index_maps_have_their_public_names():
    from tilelang.intrinsics.mma_layout import mma_load_a_32x8_to_shared_16x16_layout, shared_16x16_to_mma_32x8_layout_rs_a

    assert shared_16x16_to_mma_32x8_layout_rs_a(5, 3) == (14, 1)
    assert mma_load_a_32x8_to_shared_16x16_layout(14, 1) == (3, 5)
    with pytest.raises(ImportError):
        from tilelang.intrinsics.mma_layout import shared_16x16_to_nothing  # noqa: F401


@pytest.mark.parametrize(("kind", "meta", "factor"), [("float16", "int16", 16), ("float32", "int16", 8), ("int8", "int32", 32)])
def test_metadata_of_sparse_operands(kind, meta, factor):
    from tilelang.cuda.intrinsics.sparse_layout import get_e_factor

    assert get_e_factor(kind, meta) == factor


def test_names_of_torch_dtypes():
    import torch

    from tilelang.language.dtypes import _TORCH_DTYPE_TO_STR

    assert _TORCH_DTYPE_TO_STR[torch.half] == "float16" and _TORCH_DTYPE_TO_STR[torch.float8_e4m3fn] == "float8_e4m3fn"


def test_the_policy_of_products_beside_the_operators():
    from tilelang.policy import GemmWarpPolicy
    from tilelang.tileop.base import GemmWarpPolicy as of_base

    assert importlib.import_module("tilelang.tileop").GemmWarpPolicy is of_base is GemmWarpPolicy


def test_a_swizzled_tile_has_two_indices_at_the_path_of_earlier_releases():
    from tilelang.intrinsics.mma_layout import get_swizzle_layout as by_its_module
    from tilelang.intrinsics.mma_macro_generator import TensorCoreIntrinEmitter as emitter
    from tilelang.intrinsics.utils import index_to_coordinates

    from tilelang.cuda import intrinsics
    from tilelang.intrinsics import TensorCoreIntrinEmitter, get_swizzle_layout

    assert by_its_module is get_swizzle_layout and emitter is TensorCoreIntrinEmitter
    assert index_to_coordinates(37, (4, 16)) == [2, 5]
    for columns, panel in ((32, 32), (64, 64), (96, 32), (128, 64)):
        tile = {get_swizzle_layout(i, j, columns, "float16") for i in range(16) for j in range(columns)}
        assert tile == {(i, j) for i in range(16) for j in range(columns)}
        assert (
            get_swizzle_layout(3, 17, columns, "float16")[1] % panel
            == intrinsics.get_swizzle_layout(3, 17, columns, "float16")[2]
        )
    with pytest.raises(CompileError, match="a row of 48 bytes is no multiple of 32"):
        get_swizzle_layout(0, 0, 24, "float16")


def test_names_of_earlier_releases():
    import torch

    import tilelang
    from tilelang.utils import map_torch_type

    assert tilelang.lazy_jit is tilelang.jit.lazy_jit is tilelang.jit.jit
    types = {"float": torch.float32, "float8_e4m3": torch.float8_e4m3fn, "int8": torch.int8}
    assert {name: map_torch_type(name) for name in types} == types
