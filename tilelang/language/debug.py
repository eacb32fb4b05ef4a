"""Looking into a running kernel: ``T.print`` and assertions."""

from __future__ import annotations

from typing import Any

from tilelang.errors import CompileError
from tilelang.frontend.access import as_region
from tilelang.frontend.builder import require_kernel
from tilelang.frontend.values import as_expr, is_symbolic
from tilelang.language.calls import is_tile
from tilelang.language.math import condition
from tilelang.tileop.debug import DeviceAssert, PrintBuffer, PrintValue


def print(obj: Any = None, msg: str = "", warp_group_id: int = 0, warp_id: int = 0) -> None:
    """Prints a value, every element of a buffer, or only a message, while the kernel runs.

    Args:
        obj: a scalar, a buffer or slice, a string, or None.
        msg: text before the value; the two may also come in the other order. Two texts are printed in the order given.
        warp_group_id, warp_id: accepted for compatibility; the first thread of the block prints buffers.
    """
    builder = require_kernel("T.print")
    if isinstance(obj, str):
        obj, msg = (None, f"{obj}{msg}") if isinstance(msg, str) else (msg, obj)
    if is_tile(obj):
        operator = PrintBuffer(as_region(obj, "T.print"), str(msg))
    else:
        operator = PrintValue(None if obj is None else as_expr(obj), str(msg))
    builder.perform(operator)


def device_assert(test: Any, msg: str = "") -> None:
    """Stops the kernel where ``test`` is false.

    Args:
        test: a run-time condition; a Python one is checked while the kernel is compiled.
        msg: what to say; the condition's place in the source by default.

    Raises:
        CompileError: the condition is a text, or known to be false.
    """
    builder = require_kernel("T.device_assert")
    if isinstance(test, str):
        raise CompileError("T.device_assert: the condition comes before the message", hint="T.device_assert(condition, text)")
    if not is_symbolic(test) and not isinstance(test, bool):
        test = bool(getattr(test, "value", test))
    if test is False:
        raise CompileError(f"the assertion is false whatever the arguments are{': ' + msg if msg else ''}")
    if test is not True:
        builder.perform(DeviceAssert(condition(test), str(msg)))


def device_assert_with_msg(test: Any, msg: str) -> None:
    """:func:`device_assert` with a message."""
    device_assert(test, msg)
