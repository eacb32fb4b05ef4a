"""Functions that a part of the package calls and a part above it provides.

No part imports what is above it (``testing/python/test_layers.py``). Where one has to call there, the function is named in this
table and found at its first use.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

PROVIDERS = {
    # name -> the module and the function
    "call_dtype": ("tilelang.language.casts", "call_dtype"),  # of dtypes: T.float16(x) is a conversion
    # of frontend: what operators, builtins, subscripts and annotations of the code that it rewrites mean
    "Var": ("tilelang.language.expressions", "Var"),
    "declared_pointer": ("tilelang.language.tensors", "declared_pointer"),
    "assertion": ("tilelang.language.debug", "assertion"),
    "extended_builtin": ("tilelang.language.builtins", "extended_builtin"),
    "extract_lane": ("tilelang.language.vectors", "extract_lane"),
    "if_then_else": ("tilelang.language.math", "if_then_else"),
    "pow": ("tilelang.language.math", "pow"),
    "public_function": ("tilelang.language.builtins", "public_function"),
    "with_own_of_branches": ("tilelang.transform.branch_variables", "with_own_of_branches"),
    "split_live_ranges": ("tilelang.transform.live_ranges", "split_live_ranges"),
    "place_variables": ("tilelang.ir.expr", "place_variables"),  # of layout: places of elements as expressions
    "records_of_all_tools": ("tilelang.jit.lookup", "records_of_all_tools"),  # of cache: its memory
    "build_kernel": ("tilelang.jit.compiler", "build_kernel"),  # of cache: KernelCache.cached compiles what it does not have
}


@functools.cache
def provided(name: str) -> Callable[..., Any]:
    """The function of a name in :data:`PROVIDERS`."""
    module, function = PROVIDERS[name]
    return getattr(import_module(module), function)
