"""Which code may signal what groups of threads wait for: a barrier of the block between the two would wait for ever."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Union

from tilelang.target.cuda.ir.code import Code, GroupCode, Leaf, find, leaves
from tilelang.target.cuda.ir.instructions import Evaluate, Instruction, SetRegisters
from tilelang.target.cuda.ir.values import Call, Element, Number, Pointer, Value, walk_value

Signal = tuple[str, Union[int, None]]
"""An mbarrier: its array and its place there, None where that is computed. A hardware barrier: its number, of no array."""


def may_be_signalled(waiting: Iterable[GroupCode], behind: Collection[Code], in_turns: bool) -> bool:
    """Whether threads of some groups may wait for what code behind them does. Those that give registers away reach nothing else.

    Args:
        waiting: groups in the order of the program, which may run beside each other.
        behind: what comes after all of them, or beside.
        in_turns: whether waits for a phase that is computed, as of a ring, may be for it, too.
    """
    awaited: set[Signal] = set()
    for group in waiting:
        if any(find(group, SetRegisters)):
            return True
        found = list(leaves(group))
        # Of foreign code nothing is known.
        if group.takes_part and not any(leaf.waits or leaf.hands_over or leaf.synchronises for leaf in found):
            return True
        for leaf in found:
            if leaf.waits and not any(_signals(leaf)):  # a loop on an atomic access
                return True
            if leaf.waits and (in_turns or _has_constant_phase(leaf)):
                awaited.update(_signals(leaf))
    # A leaf that waits for an mbarrier does not signal it; one that waits at a hardware barrier does.
    signalling = (leaf for code in behind for leaf in leaves(code) if leaf.hands_over or not leaf.waits)
    return bool(awaited) and any(_is_one(signal, awaited) for leaf in signalling for signal in _signals(leaf))


def _is_one(signal: Signal, awaited: Iterable[Signal]) -> bool:
    return any(signal[0] == name and (place == signal[1] or None in (place, signal[1])) for name, place in awaited)


def _has_constant_phase(leaf: Leaf) -> bool:
    calls = [each.value for each in find(leaf, Evaluate) if isinstance(each.value, Call)]
    return all(isinstance(call.arguments[-1], Number) for call in calls)


def _signals(leaf: Leaf) -> Iterator[Signal]:
    """The barriers that a leaf names, among all elements that it does."""
    for instruction in find(leaf, Instruction):
        for operand, _, _ in instruction.operands():
            for value in walk_value(operand):
                if isinstance(value, Element):
                    yield value.array.name, _place(value.index)
                elif isinstance(value, Pointer):
                    yield value.array.name, _place(*value.offsets)
        if isinstance(instruction, Evaluate) and isinstance(instruction.value, Call) and leaf.waits and leaf.hands_over:
            yield "", _place(instruction.value.arguments[0])


def _place(*offsets: Value) -> int | None:
    numbers: list[Any] = [offset.value for offset in offsets if isinstance(offset, Number)]
    return sum(numbers) if len(numbers) == len(offsets) else None
