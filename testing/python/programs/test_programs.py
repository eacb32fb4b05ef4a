"""Every program of ``testing/programs`` on each target, with all checkers, and its lowering for sizes of production."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import pytest

import tilelang
from testing import programs
from testing.python.examples import test_examples
from testing.python.target.cuda.support import source

NAMES = [module.name for module in pkgutil.iter_modules(programs.__path__)]
TARGETS = {
    "cpu": {"TILELANG_DEFAULT_TARGET": "cpu"},
    "interpret": {"TILELANG_INTERPRET": "1"},
    "sm_80": {"TILELANG_DEFAULT_TARGET": "cuda", "TILELANG_CUDA_ARCH": "sm_80"},
    "sm_90a": {"TILELANG_DEFAULT_TARGET": "cuda", "TILELANG_CUDA_ARCH": "sm_90a"},
}

EXAMPLES = {
    "swiglu_fp8": {"swiglu_quantized": {"N": 2048}},
    "moe_routing": {"route": {"experts": 256, "groups": 8, "top_groups": 4, "topk": 8}},
    "fused_moe": {
        "up_projection": {"experts": 256, "hidden": 7168, "inner": 2048, "topk": 8},
        "down_projection": {"experts": 256, "hidden": 7168, "inner": 2048, "topk": 8},
    },
    "hyper_connections": {
        "sinkhorn": {"n": 4, "rounds": 20},
        "layer_input": {"n": 4, "width": 7168},
        "new_streams": {"n": 4, "width": 7168},
    },
    "native_sparse_attention": {
        "choose_blocks": {"batch": 1, "kv_heads": 4, "group": 16, "seq_len": 8192, "dim": 128, "block": 64, "top": 16},
        "selected_attention": {"batch": 1, "kv_heads": 4, "group": 16, "seq_len": 8192, "dim": 128, "block": 64, "top": 16},
    },
    "gated_delta_net": {"gated_delta_net": {"batch": 1, "heads": 32, "seq_len": 32768, "dim_k": 128, "dim_v": 128}},
    "varlen_attention": {"varlen_attention": {"heads": 32, "kv_heads": 8, "dim": 128}},
    "radix_sort": {"radix_sort": {"tile": 1024, "threads": 256}},
    "cross_entropy": {"cross_entropy": {"vocabulary": 129280, "smoothing": 0.1, "block": 4096, "threads": 256}},
    "layer_norm_backward": {"layer_norm_backward": {"N": 4096, "blocks": 264, "block_M": 1, "threads": 256}},
    "stencil": {"heat": {"H": 8192, "W": 8192}, "seven_points": {"D": 512, "H": 512, "W": 512}},
    "deterministic_splitk": {"matmul_splitk": {"M": 128, "N": 4096, "K": 16384, "splits": 8}},
    "sampling": {"sample": {"vocabulary": 129280}},
}
"""The kernels of examples, with sizes of production."""


def load(name: str) -> ModuleType:
    return importlib.import_module(f"{programs.__name__}.{name}")


def targets(name: str) -> tuple[str, ...]:
    """Where a program runs."""
    return getattr(load(name), "TARGETS", tuple(TARGETS))


@pytest.mark.parametrize(("name", "target"), [(name, target) for name in NAMES for target in targets(name)])
def test_program(name, target, monkeypatch):
    for variable, value in TARGETS[target].items():
        monkeypatch.setenv(variable, value)
    with tilelang.simulator(strict=True):
        load(name).check(**load(name).SMALL)


@pytest.mark.parametrize(("name", "arch"), [(name, arch) for name in NAMES for arch in targets(name) if arch.startswith("sm_")])
def test_production_sizes_are_lowered(name, arch):
    lower_each(load(name), load(name).LARGE, arch)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_production_sizes_are_lowered(name, arch):
    lower_each(test_examples.load(name), EXAMPLES[name], arch)


def lower_each(module: ModuleType, kernels: dict[str, dict[str, int]], arch: str) -> None:
    for kernel, sizes in kernels.items():
        assert "__global__" in source(getattr(module, kernel).get_tir(**sizes), arch)
