"""Running a program that was written for a GPU: ``python -m tilelang.simulator program.py ...``."""

from __future__ import annotations

import atexit
import runpy
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tilelang.errors import SimulatorArgumentError
from tilelang.simulator.virtual import active
from tilelang.simulator.virtual.session import Usage, virtual_device


def run_program(
    path: str,
    arguments: Sequence[str] = (),
    *,
    device: str,
    devices: int = 1,
    repeat: int = 3,
    checks: str = "all",
    strict: bool = True,
    collect: Callable[[Any], None] | None = None,
    times: str = "auto",
    reports: str | None = None,
) -> Usage:
    """Runs a Python program as ``__main__`` of this process with a virtual device, and says what it did with it.

    The device stays until the process ends, after the program's threads and its ``atexit`` functions.

    Args:
        path: the program's file.
        arguments: its command line.
        device, devices, repeat, checks, strict, collect, times, reports: see
            :func:`~tilelang.simulator.virtual.session.virtual_device`.

    Returns:
        The launches that the program made, and the clock that it asked for times; also where it ended by ``sys.exit(0)``.

    Raises:
        SimulatorArgumentError: no such file, or no such device model.
        BaseException: what the program itself raises.
    """
    if not Path(path).is_file():
        raise SimulatorArgumentError(f"there is no program {path}")
    sys.argv, sys.path[0] = [path, *arguments], str(Path(path).resolve().parent)
    there = virtual_device(
        device, devices=devices, repeat=repeat, checks=checks, strict=strict, collect=collect, times=times, reports=reports,
    )  # fmt: skip
    usage = there.__enter__()
    atexit.register(there.__exit__, None, None, None)
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise
    entered = active.current()
    if entered is not None:
        entered.residents.settle_all()
    return usage


def frames_of(error: BaseException, path: str) -> types.TracebackType | None:
    """The traceback of an error from the program's own first frame on; none where its text is no Python."""
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename != path:
        frame = frame.tb_next
    return frame or (None if isinstance(error, SyntaxError) else error.__traceback__)


def summary(usage: Usage) -> str:
    """One line on a finished program, and one on its times if it asked for any."""
    launches = usage.launches
    lines = [f"{usage.model.name} (simulated): {launches.made} kernel call{'s' * (launches.made != 1)}"]
    if launches.left_out:
        lines[0] += f", {launches.left_out} more were repetitions of a measured call and were left out"
    return "\n".join(filter(None, [*lines, usage.clock.summary()]))
