"""``tilelang.engine.lower``: a module to import ``lower`` from, and, called itself, that function."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from tilelang.jit.compiler import lower

__all__ = ["lower"]


class _Callable(ModuleType):
    """A module that may be called: importing it gives its package an attribute of the function's name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return lower(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
