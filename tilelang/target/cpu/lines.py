"""Reductions of contiguous lines in vector registers, for LLVM.

A line is combined into several registers, so that no addition waits for the one before it; these are combined into one, and its
lanes into one value. The last elements, fewer than a register has lanes, use narrower registers. (Partial results are not an
array: narrower loads would wait for its wide stores, 60 cycles for a line of 64 elements.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.target.cpu import helpers
from tilelang.target.cpu.emit import alloc, extern_call, local, loop, register_alloc, seq, span, splat

Combine = Callable[[Any, Any], Any]
Elements = Callable[[Any, int], Any]

_REGISTERS = 8
"""The most that hold partial results: an addition takes up to four cycles, and two can start in each."""

_FOLDS = {
    # kind -> LLVM's reduction of lanes that are floats, signed and unsigned integers
    "sum": {"float": "fadd", "int": "add", "uint": "add"},
    "abssum": {"float": "fadd"},
    "max": {"float": "fmax", "int": "smax", "uint": "umax"},
    "absmax": {"float": "fmax"},
    "min": {"float": "fmin", "int": "smin", "uint": "umin"},
    "bitand": {"int": "and", "uint": "and"},
    "bitor": {"int": "or", "uint": "or"},
    "bitxor": {"int": "xor", "uint": "xor"},
}
_ELEMENTS = {"float32": ("float", "f32"), "float64": ("double", "f64")}


def folds(kind: str, dtype: str) -> bool:
    """Whether registers of a type are combined; sums of integers wrap around, which sums of registers of them need not."""
    found = canonical(dtype)
    return found.bits in (32, 64) and found.kind in _FOLDS[kind] and (found.is_float or kind != "sum")


def reduce_line(
    kind: str, start: Any, combine: Combine, length: int, lanes: int, elements: Elements, make: Elements | None = None
) -> tuple[Any, Any]:
    """The statement that combines the elements of a line, and the result.

    Args:
        kind, combine: the operation; no NaN that ``combine`` skips reaches a fold.
        start: the value that leaves any other unchanged.
        length: elements of the line.
        lanes: those of the widest register.
        elements: ``(first, lanes)`` -> so many elements.
        make: ``(first, count)`` -> the statement that makes so many elements, called for consecutive pieces of the line: each is
            made just before it is read. The last one holds what is less than all registers.
    """
    total = local("total", (1,), str(start.ty))
    value = ir.BufferLoad(total, [ir.IntImm("int32", 0)])
    steps = [alloc(total)]
    for offset, count, width in _pieces(length, lanes):
        registers = _Registers(min(count, _REGISTERS), width, start, combine)
        made = make if offset == 0 else None
        # 71 elements in registers of 16: four whole ones, then one of 4, of 2, of 1; each width adds its fold to the result so
        # far.
        folded = fold(kind, registers.load(0), width)
        result = folded if offset == 0 else combine(value, folded)
        steps += [registers.combined(offset, count, elements, length, made), ir.BufferStore(total, result, value.indices)]
    return seq(steps), value


def _pieces(length: int, lanes: int) -> Iterator[tuple[int, int, int]]:
    """The first element, the number and the width of whole registers, from the widest to single elements."""
    offset = 0
    while offset < length:
        count = (length - offset) // lanes
        if count:
            yield offset, count, lanes
        offset += count * lanes
        # Fewer than `lanes` elements are left, so each narrower width appears at most once.
        lanes //= 2


class _Registers:
    """Partial results in ``count`` registers."""

    def __init__(self, count: int, lanes: int, start: Any, combine: Combine):
        self.count, self.lanes, self.start, self.combine = count, lanes, start, combine
        self.buffer = local("partial", (count * lanes,), str(start.ty))

    def load(self, register: int) -> Any:
        return ir.BufferLoad(self.buffer, [span(register * self.lanes, self.lanes)])

    def store(self, register: int, value: Any) -> Any:
        return ir.BufferStore(self.buffer, value, [span(register * self.lanes, self.lanes)])

    def combined(self, offset: int, count: int, elements: Elements, length: int, make: Elements | None) -> Any:
        """The statement that leaves what ``count`` registers of elements combine to in the first; ``make`` makes ``length``."""

        def chunk(first: Any, several: int) -> list[Any]:
            more = [elements(first + register * self.lanes, self.lanes) for register in range(several)]
            return [self.store(r, self.combine(self.load(r), value)) for r, value in enumerate(more)]

        full, rest = divmod(count, self.count)
        width = self.count * self.lanes
        end = offset + full * width

        def made(first: Any, several: int) -> Any:
            return make(first, several) if make is not None and several else None

        return seq(
            register_alloc(self.buffer, self.lanes),
            [self.store(register, splat(self.start, self.lanes)) for register in range(self.count)],
            loop("r", full, lambda r: seq(made(offset + r * width, width), chunk(offset + r * width, self.count))),
            made(end, length - end),
            chunk(end, rest),
            self._folds(),
        )

    def _folds(self) -> list[Any]:
        """Combines all registers into the first, half of them at a time."""
        steps, count = [], self.count
        while count > 1:
            # Of five registers, 0 and 1 take 3 and 4, and 2 stays; of the three left, 0 takes 2; then 0 takes 1.
            half = (count + 1) // 2
            steps += [self.store(r, self.combine(self.load(r), self.load(half + r))) for r in range(count - half)]
            count = half
        return steps


def fold(kind: str, register: Any, lanes: int) -> Any:
    """The reduction of the lanes of a register to one value.

    Args:
        kind: the reduction, as in ``T.reduce_<kind>``.
        register: the vector.
        lanes: how many it has.
    """
    if lanes == 1:
        return register
    dtype = canonical(str(register.ty)).base
    return extern_call(_helper(kind, dtype, lanes), [register], dtype)


def _helper(kind: str, dtype: str, lanes: int) -> str:
    """The name of the helper function that combines lanes."""
    found = canonical(dtype)
    operation = _FOLDS[kind][found.kind]
    name = f"tl_fold_{operation}_{dtype}_{lanes}"
    if name not in helpers.HELPERS:
        element, suffix = _ELEMENTS.get(dtype, (f"i{found.bits}", f"i{found.bits}"))
        reduction, vector = f"@llvm.vector.reduce.{operation}.v{lanes}{suffix}", f"<{lanes} x {element}>"
        # Minus zero leaves every number as it is; plus zero would make a sum of negative zeros positive.
        first, types = (f"{element} -0.0, ", f"{element}, {vector}") if operation == "fadd" else ("", vector)
        # Lanes may be added in any order. No NaN is among those of a maximum: `combine` has left all of them out.
        flags = {"fadd": "reassoc ", "fmax": "nnan ", "fmin": "nnan "}.get(operation, "")
        helpers.register(
            name,
            f"declare {element} {reduction}({types})\n"
            f"define {element} @{name}({vector} %x) alwaysinline {{\n"
            f"  %r = call {flags}{element} {reduction}({first}{vector} %x)\n  ret {element} %r\n}}",
        )
    return name
