"""Values of one thread: variables, constants, arithmetic, calls of device functions, elements of arrays and pointers to them.

Python's operators build them, and fold constants and neutral operands: ``thread // 32 * 4 + 0`` is two operations. ``//`` and
``%`` are C's, which equal Python's only for operands that are not negative; numbers of threads and offsets are not.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from tilelang.ir.access import ADDRESS, READ
from tilelang.records import Record
from tilelang.target.cuda.ir.access import Access, Agent


class Value(Record):
    """Anything that can stand in an expression."""

    def __add__(self, other: Any) -> Value:
        other = value_of(other)
        if isinstance(self, Number) and isinstance(other, Number):
            return Number(self.value + other.value)
        return self if other == ZERO else other if self == ZERO else Binary("+", self, other)

    def __radd__(self, other: Any) -> Value:
        return value_of(other) + self

    def __sub__(self, other: Any) -> Value:
        other = value_of(other)
        return self if other == ZERO else Binary("-", self, other)

    def __mul__(self, other: Any) -> Value:
        other = value_of(other)
        if isinstance(self, Number) and isinstance(other, Number):
            return Number(self.value * other.value)
        if self == ZERO or other == ZERO:
            return ZERO
        return self if other == ONE else other if self == ONE else Binary("*", self, other)

    def __floordiv__(self, other: Any) -> Value:
        other = value_of(other)
        return self if other == ONE else Binary("/", self, other)

    def __mod__(self, other: Any) -> Value:
        return Binary("%", self, value_of(other))

    def __and__(self, other: Any) -> Value:
        return Binary("&", self, value_of(other))

    def __or__(self, other: Any) -> Value:
        return Binary("|", self, value_of(other))

    def __xor__(self, other: Any) -> Value:
        return Binary("^", self, value_of(other))

    def __rshift__(self, other: Any) -> Value:
        return Binary(">>", self, value_of(other))

    def __lshift__(self, other: Any) -> Value:
        return Binary("<<", self, value_of(other))

    def is_(self, relation: str, other: Any) -> Value:
        """A comparison: ``tid.is_("<", 128)``."""
        return Binary(relation, self, value_of(other))


class Name(Value):
    """A variable, a parameter or a builtin."""

    text: str


class Number(Value):
    """An integer constant of type ``int``."""

    value: int


ZERO, ONE = Number(0), Number(1)


class Literal(Value):
    """A constant of an element type."""

    value: Any
    dtype: str


class Text(Value):
    """A string constant."""

    value: str


class Verbatim(Value):
    """C++ text from the program (``T.call_extern`` and the like); the compiler itself makes none."""

    text: str


class Binary(Value):
    """A binary operation by its C++ operator."""

    op: str
    left: Value
    right: Value


class Unary(Value):
    """A unary operation: ``!``, ``~`` or ``-``."""

    op: str
    operand: Value


class Select(Value):
    """One of two values by a condition; the other is not computed."""

    condition: Value
    then: Value
    otherwise: Value


class Convert(Value):
    """A conversion to an element type by the C++ conversion of that name."""

    dtype: str
    operand: Value


class Call(Value):
    """A call of a device function.

    Attributes:
        templates: its template arguments: numbers, truth values, element types (:class:`Type`), names.
    """

    function: str
    arguments: tuple[Value, ...] = ()
    templates: tuple[Any, ...] = ()


class Type(Record):
    """An element type as a template argument; ``bytes`` where it is a word of so many bytes."""

    dtype: str
    bytes: int = 0


class Array(Value):
    """A pointer to the first element of a buffer, or an array of registers.

    Attributes:
        dtype: of its elements.
        storage: the buffer that barriers have to order accesses of; None for a thread's own memory.
    """

    name: str
    dtype: str
    storage: Any = None

    def at(self, index: Any) -> Element:
        """The element with an index."""
        return Element(self, value_of(index))

    def to(self, index: Any, kind: str = ADDRESS) -> Pointer:
        """The address of the element with an index."""
        return Pointer(self, kind=kind) + index


class Element(Value):
    """An element of an array, to be read or stored to.

    Attributes:
        shared_byte: whether other threads may store to the same byte while it is read, where elements have four bits.
    """

    array: Array
    index: Value
    shared_byte: bool = False


class Pointer(Value):
    """The address of an element.

    Attributes:
        offsets: in elements. Each is added to the pointer separately: their sum might overflow int32, a pointer does not.
        kind, agent: how the receiver of the address accesses the memory, and who that is.
        of_variable: whether the array is a single variable, whose address this is.
    """

    array: Array
    offsets: tuple[Value, ...] = ()
    kind: str = ADDRESS
    agent: Agent = Agent.THREAD
    of_variable: bool = False

    def __add__(self, other: Any) -> Value:
        other = value_of(other)
        return self if other == ZERO else replace(self, offsets=(*self.offsets, other))


class AddressOf(Value):
    """The address of a place that the program passes on; the receiver may read and write there."""

    place: Value


class Cast(Value):
    """A pointer to another type: an element type, or a word of so many bytes."""

    pointer: Value
    dtype: str = ""
    bytes: int = 0
    constant: bool = False


class Word(Value):
    """The vector of so many bytes at a pointer, to be read or stored to."""

    pointer: Value
    bytes: int
    dtype: str = ""


class Field(Value):
    """A component of a vector."""

    vector: Value
    name: str


class Zeros(Value):
    """A word of zeros; ``dtype`` as that of :class:`Word`."""

    bytes: int
    dtype: str = ""


def value_of(value: Any) -> Value:
    """A value; Python integers are constants."""
    return value if isinstance(value, Value) else Number(value)


def total(parts: Iterable[Any]) -> Value:
    """The sum of some values."""
    found: Value = ZERO
    for part in parts:
        found = found + part
    return found


def both(conditions: Iterable[Value | None]) -> Value | None:
    """The conjunction of conditions, of which None always holds; None if all of them do."""
    found: Value | None = None
    for condition in conditions:
        if condition is not None:
            found = condition if found is None else Binary("&&", found, condition)
    return found


ASYNC_SIZES = (4, 8, 16)
"""Bytes that one ``cp.async`` may copy."""


def async_copy(size: int, target: Value, source: Value, exists: Value | None = None) -> Call:
    """The call of ``cp.async``.

    Args:
        size: bytes, one of :data:`ASYNC_SIZES`.
        target, source: pointers to shared and to global memory.
        exists: the condition under which the source is read; where it does not hold, zeros are stored.
    """
    condition = () if exists is None else (exists,)
    return Call(f"tl::cp_async_{size}{'_zfill' * len(condition)}", (target, source, *condition))


def parts_of(value: Value) -> tuple[Value, ...]:
    """The values directly inside of one; the array of an element or pointer is not one of them."""
    found: list[Value] = []
    for name, several in _part_fields(type(value)):
        part = getattr(value, name)
        found += part if several else [part]
    return tuple(found)


def walk_value(value: Value) -> Iterator[Value]:
    """A value and all values inside it."""
    yield value
    for part in parts_of(value):
        yield from walk_value(part)


@functools.cache
def _part_fields(kind: Any) -> tuple[tuple[str, bool], ...]:
    """The fields of a record that hold a value, and whether each holds several."""
    types = {field.name: str(field.type) for field in dataclasses.fields(kind)}
    return tuple((name, type_ != "Value") for name, type_ in types.items() if type_ in ("Value", "tuple[Value, ...]"))


def value_accesses(value: Value, kind: str | None = None, agent: Agent | None = None) -> Iterator[Access]:
    """The accesses of memory that barriers order by the evaluation of a value.

    Args:
        value: the value.
        kind, agent: of the access at the place that the value is or points to, and who makes it, if that is known.
    """
    if isinstance(value, Element):
        yield from _access(value.array, kind or READ, agent or Agent.THREAD)
    elif isinstance(value, Pointer):
        yield from _access(value.array, kind or value.kind, agent or value.agent)
    elif isinstance(value, AddressOf):
        kind = kind or ADDRESS
    elif isinstance(value, Word):
        kind = kind or READ
    # These name the place of their operand, so what is done there is done to the operand. Any other value only reads its parts.
    same_place = isinstance(value, (AddressOf, Word, Cast, Field))
    for part in parts_of(value):
        yield from value_accesses(part, kind, agent) if same_place else value_accesses(part)


def _access(array: Array, kind: str, agent: Agent) -> Iterator[Access]:
    if array.storage is not None:
        yield Access(array.storage, kind, agent)
