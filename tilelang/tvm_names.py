"""``tilelang.tvm``, and the few names that programs use on TVM's expressions but that stock TVM does not have.

Programs write helpers over scalar expressions with ``from tvm import tirx``: they annotate with ``tirx.PrimExpr`` and ask a value
for its ``dtype``. Both are added when ``tvm.tirx`` is loaded, by whomever; this module does not load it.
"""

from __future__ import annotations

import importlib.abc
import sys
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_HOME = "tvm.tirx"


def __getattr__(name: str) -> Any:
    if name not in ("tvm", "DataType"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import tvm
    import tvm.testing

    return tvm if name == "tvm" else tvm.DataType


def _dtype(expr: Any) -> Any:
    """The element type of a scalar or vector expression, as :class:`tilelang.dtypes.DType`."""
    from tilelang.dtypes import canonical
    from tilelang.errors import CompileError

    try:
        return canonical(str(expr.ty))
    except CompileError:
        raise AttributeError(f"an expression of type {expr.ty} has no dtype") from None


def _add_names(tirx: ModuleType) -> None:
    ir = sys.modules["tvm.ir"]
    of_buffer = ir.Var.dtype
    tirx.PrimExpr = ir.Expr
    ir.Expr.dtype = property(_dtype)
    ir.Var.dtype = property(lambda var: of_buffer.fget(var) if tirx.buffer.is_buffer_var(var) else _dtype(var))


class _WhenLoaded(importlib.abc.MetaPathFinder):
    """Lets the import of ``tvm.tirx`` end with :func:`_add_names`."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name == _HOME else None
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                _add_names(module)

            spec.loader.exec_module = exec_module
        return spec


def install() -> None:
    """Adds the names now where TVM is loaded, else when it will be."""
    if _HOME in sys.modules:
        _add_names(sys.modules[_HOME])
    elif not any(isinstance(finder, _WhenLoaded) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WhenLoaded())
