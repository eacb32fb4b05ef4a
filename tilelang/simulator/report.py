"""The findings and counters of a launch."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilelang.simulator.sources import CUDA, KernelSources, Statement
from tilelang.simulator.virtual.models import DEFAULT, device_model

_COLUMNS = (
    ("warps", "warps"), ("threads", "threads"), ("requests", "requests"), ("bytes", "bytes"),
    ("shared_wavefronts", "wavefronts"), ("bank_conflicts", "conflicts"), ("global_sectors", "sectors"),
    ("tensor_multiply_adds", "tensor MACs"),
)  # fmt: skip

_IN_SHARED = re.compile(r"0x([0-9a-f]+) in shared memory(?! of block)")

_PTX_LINE = re.compile(r"PTX line (\d+) \(([^()]+):(\d+)\)")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a checker found.

    Attributes:
        kind: ``out-of-bounds``, ``misaligned``, ``uninitialised``, ``race``, ``barrier``, ``deadlock``, ``descriptor``,
            ``mbarrier``, ``async``, ``trap`` or ``usage``.
        message: what is wrong.
        kernel: name of the kernel.
        block: block index (x, y, z).
        thread: thread index (x, y, z) in the block, or None where no single thread is at fault.
        ptx_line: line of the PTX text, from 1.
        instruction: the instruction with its modifiers.
        file: CUDA source file, empty without line information.
        line: line in it, 0 without line information.
        occurrences: how often the same instruction was found at fault.
        program: the statement of the tile program, where it is known.
        others: further statements of the tile program that the message names by their lines, such as the other one of a race.
    """

    kind: str
    message: str
    kernel: str
    block: tuple[int, int, int]
    thread: tuple[int, int, int] | None
    ptx_line: int
    instruction: str
    file: str = ""
    line: int = 0
    occurrences: int = 1
    program: Statement | None = None
    others: tuple[Statement, ...] = ()

    def __str__(self) -> str:
        file = CUDA if Path(self.file).name == CUDA else self.file  # NVRTC names it after no directory
        source = f"{file}:{self.line}, " if self.line else ""
        thread = f", thread {self.thread}" if self.thread is not None else ""
        repeated = f" ({self.occurrences} times)" if self.occurrences > 1 else ""
        where = f"{source}PTX line {self.ptx_line} ({self.instruction})"
        statements = [] if self.program is None else list(dict.fromkeys((self.program, *self.others)))
        width = max((len(str(each.line)) for each in statements), default=0)
        return "\n".join(
            [
                f"{'' if self.program is None else f'{self.program.place}: '}{self.kind}: {self.message}{repeated}",
                *(f"  {each.line or '?':>{width}} | {each.text}" for each in statements),
                f"  in {self.kernel}, block {self.block}{thread}",
                f"  at {where}",
            ]
        )


