"""``T.print`` and ``T.device_assert``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tilelang.errors import KernelFailedError
from tilelang.interpreter.boxes import box_of, read
from tilelang.interpreter.compiler import Compiler
from tilelang.interpreter.expressions import compiled
from tilelang.interpreter.operators.table import rule
from tilelang.interpreter.state import Lanes
from tilelang.ir.expr import constant
from tilelang.tileop.debug import DeviceAssert, PrintBuffer, PrintLine

Effect = Callable[[Lanes], Any]


def _text(value: Any) -> str:
    if isinstance(value, (np.bool_, bool)):
        return str(int(value))
    return f"{float(value):g}" if np.issubdtype(np.asarray(value).dtype, np.floating) else str(int(value))


def _taking_part(x: Lanes, *values: Any) -> Iterator[tuple[Any, ...]]:
    """The values once where all lanes agree, else those of each active lane."""
    if x.mask is True and not any(map(np.ndim, values)) and x.nest is None:
        yield values
        return
    columns = [np.broadcast_to(value, (x.lanes,)) for value in values]
    yield from zip(*(column if x.mask is True else column[x.mask] for column in columns))


@rule(PrintLine)
def _print_line(c: Compiler, record: PrintLine) -> Effect:
    values = [compiled(c, constant(value)) for value in record.values]
    first, *texts = record.texts

    def effect(x: Lanes) -> None:
        for _, *row in _taking_part(x, 0, *(value(x) for value in values)):
            print(first + "".join(_text(each) + after for each, after in zip(row, texts)), flush=True)

    return effect


@rule(PrintBuffer)
def _print_buffer(c: Compiler, record: PrintBuffer) -> Effect:
    """A line an element: ``message name[i, j] = value``."""
    source = box_of(c, record.buffer)
    prefix = record.message + (" " if record.message else "")

    def effect(x: Lanes) -> None:
        box = source(x)
        values = read(x, box)
        for place in np.ndindex(*values.shape):
            inner = place[len(place) - len(box.extents) :]
            index = ", ".join(str(int(np.ravel(low)[0]) + offset) for low, offset in zip(box.mins, inner))
            print(f"{prefix}{box.view.name}[{index}] = {_text(values[place])}")
        print(end="", flush=True)

    return effect


@rule(DeviceAssert)
def _device_assert(c: Compiler, record: DeviceAssert) -> Effect:
    condition = compiled(c, constant(record.condition))

    def effect(x: Lanes) -> None:
        if all(holds for (holds,) in _taking_part(x, condition(x))):
            return
        raise KernelFailedError(x.run.name, record.text)

    return effect
