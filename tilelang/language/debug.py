"""Looking into a running kernel: ``T.print`` and assertions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from tilelang.errors import CompileError, MisplacedError, OperandError
from tilelang.frontend.access import as_region
from tilelang.frontend.bounded import note_bounds
from tilelang.frontend.builder import current, require_kernel
from tilelang.frontend.texts import Text
from tilelang.frontend.values import as_expr, is_symbolic
from tilelang.ignored import ignored, unless
from tilelang.ir import nodes as ir
from tilelang.ir.span import user_location
from tilelang.ir.visit import walk_expr
from tilelang.language.calls import is_tile
from tilelang.language.math import condition
from tilelang.tileop.debug import DeviceAssert, PrintBuffer, PrintLine


def print(*values: Any, obj: Any = None, msg: str = "", warp_group_id: int = 0, warp_id: int = 0) -> None:
    """Prints a line of texts and values while the kernel runs, and every element of buffers, each on a line of its own.

    Args:
        values: scalars, buffers, slices, texts (f-strings of run-time values too), in order; a value and one text may come in
            either order, followed by ``warp_group_id`` and ``warp_id``.
        obj, msg: a value and the text before it, by name.
        warp_group_id, warp_id: accepted for compatibility; the first thread of the block prints buffers.
    """
    ignored("T.print", warp_group_id=unless(0, warp_group_id), warp_id=unless(0, warp_id))
    if len(values) > 2 and isinstance(values[1], str) and all(isinstance(number, int) for number in values[2:]):
        values = values[:2]
    values = (*((msg,) if msg else ()), *(() if obj is None else (obj,)), *values)
    if len(values) == 2 and isinstance(values[1], str) and not isinstance(values[0], str):
        values = values[::-1]
    print_in_order(values)


def print_in_order(values: tuple[Any, ...]) -> None:
    """Prints the values, as :func:`print` does, in this order."""
    builder = require_kernel("T.print")
    texts, shown = [""], list[Any]()
    for piece in _pieces(values):
        if isinstance(piece, str):
            texts[-1] += piece
        elif not is_tile(piece):
            texts.append("")
            shown.append(as_expr(piece))
        else:
            if shown:
                builder.perform(PrintLine(tuple(texts), tuple(shown)))
            builder.perform(PrintBuffer(as_region(piece, "T.print"), "" if shown else texts[0].rstrip()))
            texts, shown = [""], []
    if shown or texts[0].strip() or not values:
        builder.perform(PrintLine(tuple(texts), tuple(shown)))


def _pieces(values: tuple[Any, ...]) -> Iterator[Any]:
    """The values in order: with blanks between those of a line, and the parts of a text in its place."""
    for number, value in enumerate(values):
        if number and not is_tile(values[number - 1]):
            yield " "
        yield from value.parts if isinstance(value, Text) else (value,)


def device_assert(test: Any, msg: str = "", no_stack_info: bool = False) -> None:
    """Stops the kernel where ``test`` is false.

    Args:
        test: a run-time condition; a Python one is checked while the kernel is compiled.
        msg: what to say, after the statement's place in the source.
        no_stack_info: whether to leave out the place.

    Raises:
        OperandError: the condition is a text, or known to be false.
    """
    builder = require_kernel("T.device_assert")
    if isinstance(test, str):
        raise OperandError("T.device_assert: the condition comes before the message", hint="T.device_assert(condition, text)")
    if not is_symbolic(test) and not isinstance(test, bool):
        test = bool(getattr(test, "value", test))
    if test is False:
        raise CompileError(f"the assertion is false for all arguments{': ' + msg if msg else ''}")
    if test is not True:
        at = None if no_stack_info else user_location()
        builder.perform(DeviceAssert(condition(test), str(msg), f"{PurePath(at.file).name}:{at.line}" if at else ""))


def assertion(test: Any, msg: str = "") -> None:
    """:func:`device_assert` in a kernel; before one, what every call is checked for.

    Args:
        test: a condition; before a kernel one over sizes and integer arguments.
        msg: what to say where it does not hold.

    Raises:
        MisplacedError: before a kernel, the host does not know the condition's value, or a call may not reach it.
    """
    builder = current("assert")
    if builder.kernel is not None:
        return device_assert(test, msg)
    test = condition(test)
    if not builder.in_every_call() or any(isinstance(part, (ir.Call, ir.TensorLoad)) for part in walk_expr(test)):
        raise MisplacedError(
            "an assert before a kernel is over sizes and integer arguments, and not below a run-time condition",
            hint="put it into the kernel, which checks any condition",
        )
    note_bounds(builder, test)
    builder.evaluate(ir.Call(ir.Op.get("tirx.assume"), [test, ir.StringImm(str(msg))], ret_ty="bool"))


def device_assert_with_msg(test: Any, msg: str) -> None:
    """:func:`device_assert` with a message."""
    device_assert(test, msg)
