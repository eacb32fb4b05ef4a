"""Names of TVM that programs reach through ``tilelang.tvm``, where the TVM of this package has them elsewhere."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping
from types import ModuleType
from typing import Any

_HOMES = {
    # path below tvm -> module, or module:name
    "arith": "tvm.sym",
    "ffi": "tvm_ffi",
    "get_global_func": "tvm_ffi:get_global_func",
    "ir.structural_equal": "tvm_ffi:structural_equal",
    "ir.structural_hash": "tvm_ffi:structural_hash",
    "testing.requires_cuda": "tilelang.testing:requires_cuda",
    "testing.requires_llvm": "tilelang.testing:requires_llvm",
    "testing.requires_package": "tilelang.testing:requires_package",
    "tirx.stmt_functor": "tilelang.tvm_moved",
    "TVMError": "tilelang.errors:TileLangError",
}


def add(tvm: ModuleType) -> None:
    """Adds those that ``tvm`` lacks."""
    for path, home in _HOMES.items():
        place, _, name = path.rpartition(".")
        parent = importlib.import_module(f"{tvm.__name__}.{place}") if place else tvm
        if not hasattr(parent, name):
            module, _, attribute = home.partition(":")
            found = importlib.import_module(module)
            setattr(parent, name, getattr(found, attribute) if attribute else found)


def post_order_visit(node: Any, visit: Callable[[Any], None]) -> None:
    """Calls ``visit`` on a statement's or expression's parts, then on itself."""
    import tvm_ffi

    def call(part: Any) -> None:
        visit(part)

    tvm_ffi.structural_walk(node, [(tvm_ffi.Object, call)])


def pre_order_visit(node: Any, visit: Callable[[Any], bool | None]) -> None:
    """Calls ``visit`` on a statement or expression, then on its parts unless the answer was False."""
    import tvm_ffi

    def call(part: Any) -> Any:
        return tvm_ffi.WalkResult.SKIP if visit(part) is False else tvm_ffi.WalkResult.ADVANCE

    tvm_ffi.structural_walk(node, [(tvm_ffi.Object, call)], order="pre")


def substitute(node: Any, values: Mapping[Any, Any]) -> Any:
    """A statement or expression with variables replaced."""
    import tvm_ffi

    from tilelang.ir import nodes as ir

    return tvm_ffi.structural_map(node, [(ir.Var, lambda var: values.get(var, var))])


def ir_transform(stmt: Any, preorder: None, postorder: Callable[[Any], Any], only_enable: Collection[str] | None = None) -> Any:
    """A statement with parts of it replaced, the inner ones first.

    Args:
        stmt: the statement.
        preorder: None.
        postorder: takes a statement or expression; returns what takes its place, or None to keep it.
        only_enable: the types that it is asked for, as ``"tirx.Evaluate"``; None for all.

    Raises:
        UnsupportedError: ``preorder`` is a function.
    """
    import tvm_ffi

    from tilelang.errors import UnsupportedError

    if preorder is not None:
        raise UnsupportedError("ir_transform replaces parts after those inside of them: preorder is None")
    names = None if only_enable is None else {key.rpartition(".")[2] for key in only_enable}

    def call(part: Any) -> Any:
        found = postorder(part) if names is None or type(part).__name__ in names else None
        return part if found is None else found

    return tvm_ffi.structural_map(stmt, [(tvm_ffi.Object, call)])
