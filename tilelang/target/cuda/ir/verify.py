"""What holds of device code, as a check that tests run: every name is defined where it is used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from tilelang.target.cuda.ir.code import Block, BranchCode, Leaf, LoopCode, ScopeCode, children
from tilelang.target.cuda.ir.instructions import Declare, DeclareArray, Define, DefinePointer, Instruction
from tilelang.target.cuda.ir.values import Array, Element, Name, Pointer, Value, parts_of

_DEFINING = {Define: "name", Declare: "name", DefinePointer: "array", DeclareArray: "array"}


def names_are_defined(code: Any, known: set[str]) -> None:
    """Checks that code uses no name that neither the kernel (``known``) nor the code before, in the same braces or around them,
    defines."""
    _check(code, set(known))


def _check(code: Any, known: set[str]) -> None:
    if isinstance(code, Instruction):
        defined = _DEFINING.get(type(code))
        _uses(code, [getattr(code, f.name) for f in fields(code) if f.name != defined], known)
        if defined is not None:
            known.add(_name(getattr(code, defined)))
        return
    inner = known if isinstance(code, Leaf) or (isinstance(code, Block) and not code.scoped) else set(known)
    if isinstance(code, LoopCode):
        _uses(code, [first for _, first in code.counters], known)
        inner |= {name.text for name, _ in code.counters}
        _uses(code, [code.condition, *(value for _, value in code.advance)], inner)
    elif isinstance(code, (BranchCode, ScopeCode)):
        _uses(code, [code.condition], known)
    for child in code.body if isinstance(code, Leaf) else children(code):
        _check(child, set(inner) if isinstance(code, BranchCode) else inner)


def _uses(code: Any, values: list[Any], known: set[str]) -> None:
    for value in values:
        for name in _names(value):
            assert name in known, f"{name} is not defined: {code}"


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, tuple):
        for part in value:
            yield from _names(part)
    elif isinstance(value, Value):
        if isinstance(value, (Name, Array)):
            yield _name(value)
        elif isinstance(value, (Element, Pointer)):
            yield value.array.name
        for part in parts_of(value):
            yield from _names(part)


def _name(value: Any) -> str:
    return value.text if isinstance(value, Name) else value.name
