"""Barriers by number: the hardware's, and those of a list, as older releases of the language had them.

A kernel makes one list of barriers, ``T.create_list_of_mbarrier(128, 128)``, and names them by their numbers:
``T.mbarrier_wait_parity(0, parity)``, ``T.mbarrier_arrive(ko % 2)``. The list is a buffer of ``T.alloc_barrier``.
"""

from __future__ import annotations

from typing import Any

from tilelang.errors import MisplacedError, OperandError, OptionError
from tilelang.frontend.builder import require_kernel
from tilelang.frontend.values import as_operand, is_symbolic
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.language.memory import alloc_barrier
from tilelang.tileop.thread import NAMED_BARRIERS, counts_warps


def create_list_of_mbarrier(*arrive_counts: Any) -> Any:
    """Makes the kernel's list of mbarriers.

    Args:
        arrive_counts: the arrivals that complete a phase of each, as numbers or as one list.

    Returns:
        The barriers; an element of them is a barrier as those of ``T.alloc_barrier`` are.

    Raises:
        MisplacedError: no kernel is open, or it has such a list.
    """
    builder = require_kernel("T.create_list_of_mbarrier")
    if builder.barriers is not None:
        raise MisplacedError("T.create_list_of_mbarrier: this kernel has a list of barriers already")
    given = arrive_counts[0] if len(arrive_counts) == 1 and isinstance(arrive_counts[0], (list, tuple)) else arrive_counts
    builder.barriers = alloc_barrier(list(given))
    return builder.barriers


def get_mbarrier(number: Any) -> Any:
    """The barrier of a number in the list of ``T.create_list_of_mbarrier``."""
    return numbered(number, "T.get_mbarrier")


def is_number(value: Any) -> bool:
    """Whether an argument names a barrier by its number, rather than as an element of a buffer."""
    operand = as_operand(value)
    if isinstance(operand, ir.PrimExpr):
        return not isinstance(operand, ir.TensorLoad) and not ir.is_buffer_var(operand)
    return isinstance(operand, int)


def numbered(number: Any, what: str) -> Any:
    """The barrier of a number.

    Args:
        number: an int or an expression.
        what: the function that asks, for errors.

    Raises:
        OperandError: the kernel has no list of barriers.
    """
    barriers = require_kernel(what).barriers
    if barriers is None:
        raise OperandError(f"{what}: the kernel has no list of barriers", hint="T.alloc_barrier makes barriers, as buffers")
    return barriers[number]


def named_barrier(number: Any, what: str) -> Any:
    """The number of a hardware barrier, an int32 expression.

    Args:
        number: the expression.
        what: the function that it is given to, for errors.

    Raises:
        OptionError: the hardware has no such barrier.
    """
    if not is_symbolic(number) and as_int(number) not in NAMED_BARRIERS:
        raise OptionError(f"{what}: a block has the barriers 0 to {NAMED_BARRIERS[-1]}, and none of number {number}")
    return number


def threads_of_warps(count: Any, what: str) -> Any:
    """How many threads meet at a hardware barrier, an int32 expression.

    Args:
        count: the expression.
        what: the function that it is given to, for errors.

    Raises:
        OptionError: they are no whole warps, which are what the hardware counts.
    """
    if not is_symbolic(count) and not counts_warps(as_int(count)):
        raise OptionError(
            f"{what}: the threads that meet at a barrier are whole warps, and {count} is no positive multiple of 32"
        )
    return count
