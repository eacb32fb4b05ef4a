"""Atomic updates of tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilelang.interpreter.atomics import update
from tilelang.interpreter.boxes import box_of, positions, read
from tilelang.interpreter.compiler import Compiler
from tilelang.interpreter.numbers import convert
from tilelang.interpreter.operators.copy import reshaped
from tilelang.interpreter.operators.table import rule
from tilelang.interpreter.state import Lanes
from tilelang.tileop.atomic import AtomicTile


@rule(AtomicTile)
def _atomic_tile(c: Compiler, record: AtomicTile) -> Callable[[Lanes], Any]:
    source, target = box_of(c, record.src), box_of(c, record.dst)

    def effect(x: Lanes) -> None:
        src, dst = source(x), target(x)
        value = reshaped(convert(read(x, src), src.view.kind, dst.view.kind), src, dst)
        at, inside = positions(x, dst)
        shape = np.broadcast_shapes(at.shape, value.shape)
        active = np.broadcast_to(inside, shape)
        if len(shape) > len(dst.extents) and x.mask is not True:
            active = active & x.mask.reshape((-1,) + (1,) * len(dst.extents))
        chosen = active.ravel()
        at, value = (np.broadcast_to(each, shape).ravel()[chosen] for each in (at, value))
        update(x, dst.view, at, value, record.op, record.memory_order)

    return effect
