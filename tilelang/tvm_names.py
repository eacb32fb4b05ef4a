"""``tilelang.tvm``, and what programs use on TVM's expressions but stock TVM does not have.

Programs write helpers over scalar expressions with ``from tvm import tirx``: they annotate with ``PrimExpr``, ask a value
for its ``dtype``, negate unsigned values (which wrap), and write ``x ** y``. All of it is added when ``tvm.tirx`` is loaded, by
whomever; this module does not load it. Likewise TVM's targets and pass contexts are watched from their loading on, see
:mod:`tilelang.target.enclosing` and :mod:`tilelang.transform.enclosing`.
"""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


def __getattr__(name: str) -> Any:
    if name not in ("tvm", "DataType"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import tvm
    import tvm.testing

    from tilelang import tvm_moved

    tvm_moved.add(tvm)
    return tvm if name == "tvm" else tvm.DataType


def _dtype(expr: Any) -> Any:
    """The element type of a scalar or vector expression, as :class:`tilelang.dtypes.DType`."""
    from tilelang.dtypes import canonical
    from tilelang.errors import CompileError

    try:
        return canonical(str(expr.ty))
    except CompileError:
        raise AttributeError(f"an expression of type {expr.ty} has no dtype") from None


def _add_names(tirx: Any) -> None:
    ir: Any = sys.modules["tvm.ir"]
    of_buffer = ir.Var.dtype
    tirx.PrimExpr = ir.PrimExpr = ir.Expr
    tirx.Call, tirx.StringImm, tirx.SizeVar = ir.Call, ir.StringImm, ir.Var
    ir.Expr.dtype = property(_dtype)
    ir.Var.dtype = property(lambda var: of_buffer.fget(var) if tirx.buffer.is_buffer_var(var) else _dtype(var))
    ir.Expr.__getitem__ = _subscript(ir.Expr.__getitem__, ir.Expr)
    ir.expr.ExprOperand.__neg__ = _negation(ir.expr.ExprOperand.__neg__, tirx)
    ir.expr.ExprOperand.__pos__ = _plus
    ir.expr.ExprOperand.__iter__ = _not_iterable
    ir.expr.ExprOperand.__pow__ = _power
    ir.expr.ExprOperand.__rpow__ = lambda exponent, base: _power(base, exponent)


def _subscript(of_expr: Callable[[Any, Any], Any], expression: type) -> Callable[[Any, Any], Any]:
    """``A[i]`` by a ``T.alloc_var`` or ``T.dynamic``, which TVM refuses: helper functions subscript without the tracer."""

    def read(index: Any) -> Any:
        if isinstance(index, slice):
            return slice(read(index.start), read(index.stop), read(index.step))
        is_value = not isinstance(index, expression) and hasattr(index, "__tvm_ffi_object__")
        return index.__tvm_ffi_object__() if is_value else index

    def __getitem__(value: Any, index: Any) -> Any:
        from tilelang.frontend.builder import noted

        return noted(of_expr(value, tuple(map(read, index)) if isinstance(index, (tuple, list)) else read(index)))

    return __getitem__


def _not_iterable(value: Any) -> Any:
    """``for x in A``: TVM's values have subscripts without an end, by which Python would go on for ever."""
    from tilelang.errors import OperandError
    from tilelang.errors.tracing import LOOP_OVER_A_TENSOR

    what = f"the tensor {value.name}" if hasattr(value, "shape") else "a run-time value"
    raise OperandError(f"{what} cannot be iterated over", hint=LOOP_OVER_A_TENSOR)


def _plus(x: Any) -> Any:
    """``+x``, an operator that TVM's values lack."""
    is_number = not hasattr(x, "shape") and str(x.ty) != "bool"
    return x if is_number else 0 + x  # of a bool its number, and of a tensor the error of every operator


def _power(base: Any, exponent: Any) -> Any:
    from tilelang.language.math import pow

    return pow(base, exponent)


def _negation(of_signed: Callable[[Any], Any], tirx: ModuleType) -> Callable[[Any], Any]:
    """``-x``; TVM multiplies by -1, which no unsigned type and no bool has."""

    def __neg__(x: Any) -> Any:
        kind = str(getattr(x, "ty", ""))
        if kind == "bool":
            return 0 - x
        if isinstance(x, tirx.FloatImm):  # arithmetic in a narrow type may not keep infinity
            return tirx.FloatImm(kind, -x.value)
        if not kind.startswith("uint"):
            return of_signed(x)
        if isinstance(x, tirx.IntImm):
            return tirx.IntImm(kind, -x.value % (1 << x.ty.dtype.bits))
        return tirx.const(0, kind) - x

    return __neg__


def _observe_targets(home: ModuleType) -> None:
    from tilelang.target import enclosing

    enclosing.observe(home)


def _observe_pass_contexts(home: ModuleType) -> None:
    from tilelang.transform import enclosing

    enclosing.observe(home)


_WHEN_LOADED = {"tvm.tirx": _add_names, "tvm.target.target": _observe_targets, "tvm.ir.transform": _observe_pass_contexts}


_ELSEWHERE = {
    # path of earlier releases, or of TVM as another package has it -> the module that is meant
    "tvm.arith": "tvm.sym",
    "tvm.tir": "tvm.tirx",
    "tvm.tir.stmt_functor": "tilelang.tvm_moved",
    "tvm.tirx.stmt_functor": "tilelang.tvm_moved",
}


def _meant(name: str, path: Any, target: Any) -> str:
    """The module that is meant by a name; empty where it is the one of this name."""
    parent, _, last = name.rpartition(".")
    home = sys.modules.get(parent)
    if name in _ELSEWHERE:
        return "" if PathFinder.find_spec(name, path, target) else _ELSEWHERE[name]
    if home is not None and name.startswith("tvm.") and home.__name__ != parent:
        return f"{home.__name__}.{last}"  # the file would be found below the home, and run a second time: its types would differ
    return ""


class _Elsewhere(importlib.abc.Loader):
    """Gives a module under another name than its own."""

    def __init__(self, home: str) -> None:
        self.home = home

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = importlib.import_module(self.home)


class _WhenLoaded(importlib.abc.MetaPathFinder):
    """Lets the imports of modules of TVM end with what :data:`_WHEN_LOADED` has for them; finds those of :data:`_ELSEWHERE`."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        home = _meant(name, path, target)
        if home:
            return ModuleSpec(name, _Elsewhere(home))
        spec = PathFinder.find_spec(name, path, target) if name in _WHEN_LOADED else None
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                _WHEN_LOADED[name](module)

            spec.loader.exec_module = exec_module
        return spec


def install() -> None:
    """Does it now for what is loaded, for the rest when it will be."""
    for name in _WHEN_LOADED.keys() & sys.modules.keys():
        _WHEN_LOADED[name](sys.modules[name])
    if not any(isinstance(finder, _WhenLoaded) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WhenLoaded())
