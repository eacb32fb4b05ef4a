"""Memory scopes: in which memory a buffer lies, by the names that TVM's buffers have. No other module compares these names.

Each function takes a buffer or a :class:`~tilelang.ir.region.Region` of one.
"""

from __future__ import annotations

from typing import Any

GLOBAL = "global"
"""Tensors in global memory; the scope of a parameter is the empty string, which means the same."""
SHARED, STATIC_SHARED = "shared.dyn", "shared"
"""Tiles in a block's shared memory; both names mean the same."""
SHARED_FRAGMENT = "shared.fragment"
"""Fragments of a program that a target keeps in shared memory: shared tiles, but for what the language says of fragments."""
FRAGMENT = "local.fragment"
"""Tiles that are spread over the registers of a block's threads."""
ARRAY, VARIABLE = "local", "local.var"
"""Arrays and variables that each thread has of its own."""
BARRIER, CLUSTER_BARRIER, TENSOR_MEMORY = "shared.barrier", "shared.cluster_barrier", "shared.tmem"
"""Buffers in shared memory that are no tiles: mbarriers, and addresses of tiles in tensor memory."""


def scope_of(place: Any) -> str:
    """The scope of a buffer or region."""
    scope = place.scope
    return scope if isinstance(scope, str) else scope()


def is_global(place: Any) -> bool:
    """Whether it is a tensor in global memory."""
    return scope_of(place) in (GLOBAL, "")


def is_shared(place: Any) -> bool:
    """Whether it is a tile in shared memory."""
    return scope_of(place) in (SHARED, STATIC_SHARED, SHARED_FRAGMENT)


def is_memory(place: Any) -> bool:
    """Whether it is a tensor or a shared tile: any thread may access any of its elements by index."""
    return is_global(place) or is_shared(place)


def lies_in_shared(place: Any) -> bool:
    """Whether it takes shared memory: a tile, or barriers."""
    return scope_of(place).startswith("shared")


def is_barrier(place: Any) -> bool:
    """Whether it is an array of mbarriers."""
    return scope_of(place) in (BARRIER, CLUSTER_BARRIER)


def is_fragment(place: Any) -> bool:
    """Whether it is a tile in the block's registers."""
    return scope_of(place) == FRAGMENT


def is_declared_fragment(place: Any) -> bool:
    """Whether a program calls it a fragment, wherever its elements are kept."""
    return scope_of(place) in (FRAGMENT, SHARED_FRAGMENT)


def is_array(place: Any) -> bool:
    """Whether it is an array of each thread."""
    return scope_of(place) == ARRAY


def is_variable(place: Any) -> bool:
    """Whether it is a variable of each thread."""
    return scope_of(place) == VARIABLE


def is_local(place: Any) -> bool:
    """Whether it is an array or a variable of each thread."""
    return scope_of(place) in (ARRAY, VARIABLE)


def lies_in_registers(place: Any) -> bool:
    """Whether it is a fragment, or an array or variable of each thread."""
    return scope_of(place).startswith("local")
