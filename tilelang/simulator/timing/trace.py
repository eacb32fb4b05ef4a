"""What the warps of one cluster executed, read from a report."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tilelang.errors import SimulatorArgumentError
from tilelang.simulator.timing.operands import Operands, Role, operands_of, role_of

if TYPE_CHECKING:
    from tilelang.simulator.report import Report

_FIELDS = 8
_MOST_LINES = 64


class Step(NamedTuple):
    """One instruction that a warp executed.

    Attributes:
        operands: its registers.
        kind: its class (``"arithmetic"``, ``"load"``, ...).
        statement: the tile program's line that it comes from, as text; empty where none is known.
        passes: through the banks of shared memory.
        bytes: that it moves to or from global memory, whole sectors.
        multiply_adds: of tensor cores.
        barrier, phase: the mbarrier that it waits for, arrives at or reports to; 0 for none. Phases count from 1.
    """

    operands: Operands
    kind: str
    statement: str
    passes: int
    bytes: int
    multiply_adds: int
    barrier: int
    phase: int


def warps_of(report: Report) -> list[list[Step]]:
    """The steps of each warp of the traced cluster, in order.

    Raises:
        SimulatorArgumentError: the launch was not traced.
    """
    if not report.traced:
        raise SimulatorArgumentError("the launch has no trace", "ask for one: tilelang.simulator(trace='on')")
    known = {instruction["pc"]: _static(report, instruction) for instruction in report.counters.instructions}
    warps: dict[int, list[Step]] = {}
    for warp, pc, passes, sectors, moved, multiply_adds, barrier, phase in _records(report.traced):
        operands, kind, statement = known[pc]
        traffic = sectors * 32 or (moved if operands.role is Role.COPY else 0)  # a bulk copy counts no sectors
        warps.setdefault(warp, []).append(Step(operands, kind, statement, passes, traffic, multiply_adds, barrier, phase))
    return [warps[number] for number in sorted(warps)]


def _static(report: Report, instruction: Mapping[str, Any]) -> tuple[Operands, str, str]:
    text = _instruction(report.sources.ptx_lines if report.sources else [], instruction["ptx_line"])
    operands = operands_of(text) if text else _without_text(instruction["instruction"])
    found = report.sources and report.sources.statement(report.kernel, instruction["file"], instruction["line"])
    return operands, instruction["class"], found.text if found else ""


def _without_text(opcode: str) -> Operands:
    return Operands(opcode, role_of(opcode), (), ())


def _instruction(lines: Sequence[str], number: int) -> str:
    """The text of an instruction, which may take several lines."""
    text = ""
    for line in lines[number - 1 : number + _MOST_LINES]:
        text += f" {line.strip()}"
        if ";" in line:
            break
    return text.strip()


def _records(text: str) -> Iterator[tuple[int, ...]]:
    words = array("I", bytes.fromhex(text))
    words.byteswap()  # the text has the highest digit first
    fields = iter(words)
    return zip(*[fields] * _FIELDS)
