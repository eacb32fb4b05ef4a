"""Import paths of public programs whose modules are elsewhere here, or of which nothing is here.

``from tilelang.intrinsics.mma_layout import ...`` gives the module that is meant; what ``tilelang.rocm`` and its like have can be
imported, and is an error with the reason where it is used.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_INTRINSICS = "tilelang.cuda.intrinsics"
_MAPS = "tilelang.cuda.intrinsics.maps"
_EARLIER = "tilelang.intrinsics"
_EMITTER = "tilelang.cuda.intrinsics.emitter"

MOVED = {
    # path -> the module that is meant
    "tilelang.intrinsics.mma_layout": _EARLIER,
    "tilelang.intrinsics.utils": _EARLIER,
    "tilelang.intrinsics.mma_macro_generator": _EMITTER,
    "tilelang.cuda.intrinsics.layout": _INTRINSICS,
    "tilelang.cuda.intrinsics.layout.mma_layout": _MAPS,
    "tilelang.cuda.intrinsics.layout.utils": _MAPS,
    "tilelang.cuda.intrinsics.layout.mma_sp_layout": "tilelang.cuda.intrinsics.sparse_layout",
    "tilelang.cuda.intrinsics.macro": _INTRINSICS,
    "tilelang.cuda.intrinsics.macro.mma_macro_generator": _EMITTER,
    "tilelang.cuda.intrinsics.macro.wgmma_macro_generator": "tilelang.cuda.intrinsics.warp_group",
    "tilelang.cuda.language": "tilelang.language",
    "tilelang.cuda.language.intrinsics": "tilelang.language",
    "tilelang.backend": "tilelang.utils",
    "tilelang.backend.target": "tilelang.utils.target",
    "tilelang.cuda.target": "tilelang.utils.target",
    **{
        f"tilelang.language.{name}": "tilelang.language"
        for name in (
            "annotations builtin common copy_op experimental experimental.gemm_sp_op fill_op frame gemm_op logical loop"
            " math_intrinsics proxy reduce_op scan_op symbolics tile_schedule tir tir.common tir.entry tir.ir tir.op"
            " warp_specialize"
        ).split()
    },
    **{
        f"tilelang.cuda.language.{name}": "tilelang.language"
        for name in "cluster copy_op gemm_op loop pdl reduce_op tir warpgroup".split()
    },
    "tilelang.language.utils": "tilelang.utils.language",
    "tilelang.language.v2": "tilelang.language",
    "tilelang.language.v2.builder": "tilelang.language",
    "tilelang.language.v2.dtypes": "tilelang.language",
    **{f"tilelang.quantize.{name}": "tilelang.quantize" for name in ("lop3", "mxfp", "quantization", "utils")},
    "tilelang.layout.layout": "tilelang.layout",
    "tilelang.layout.swizzle_mode": "tilelang.layout",
    "tilelang.transform.pass_config": "tilelang.transform",
    "tilelang.jit.param": "tilelang.jit",
    "tilelang.jit.adapter": "tilelang.jit",
    "tilelang.jit.adapter.base": "tilelang.jit.adapter_base",
}

ABSENT = {
    # the reason in tilelang.refusals -> paths of which nothing is here, with all below them
    "VENDOR": (
        "tilelang.ascend tilelang.cutedsl tilelang.metal tilelang.rocm tilelang.webgpu tilelang.contrib.bisheng"
        " tilelang.contrib.cutedsl tilelang.contrib.hip_resource_info tilelang.contrib.hipcc tilelang.contrib.rocm"
        " tilelang.jit.adapter.cutedsl tilelang.carver.arch.cdna tilelang.carver.arch.metal tilelang.carver.arch.rdna"
        " tilelang.intrinsics.mfma_layout tilelang.intrinsics.mfma_macro_generator"
    ),
    "SM_100": (
        "tilelang.cuda.intrinsics.layout.mma_sm100_layout tilelang.cuda.intrinsics.macro.mma_sm120_macro_generator"
        " tilelang.cuda.intrinsics.macro.tcgen05_macro_generator"
    ),
    "OLD": (
        "tilelang.cuda.intrinsics.layout.mma_sm70_layout tilelang.cuda.intrinsics.macro.mma_sm70_macro_generator"
        " tilelang.cuda.intrinsics.macro.mma_sm75_macro_generator"
    ),
    "LOADING": (
        "tilelang.jit.adapter.cython tilelang.jit.adapter.kernel_cache tilelang.jit.adapter.libgen tilelang.jit.adapter.nvrtc"
        " tilelang.jit.adapter.torch tilelang.jit.adapter.tvm_ffi tilelang.jit.adapter.wrapper"
    ),
    "WINDOWS": "tilelang.contrib.msvc",
    "BY_HAND": ("tilelang.cuda.intrinsics.macro.mma_sp_macro_generator tilelang.cuda.intrinsics.macro.wgmma_sp_macro_generator"),
}

_REASONS = {path: reason for reason, paths in ABSENT.items() for path in paths.split()}


class _Moved(MetaPathFinder, Loader):
    """Gives the module that is meant, under the name that was asked for."""

    def find_spec(self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def create_module(self, _spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = importlib.import_module(MOVED[module.__name__])


class _Absent(MetaPathFinder, Loader):
    """Gives modules whose every name is refused when it is used."""

    def find_spec(self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if _reason(fullname) else None

    def create_module(self, _spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        from tilelang import refusals

        answers = importlib.import_module("tilelang.utils.target")
        reason: str = getattr(refusals, _reason(module.__name__))

        def __getattr__(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            if name.startswith(("check_", "target_is_")) and hasattr(answers, name):
                return getattr(answers, name)
            return refusals.Refused(f"{module.__name__}.{name}", reason)

        setattr(module, "__getattr__", __getattr__)  # noqa: B010


def _reason(path: str) -> str:
    """The name of the reason why nothing of a module is here; empty for any other module."""
    while path.startswith("tilelang."):
        if path in _REASONS:
            return _REASONS[path]
        path = path.rpartition(".")[0]
    return ""


def submodule(package: str, name: str) -> ModuleType | None:
    """The module ``package.name``, which programs reach as an attribute without an import; None where there is none.

    A package that is meant by other paths has what is below these, too.
    """
    if name.startswith("_") or not hasattr(sys.modules[package], "__path__"):
        return None
    for path in (f"{package}.{name}", *(f"{alias}.{name}" for alias, home in MOVED.items() if home == package)):
        if importlib.util.find_spec(path) is not None:
            return importlib.import_module(path)
    return None


def is_bound(module: ModuleType, name: str, value: object) -> bool:
    """Whether a module is an attribute because a moved path was imported: Python binds what it has imported to the parent.

    Args:
        module: the module that has the attribute.
        name: the attribute's name.
        value: what it is.
    """
    parents = (path.rpartition(".")[0] for path in MOVED if path.rpartition(".")[2] == name)
    return any(sys.modules.get(parent) is module and sys.modules.get(f"{parent}.{name}") is value for parent in parents)


def install() -> None:
    """Makes the paths importable."""
    finders: list[Any] = sys.meta_path
    if not any(isinstance(finder, _Moved) for finder in finders):
        finders[:0] = [_Moved(), _Absent()]
