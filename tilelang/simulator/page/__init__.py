"""One HTML page about launches, with its data inside: nothing is loaded from anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tilelang.simulator.page.data import launch_data
from tilelang.simulator.virtual.models import DEFAULT, device_model

if TYPE_CHECKING:
    from tilelang.simulator.report import Report

_TEMPLATE = Path(__file__).with_name("page.html")


def page(reports: Iterable[Report], device: str = DEFAULT) -> str:
    """The page as text.

    A launch is shown with its findings (lines of the tile program, of the CUDA source and of the PTX side by side), its counters
    over the tile program, its occupancy and roofline on a device, its shared memory with lifetimes, and its layouts. Launches of
    one kernel with the same sizes are shown once, by the last of them.

    Args:
        reports: of launches; their counters are those that the simulator was asked for.
        device: a name of :data:`tilelang.simulator.virtual.models.MODELS`.

    Raises:
        SimulatorArgumentError: there is no such device.
    """
    model = device_model(device)
    latest: dict[str, tuple[Report, int]] = {}
    for report in reports:
        key = json.dumps([report.kernel, report.launch])
        latest[key] = (report, latest.get(key, (report, 0))[1] + 1)
    launches = [launch_data(report, model, times) for report, times in latest.values()]
    figures = {"name": model.name, "multiprocessors": model.multiprocessors, "shared": model.shared_bytes_per_block}
    # A text may hold anything: no character of it can end the script element.
    text = json.dumps({"device": figures, "launches": launches}, separators=(",", ":"))
    text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return _TEMPLATE.read_text(encoding="utf-8").replace("__DATA__", text)
