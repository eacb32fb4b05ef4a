"""Import paths of public programs whose modules are elsewhere here: ``from tilelang.intrinsics.mma_layout import ...``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_INTRINSICS = "tilelang.cuda.intrinsics"
_MAPS = "tilelang.cuda.intrinsics.maps"
_EMITTER = "tilelang.cuda.intrinsics.emitter"

MOVED = {
    # path -> the module that is meant
    "tilelang.intrinsics": _INTRINSICS,
    "tilelang.intrinsics.mma_layout": _MAPS,
    "tilelang.intrinsics.utils": _MAPS,
    "tilelang.intrinsics.mma_macro_generator": _EMITTER,
    "tilelang.cuda.intrinsics.layout": _INTRINSICS,
    "tilelang.cuda.intrinsics.layout.mma_layout": _MAPS,
    "tilelang.cuda.intrinsics.layout.utils": _MAPS,
    "tilelang.cuda.intrinsics.macro": _INTRINSICS,
    "tilelang.cuda.intrinsics.macro.mma_macro_generator": _EMITTER,
    "tilelang.cuda.intrinsics.macro.wgmma_macro_generator": "tilelang.cuda.intrinsics.warp_group",
    "tilelang.cuda.language": "tilelang.language",
    "tilelang.cuda.language.intrinsics": "tilelang.language",
    "tilelang.backend": "tilelang.utils",
    "tilelang.backend.target": "tilelang.utils.target",
    "tilelang.jit.adapter": "tilelang.jit",
    "tilelang.jit.adapter.base": "tilelang.jit.adapter_base",
}


class _Moved(MetaPathFinder, Loader):
    """Gives the module that is meant, under the name that was asked for."""

    def find_spec(self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def create_module(self, _spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = importlib.import_module(MOVED[module.__name__])


def install() -> None:
    """Makes the paths importable."""
    finders: list[Any] = sys.meta_path
    if not any(isinstance(finder, _Moved) for finder in finders):
        finders.insert(0, _Moved())
