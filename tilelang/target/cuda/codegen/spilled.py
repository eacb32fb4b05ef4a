"""Loops over arrays that registers cannot hold stay loops.

A loop over an array is written out so that the array can be registers, which have no addresses. One of more words than a thread
has registers, alone or with others that the loop numbers, lies in local memory either way, and device compilers take up to
minutes over what is written out for it: 10 s for the sums of 128 rows of 128 int64 by one warp, 0.1 s with a loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir.memory import is_array, is_fragment
from tilelang.target.cuda.codegen.emitter import Emitter
from tilelang.target.cuda.ir.code import LoopCode, find
from tilelang.target.cuda.ir.instructions import DeclareArray, Instruction, PinRegisters, WarpGroupMultiply
from tilelang.target.cuda.ir.values import Element, Name, Pointer, Value, walk_value

_REGISTERS = 255
"""Words that a thread can have in registers."""

_MOST_WORDS = 2 * _REGISTERS
"""Of arrays of fewer, a good part stays in registers."""

_AT_ONCE = 8
"""The unroll factor of a loop over such an array."""


def roll_spilled(code: Any, emitter: Emitter) -> None:
    """Has the loops of a kernel's code that number elements of arrays in local memory written out in part only."""
    words = {**_words(emitter), **{each.array.name: _size(each.array.dtype, each.count) for each in find(code, DeclareArray)}}
    # An instruction of a warp group names its registers one by one, in its text.
    pinned = {array for each in (*find(code, WarpGroupMultiply), *find(code, PinRegisters)) for array, _ in _places(each)}
    if sum(words.values()) <= _MOST_WORDS:
        return
    numbered = {loop: set(_numbered(loop)) for loop in find(code, LoopCode) if loop.unroll == 0}
    # What one loop numbers is in use together: of two arrays of 300 words neither stays in registers.
    together = [arrays for arrays in numbered.values() if sum(words.get(array, 0) for array in arrays) > _MOST_WORDS]
    spilled = set().union(*together) - pinned
    for loop, arrays in numbered.items():
        if arrays & spilled:
            loop.unroll = _AT_ONCE


def _words(e: Emitter) -> Mapping[str, int]:
    """The words of each thread in a kernel's arrays and fragments."""
    found = {}
    for buffer in e.tree.allocations:
        if is_array(buffer) or is_fragment(buffer):
            count = e.layouts.held(buffer)
            # The results of a reducer are combined by shuffles, one at a time: each takes a register of its own, however narrow,
            # and a thread that has more of them than registers keeps none of them there.
            words = count * _MOST_WORDS // _REGISTERS if buffer in e.layouts.reducers else _size(str(buffer.dtype), count)
            found[e.names.arrays[buffer]] = words
    return found


def _size(dtype: str, count: int) -> int:
    return count * canonical(dtype).stored_bits // 32


def _numbered(loop: LoopCode) -> Iterator[str]:
    """The arrays whose elements are numbered by a counter of the loop."""
    counters = {name for name, _ in loop.counters}
    for instruction in find(loop.body, Instruction):
        for array, at in _places(instruction):
            if any(isinstance(part, Name) and part in counters for part in walk_value(at)):
                yield array


def _places(instruction: Instruction) -> Iterator[tuple[str, Value]]:
    """The elements that an instruction names: array, and each part of the offset."""
    for operand, *_ in instruction.operands():
        for value in walk_value(operand):
            if isinstance(value, Element):
                yield value.array.name, value.index
            elif isinstance(value, Pointer):
                yield from ((value.array.name, offset) for offset in value.offsets or (value,))
