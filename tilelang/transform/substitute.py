"""Replacing variables in statements and expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.visit import walk


def substitute(node: Any, values: Mapping[Any, Any]) -> Any:
    """``node`` (a statement or expression) with the variables of ``values`` replaced."""
    if not values:
        return node
    return tvm_ffi.structural_map(node, [(ir.Var, lambda var: values.get(var, var))])


def copied(stmt: Any, values: Mapping[Any, Any]) -> Any:
    """A copy of a statement with values in place of variables; what it defines are new variables, as each has one definition."""
    inside = list(walk(stmt))
    defined = [each.var for each in inside if isinstance(each, ir.Bind)]
    defined += [each.loop_var for each in inside if isinstance(each, ir.For)]
    return substitute(stmt, {**{var: ir.Var(var.name, var.ty) for var in defined}, **values})
