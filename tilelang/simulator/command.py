"""The command ``tilelang simulate``, which is also ``python -m tilelang.simulator``."""

from __future__ import annotations

import atexit
import difflib
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tilelang.errors import SimulatorArgumentError


def simulate(
    context: typer.Context,
    program: Annotated[str, typer.Argument(help='A Python program written for torch\'s device "cuda".')],
    device: Annotated[str, typer.Option(help="The GPU to show it: a100, rtx3090, l40s, rtx4090, h100, h200.")] = "h100",
    devices: Annotated[int, typer.Option(min=1, help="How many of them.")] = 1,
    repeat: Annotated[int, typer.Option(min=1, help="How often a measured kernel call really runs.")] = 3,
    checks: Annotated[str, typer.Option(help="Checkers: all, none, or names with commas between them.")] = "all",
    report: Annotated[
        Path | None, typer.Option(help="Writes a page about the launches of all processes to this HTML file.")
    ] = None,
    times: Annotated[
        str, typer.Option(help="What events measure: auto (a model of kernels, else this machine), model, host.")
    ] = "auto",
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not say at the end what was simulated.")] = False,
) -> None:
    """Runs a program for CUDA on this machine's CPU, with every memory access checked.

    What follows the program's name is the program's own command line.
    """
    from tilelang.simulator.report import Report
    from tilelang.simulator.virtual.gathered import gathered
    from tilelang.simulator.virtual.program import frames_of, run_program, summary
    from tilelang.simulator.virtual.session import Usage

    reports: list[Report] = []
    ended: list[Usage] = []
    folder = None
    process = os.getpid()

    def conclude() -> None:
        if os.getpid() != process:
            return  # a process that the program forked
        said = _written(report, [reports, *gathered(folder)], device) if report and folder else ""
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        for line in filter(None, [said, *map(summary, ended)]):
            if not quiet:
                typer.echo(line, err=True)

    try:
        _refuse_option(context, program)
        if report:
            _prepare(report)
            folder = tempfile.mkdtemp()
        atexit.register(conclude)  # before the device's own, so that it is done after the program's
        usage = run_program(
            program, context.args, device=device, devices=devices, repeat=repeat, checks=checks, times=times,
            collect=reports.append if report else None, reports=folder,
        )  # fmt: skip
    except SimulatorArgumentError as error:
        typer.echo(f"tilelang simulate: {error}", err=True)
        raise typer.Exit(2) from None
    except (Exception, KeyboardInterrupt) as error:
        error.__traceback__ = frames_of(error, program)  # as if the program ran by itself
        sys.excepthook(type(error), error, error.__traceback__)
        raise typer.Exit(130 if isinstance(error, KeyboardInterrupt) else 1) from None
    ended.append(usage)


def _refuse_option(context: typer.Context, program: str) -> None:
    """Refuses an option before the program's name that there is not, which else would be taken for that name.

    Raises:
        SimulatorArgumentError: the name begins with a dash.
    """
    if program.startswith("-"):
        known = [option for parameter in context.command.params for option in parameter.opts if option.startswith("-")]
        near = difflib.get_close_matches(program.partition("=")[0], known, n=1)
        raise SimulatorArgumentError(f"there is no option {program}", f"did you mean {near[0]}?" if near else None)


def _prepare(path: Path) -> None:
    """Makes the directory of a page.

    Raises:
        SimulatorArgumentError: there cannot be such a file.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SimulatorArgumentError(f"cannot write {path}: {error.strerror}") from None
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise SimulatorArgumentError(f"cannot write {path}: {'it is a directory' if path.is_dir() else 'permission denied'}")


def _written(path: Path, processes: Sequence[Sequence[Any]], device: str) -> str:
    """Writes the page about the launches of some processes, if there were any; says what it is about."""
    from tilelang.simulator.page import page

    reports = [report for process in processes for report in process]
    if not reports:
        return f"{path} was not written: no kernel was launched"
    path.write_text(page(reports, device), encoding="utf-8")
    launches, launching = (f"{n} {word if n == 1 else plural}" for n, word, plural in (
        (len(reports), "launch", "launches"), (sum(map(bool, processes)), "process", "processes"),
    ))  # fmt: skip
    return f"{path}: {launches} of {launching}"


SETTINGS = {"ignore_unknown_options": True, "allow_extra_args": True, "allow_interspersed_args": False}
"""Options after the program's name are the program's."""


def main() -> None:
    """Entry point of ``python -m tilelang.simulator``."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(context_settings=SETTINGS)(simulate)
    app(prog_name="python -m tilelang.simulator", args=sys.argv[1:])
