"""What the page shows of one launch, as plain data."""

from __future__ import annotations

import dataclasses
import linecache
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilelang.simulator.occupancy import occupancy
from tilelang.simulator.page.drawings import drawings
from tilelang.simulator.roofline import roofline
from tilelang.simulator.sources import CUDA, Statement
from tilelang.simulator.virtual.models import DeviceModel

if TYPE_CHECKING:
    from tilelang.simulator.report import Finding, Report

METRICS = (
    "warps", "shared_wavefronts", "bank_conflicts", "global_sectors", "bytes", "tensor_multiply_adds", "threads", "requests",
)  # fmt: skip
_AROUND = 6  # lines of the program shown before and after those that became code


def launch_data(report: Report, device: DeviceModel, times: int) -> dict[str, Any]:
    """The data of a launch, as JSON can hold it.

    Args:
        report: of the launch.
        device: the model that occupancy and roofline are computed for.
        times: how many launches of these sizes the page stands for.
    """
    rows = [_row(report, instruction) for instruction in report.counters.instructions]
    origins = report.sources.origins(report.kernel) if report.sources else {"shared": [], "fragments": []}
    return {
        "kernel": report.kernel,
        "launch": report.launch,
        "times": times,
        "aborted": report.aborted,
        "printed": report.printed,
        "warp_instructions": report.warp_instructions,
        "findings": [_finding(report, finding) for finding in report.findings],
        "metrics": METRICS,
        "rows": rows,
        "programs": _programs(row["statement"] for row in rows),
        "classes": report.counters.classes,
        "traffic": report.counters.traffic,
        "occupancy": _occupancy(report, device),
        "roofline": _roofline(report, device),
        "shared": origins["shared"],
        "layouts": drawings(origins),
        "cuda": report.sources.cuda.splitlines() if report.sources else [],
        "ptx": _ptx(report, rows),
    }


def _row(report: Report, instruction: Mapping[str, Any]) -> dict[str, Any]:
    """An executed instruction: where it stands, and its counts."""
    own = Path(instruction["file"]).name == CUDA
    found = report.sources and report.sources.statement(report.kernel, instruction["file"], instruction["line"])
    return {
        "ptx": instruction["ptx_line"],
        "cuda": instruction["line"] if own else 0,
        "statement": _place(found),
        "counts": [instruction.get(name, 0) for name in METRICS],
    }


def _place(statement: Statement | None) -> tuple[str, int, str] | None:
    return None if statement is None else (statement.file, statement.line, statement.text)


def _programs(places: Iterable[tuple[str, int, str] | None]) -> list[dict[str, Any]]:
    """The parts of the programs' files that became code."""
    lines: dict[str, set[int]] = {}
    for file, line, _ in filter(None, places):
        if line:
            lines.setdefault(file, set()).add(line)
    shown = []
    for file, numbers in lines.items():
        text = linecache.getlines(file)
        first, last = max(1, min(numbers) - _AROUND), min(len(text), max(numbers) + _AROUND)
        shown.append({"file": file, "first": first, "lines": [line.rstrip() for line in text[first - 1 : last]]})
    return shown


def _finding(report: Report, finding: Finding) -> dict[str, Any]:
    data = dataclasses.asdict(finding)
    data["program"] = _place(finding.program)
    data["ptx_text"] = _line(report.sources.ptx if report.sources else "", finding.ptx_line) or finding.instruction
    own = Path(finding.file).name == CUDA
    data["cuda_text"] = _line(report.sources.cuda, finding.line) if report.sources and own else ""
    return data


def _line(text: str, number: int) -> str:
    lines = text.splitlines()
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""


def _ptx(report: Report, rows: Iterable[Mapping[str, Any]]) -> dict[int, str]:
    """The executed lines of the PTX."""
    lines = report.sources.ptx.splitlines() if report.sources else []
    texts = {item["ptx_line"]: item["instruction"] for item in report.counters.instructions}
    return {n: lines[n - 1].strip() if n <= len(lines) else texts[n] for n in (row["ptx"] for row in rows)}


def _registers(report: Report) -> int | None:
    return report.sources.resources.get(report.kernel, {}).get("registers") if report.sources else None


def _occupancy(report: Report, device: DeviceModel) -> dict[str, Any]:
    registers = _registers(report)
    found = occupancy(device, math.prod(report.launch["block"]), report.launch["shared_bytes"], registers)
    return {**dataclasses.asdict(found), "registers": registers}


def _roofline(report: Report, device: DeviceModel) -> dict[str, Any]:
    found = roofline(device, report.counters)
    derived = {"intensity": found.intensity, "attainable": found.attainable, "seconds": found.seconds}
    return {**dataclasses.asdict(found), **derived}
