"""Faulty programs: a right random program with one statement changed, so that a barrier, a wait or a first value is missing,
two iterations meet at an element, or an index leaves its tile.

Not every change makes a program wrong: a dropped barrier may be one of two. A changed program in which the interpreter finds
nothing has a meaning, then, and every target must agree with it, as for any other program.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from testing.fuzz.tree import Program, Stmt

_SYNCHRONISES = re.compile(
    r"\s*(T\.(sync_threads|sync_warp|sync_grid|cluster_sync|mbarrier_wait_parity|barrier_arrive|mbarrier_arrive|named_barrier_arrive"
    r"|ptx_wait_group|tma_store_wait|wait_wgmma)\(.*\))$"
)
_STORE = re.compile(r"(\s*)(\w+)\[(.+?)\] (\+?=) (.*)$")
_ATOMIC = re.compile(r"(\s*)T\.atomic_add\((\w+\[[^()]*?\]), ([^\"]*?)\)$")
_AXIS = re.compile(r"\bi\d+\b")


@dataclass(frozen=True)
class Fault:
    """One changed statement.

    Attributes:
        kind: what is wrong: a key of ``FAULTS``.
        program: the changed program.
        lines: the lines of the statement before and after the change.
    """

    kind: str
    program: Program
    lines: frozenset[str]

    @property
    def names(self) -> set[str]:
        """Tiles, tensors and barriers in the statement."""
        return set(re.findall(r"\b[a-zA-Z]+\d+\b", " ".join(self.lines)))


Change = Callable[[Stmt], Iterator[Stmt]]
"""The ways to spoil a statement by itself."""


def planted(program: Program, seed: int, most: int) -> list[Fault]:
    """Up to ``most`` faulty programs, each with another kind of fault."""
    chosen = random.Random(seed)
    found = []
    for kind, change in FAULTS.items():
        places = [
            Fault(kind, replace(program, kernels=_exchanged(program.kernels, number, replace(kernel, body=body))), lines)
            for number, kernel in enumerate(program.kernels)
            for body, lines in _changed(kernel.body, change)
        ]
        found += chosen.sample(places, min(1, len(places)))
    return chosen.sample(found, min(most, len(found)))


def _exchanged(items: tuple, number: int, new: object) -> tuple:
    return items[:number] + (new,) + items[number + 1 :]


def _changed(body: tuple[Stmt, ...], change: Change) -> Iterator[tuple[tuple[Stmt, ...], frozenset[str]]]:
    """The bodies in which one statement is spoilt, with its lines."""
    for number, statement in enumerate(body):
        for spoilt in change(statement):
            yield _exchanged(body, number, spoilt), _lines(statement) | _lines(spoilt)
        for name in ("body", "other"):
            for inner, lines in _changed(getattr(statement, name), change):
                yield _exchanged(body, number, replace(statement, **{name: inner})), lines


def _lines(statement: Stmt) -> frozenset[str]:
    return frozenset(line.strip() for line in replace(statement, body=(), other=()).head())


# What is changed -----------------------------------------------------------------------------------------------------------


def _without_first_value(statement: Stmt) -> Iterator[Stmt]:
    if statement.kind == "declare":
        yield replace(statement, lines=statement.lines[:1])


def _each_line(pattern: re.Pattern[str], change: Callable[[re.Match[str]], str | None]) -> Change:
    """Changes of single lines that match."""

    def changes(statement: Stmt) -> Iterator[Stmt]:
        for number, line in enumerate(statement.lines):
            match = pattern.match(line)
            new = change(match) if match else None
            if new is not None:
                yield replace(statement, lines=_exchanged(statement.lines, number, new))

    return changes


def _replaced(pattern: str, new: str) -> Change:
    return _each_line(re.compile(rf"(.*?){pattern}(.*)$"), lambda match: match.expand(rf"\g<1>{new}\g<{match.re.groups}>"))


def _stored_at(change: Callable[[str], str]) -> Change:
    """Stores of iterations whose first index that names an axis is another one."""

    def at(match: re.Match[str]) -> str | None:
        axis = _AXIS.search(match[3])
        if axis is None:
            return None
        place = match[3][: axis.start()] + change(axis[0]) + match[3][axis.end() :]
        return f"{match[1]}{match[2]}[{place}] {match[4]} {match[5]}"

    return _each_line(_STORE, at)


def _read_beside(match: re.Match[str]) -> str | None:
    """A store of what depends on the element that the iteration before writes."""
    axis = _AXIS.search(match[3])
    if axis is None or match[5].startswith("["):
        return None
    other = match[3][: axis.start()] + f"T.max({axis[0]} - 1, 0)" + match[3][axis.end() :]
    test = f"{match[2]}[{other}] != {match[2]}[{match[3]}]"
    return f"{match[1]}{match[2]}[{match[3]}] {match[4]} T.if_then_else({test}, {match[5]}, 0)"


def _dropped(match: re.Match[str]) -> str:
    return match[0].replace(match[1], "pass")


FAULTS: dict[str, Change] = {
    "no first value": _without_first_value,
    "no barrier or wait": _each_line(_SYNCHRONISES, _dropped),
    "two iterations store one element": _stored_at(lambda axis: f"{axis} // 2"),
    "an index beyond the tile": _stored_at(lambda axis: f"({axis} + 1)"),
    "a neighbour is read": _each_line(_STORE, _read_beside),
    "another phase": _replaced(r"(T\.mbarrier_wait_parity\(.*, )(.*)\)", r"\g<2>1 - (\g<3>))"),
    "fewer arrivals counted": _replaced(r"T\.alloc_barrier\(\[128\]", "T.alloc_barrier([64]"),
    "more arrivals counted": _replaced(r"T\.alloc_barrier\(\[128\]", "T.alloc_barrier([160]"),
    "another slot": _replaced(r"(T\.(?:tma_)?copy\(.*?)\[(k\d+) % (\d+)", r"\g<2>[(\g<3> + 1) % \g<4>"),
    "a group stays in flight": _replaced(r"T\.ptx_wait_group\(0\)", "T.ptx_wait_group(1)"),
    "a plain update": _each_line(_ATOMIC, lambda match: match.expand(r"\g<1>\g<2> += \g<3>")),
    "a relaxed store": _replaced(r'memory_order="(?:release|acq_rel)"', 'memory_order="relaxed"'),
    "a relaxed load": _replaced(r'memory_order="acquire"', 'memory_order="relaxed"'),
}
"""What is wrong -> how a statement is changed."""