@dataclass(frozen=True, slots=True)
class Counters:
    """Counts of a launch.

    Attributes:
        total: sums over all instructions.
        classes: instruction class -> counts (warps, threads, requests, bytes, shared_wavefronts, bank_conflicts,
            global_sectors, tensor_multiply_adds; those that are zero may be missing).
        traffic: bytes moved by memory level.
        instructions: one mapping per executed instruction, in program order, with its PTX and source line.
        barrier_waits: times a warp waited at a barrier.
        barriers_completed: barriers that completed.
        mbarrier_waits: waits on an mbarrier that did not succeed at once.
    """

    total: Mapping[str, int]
    classes: Mapping[str, Mapping[str, int]]
    traffic: Mapping[str, int]
    instructions: tuple[Mapping[str, Any], ...]
    barrier_waits: int
    barriers_completed: int
    mbarrier_waits: int

    def table(self) -> str:
        """The counts by instruction class as text."""
        rows = [("class", *[title for _, title in _COLUMNS])]
        for name, counts in [*self.classes.items(), ("total", self.total)]:
            rows.append((name, *[str(counts.get(key, 0) or "") for key, _ in _COLUMNS]))
        return _aligned(rows)

    def hot_instructions(self, key: str = "bank_conflicts", limit: int = 10) -> list[Mapping[str, Any]]:
        """The instructions with the largest count of ``key``, largest first."""
        ranked = sorted((i for i in self.instructions if i.get(key)), key=lambda i: -i[key])
        return ranked[:limit]


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of a launch.

    Attributes:
        kernel: name of the kernel.
        findings: what the checkers found, by PTX line; empty for a clean run.
        counters: what was counted.
        printed: what the kernel printed.
        aborted: a finding (trap, deadlock, ...) ended the kernel before its end.
        warp_instructions: warp instructions executed.
        seconds: wall time of the execution.
        launch: ``grid``, ``block``, ``cluster``, each along x, y, z, and ``shared_bytes`` of a block.
        sources: the texts of the kernel, where they are known.
        tensor_bytes: of the tensors that the launch was given; 0 where that is not known.
        traced: what one cluster executed, where that was asked for; see :mod:`tilelang.simulator.timing`.
    """

    kernel: str
    findings: tuple[Finding, ...]
    counters: Counters
    printed: str = ""
    aborted: bool = False
    warp_instructions: int = 0
    seconds: float = 0.0
    launch: Mapping[str, Any] = field(default_factory=dict)
    sources: KernelSources | None = field(default=None, repr=False)
    tensor_bytes: int = 0
    traced: str = field(default="", repr=False)
    _text: str = field(default="", repr=False)

    @classmethod
    def from_json(cls, text: str, sources: KernelSources | None = None, tensor_bytes: int = 0) -> Report:
        """The report that the native library wrote.

        Args:
            text: its JSON.
            sources: the kernel's texts; without them, findings name no lines of the program.
            tensor_bytes: size of all tensors that the launch was given.
        """
        data = json.loads(text)
        counters = data["counters"]
        return cls(
            kernel=data["kernel"],
            findings=tuple(_finding(item, sources) for item in data["findings"]),
            counters=Counters(
                total=counters["total"],
                classes=counters["classes"],
                traffic=counters["traffic"],
                instructions=tuple(counters["instructions"]),
                barrier_waits=counters["barrier_waits"],
                barriers_completed=counters["barriers_completed"],
                mbarrier_waits=counters["mbarrier_waits"],
            ),
            printed=data["printed"],
            aborted=data["aborted"],
            warp_instructions=data["warp_instructions"],
            seconds=data["seconds"],
            launch=data["launch"],
            sources=sources,
            tensor_bytes=tensor_bytes,
            traced=data["trace"],
            _text=text,
        )

    def json(self) -> str:
        """The whole report as JSON."""
        return self._text

    def trace(self, path: str | Path, device: str = DEFAULT) -> None:
        """Writes a timeline of one multiprocessor, by the model of :mod:`tilelang.simulator.timing`, for Perfetto or Chrome.

        Args:
            path: of the JSON file.
            device: a name of :data:`tilelang.simulator.virtual.models.MODELS`.

        Raises:
            SimulatorArgumentError: the launch was not traced (``trace="on"``); or there is no such device.
        """
        from tilelang.simulator.timing import timeline, write_trace

        write_trace(timeline(self, device), path, device_model(device).clock)

    def html(self, device: str = DEFAULT) -> str:
        """This launch as a page of its own; see :func:`tilelang.simulator.page.page`."""
        from tilelang.simulator.page import page

        return page([self], device)

    def __str__(self) -> str:
        found = "\n".join(str(finding) for finding in self.findings) or "no findings"
        return f"{self.kernel}: {found}\n{self.counters.table()}"


def _finding(data: dict[str, Any], sources: KernelSources | None) -> Finding:
    thread = data.pop("thread")
    block = tuple(data.pop("block"))
    program = None
    others: list[Statement] = []
    if sources is not None:
        kernel = data["kernel"]
        place = kernel, data["file"], data["line"]
        program = sources.statement(*place)

        def with_tile(found: re.Match[str]) -> str:
            tile = sources.tile(*place, int(found[1], 16))
            return found[0] if tile is None else f"{found[0]} ({tile})"

        def with_statement(found: re.Match[str]) -> str:
            other = sources.statement(kernel, found[2], int(found[3]))
            if other is None:
                return found[0]
            others.append(other)
            return f"{other.place} (PTX line {found[1]})"

        data["message"] = _PTX_LINE.sub(with_statement, _IN_SHARED.sub(with_tile, data["message"]))
    at_thread = tuple(thread) if thread is not None else None
    return Finding(block=block, thread=at_thread, program=program, others=tuple(others), **data)


def _aligned(rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), *[cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
