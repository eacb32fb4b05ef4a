"""Tensors at an address: ``T.make_tensor`` of a pointer argument or of an element of a table of pointers."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tilelang.interpreter.compiler import Compiler, Step
from tilelang.interpreter.expressions import compiled
from tilelang.interpreter.memory import Storage, View
from tilelang.interpreter.numbers import Element
from tilelang.interpreter.state import Lanes


def tensor_at(c: Compiler, stmt: Any, kind: Element, shape: list[Any], strides: list[Any]) -> Step:
    """The step that declares a tensor at an address; the memory there is the caller's.

    Args:
        c: the compiler.
        stmt: the declaration, whose data is the address.
        kind: type of the elements.
        shape, strides: each entry a number or a function of the state; no strides for a compact tensor.
    """
    slot, name, address = c.view(stmt.buffer), str(stmt.buffer.name), compiled(c, stmt.data)

    def run(x: Lanes) -> bool:
        sizes = [int(size(x)) for size in shape]
        steps = [int(stride(x)) for stride in strides] or None
        where = address(x)
        place = int(where if not np.ndim(where) else where[0])
        view = View(_storage(place, sizes, steps, kind, name), kind, sizes, steps, name)
        x.views[slot] = view
        return False

    return Step(run)


def _storage(place: int, sizes: list[int], steps: list[int] | None, kind: Element, name: str) -> Storage:
    if steps is None:
        count = int(np.prod(sizes, dtype="int64"))
    else:
        count = 1 + sum((size - 1) * step for size, step in zip(sizes, steps)) if 0 not in sizes else 0
    size = -(-count * kind.bits // 8)
    memory = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(place)) if size else np.zeros(0, np.uint8)
    return Storage(memory.reshape(1, -1), name, "", kind.bits, fresh=False)
