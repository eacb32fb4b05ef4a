"""Replacing variables in statements and expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir


def substitute(node: Any, values: Mapping[Any, Any]) -> Any:
    """``node`` (a statement or expression) with the variables of ``values`` replaced."""
    if not values:
        return node
    return tvm_ffi.structural_map(node, [(ir.Var, lambda var: values.get(var, var))])
