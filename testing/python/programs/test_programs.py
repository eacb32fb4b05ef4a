"""Every program of ``testing/programs`` on each target, with all checkers, and its lowering for sizes of production."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import pytest

import tilelang
from testing import programs
from testing.python.target.cuda.support import source

NAMES = [module.name for module in pkgutil.iter_modules(programs.__path__)]
TARGETS = {
    "cpu": {"TILELANG_DEFAULT_TARGET": "cpu"},
    "interpret": {"TILELANG_INTERPRET": "1"},
    "sm_80": {"TILELANG_DEFAULT_TARGET": "cuda", "TILELANG_CUDA_ARCH": "sm_80"},
    "sm_90a": {"TILELANG_DEFAULT_TARGET": "cuda", "TILELANG_CUDA_ARCH": "sm_90a"},
}


def load(name: str) -> ModuleType:
    return importlib.import_module(f"{programs.__name__}.{name}")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NAMES)
def test_program(name, target, monkeypatch):
    for variable, value in TARGETS[target].items():
        monkeypatch.setenv(variable, value)
    with tilelang.simulator(strict=True):
        load(name).check(**load(name).SMALL)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", NAMES)
def test_production_sizes_are_lowered(name, arch):
    module = load(name)
    for kernel, sizes in module.LARGE.items():
        assert "__global__" in source(getattr(module, kernel).get_tir(**sizes), arch)
