"""A model of the time that a launch takes on a GPU, from what one of its clusters executed.

It is a model: instructions are PTX, not machine code, each byte of the tensors comes from memory once and from the L2 cache
afterwards, clocks are the boost clock, and launching costs nothing. It ranks; it does not measure.
:mod:`~tilelang.simulator.timing.figures` has its numbers and where they are from.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilelang.simulator.occupancy import occupancy
from tilelang.simulator.timing.figures import Figures, figures_of, with_traffic
from tilelang.simulator.timing.replay import Replay, Slice
from tilelang.simulator.timing.trace import Step, warps_of
from tilelang.simulator.virtual.models import DEFAULT, DeviceModel, device_model

if TYPE_CHECKING:
    from tilelang.simulator.report import Report


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the model says of a launch on a device.

    Attributes:
        device: the device's name.
        seconds: of the whole grid.
        clocks: of one wave of resident clusters.
        resident: clusters that a multiprocessor holds at once (one where a cluster spans several).
        waves: how often the device is filled, the last one perhaps partly.
        memory_seconds: what the tensors need from memory at best; ``seconds`` is never less.
    """

    device: str
    seconds: float
    clocks: float
    resident: int
    waves: int
    memory_seconds: float


def estimate(report: Report, device: str = DEFAULT) -> Estimate:
    """The model's time of a traced launch.

    Raises:
        SimulatorArgumentError: the launch was not traced; or there is no such device.
    """
    model = device_model(device)
    warps, blocks, clusters = warps_of(report), math.prod(report.launch["cluster"]), _clusters(report)
    resident = _resident(report, model)
    # Full waves have the most resident clusters on every multiprocessor. The last one is spread out: each multiprocessor has as
    # few as possible, which run faster beside each other.
    full, rest = divmod(clusters, max(1, resident * model.multiprocessors // blocks))
    tail = math.ceil(rest * blocks / model.multiprocessors)
    figures, needed = _figures(report, model, warps)
    clocks = {count: Replay(warps, count, figures, model.tensor_fma).run() for count in {resident * bool(full), tail} - {0}}
    total = full * clocks.get(resident, 0.0) + clocks.get(tail, 0.0)
    memory = needed / model.bandwidth
    wave = clocks[resident if full else tail]
    return Estimate(model.name, max(total / model.clock, memory), wave, resident, full + bool(rest), memory)


def timeline(report: Report, device: str = DEFAULT) -> list[Slice]:
    """What the warps and units of one multiprocessor do in a wave of a traced launch.

    Raises:
        SimulatorArgumentError: as :func:`estimate`.
    """
    model = device_model(device)
    copies = min(_resident(report, model), _clusters(report))
    warps = warps_of(report)
    replay = Replay(warps, copies, _figures(report, model, warps)[0], model.tensor_fma, keep=True)
    replay.run()
    return replay.slices


def write_trace(slices: Iterable[Slice], path: str | Path, clock: float) -> None:
    """Writes a timeline in the format of Chrome's and Perfetto's trace viewers.

    Args:
        slices: what :func:`timeline` gives.
        path: of the JSON file.
        clock: hertz, by which clocks become microseconds.
    """
    rows: dict[str, int] = {}
    ends: list[float] = []  # of each row's last slice
    events: list[dict[str, Any]] = []
    microseconds = 1e6 / clock
    for item in sorted(slices, key=lambda item: item.start):
        row = _free_row(item, rows, ends)
        category = "wait" if item.waiting else "work"
        events.append({"name": item.name or "(no statement)", "cat": category, "ph": "X", "pid": 0, "tid": row,
                       "ts": item.start * microseconds, "dur": (item.end - item.start) * microseconds})  # fmt: skip
    names = [_named("process_name", 0, "one multiprocessor, by the model of time")]
    for place, (name, row) in enumerate(sorted(rows.items())):  # a unit's rows below each other
        names += [_named("thread_name", row, name), _about("thread_sort_index", row, {"sort_index": place})]
    Path(path).write_text(json.dumps({"traceEvents": [*names, *events], "displayTimeUnit": "ns"}), encoding="utf-8")


def _free_row(item: Slice, rows: dict[str, int], ends: list[float]) -> int:
    """The row of a slice: what a unit does at the same time takes several, since slices of one row must not overlap."""
    for number in itertools.count(1):
        name = item.row if number == 1 else f"{item.row} ({number})"
        row = rows.setdefault(name, len(rows))
        if row == len(ends):
            ends.append(0.0)
        if ends[row] <= item.start:
            ends[row] = item.end
            return row
    raise AssertionError


def _named(kind: str, row: int, name: str) -> dict[str, Any]:
    return _about(kind, row, {"name": name})


def _about(kind: str, row: int, values: dict[str, Any]) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": 0, "tid": row, "args": values}


def modelled_seconds(call: Callable[[], Any], device: str = DEFAULT) -> float:
    """The model's time of the launches that a call of kernels makes.

    Of each launch one cluster runs, so that results are incomplete.

    Raises:
        SimulatorArgumentError: there is no such device.
    """
    from tilelang.simulator.session import session

    reports: list[Report] = []
    with session(checks="none", counters=True, trace="only", workers=1, collect=reports.append):
        call()
    return sum(estimate(report, device).seconds for report in reports)


def _figures(report: Report, model: DeviceModel, warps: Sequence[Sequence[Step]]) -> tuple[Figures, int]:
    """The device's figures for the launch, and the bytes that it needs from memory: those of its tensors, once each."""
    clusters = _clusters(report)
    # One cluster was traced, and stands for all of them.
    moved = sum(step.bytes for steps in warps for step in steps) * clusters
    needed = min(moved, report.tensor_bytes or moved)
    busy = min(model.multiprocessors, clusters * math.prod(report.launch["cluster"]))
    return with_traffic(figures_of(model), model, needed / max(1, moved), busy), needed


def _clusters(report: Report) -> int:
    return math.prod(report.launch["grid"]) // math.prod(report.launch["cluster"])


def _resident(report: Report, model: DeviceModel) -> int:
    registers = report.sources.resources.get(report.kernel, {}).get("registers") if report.sources else None
    return max(1, occupancy(model, math.prod(report.launch["block"]), report.launch["shared_bytes"], registers).blocks)
