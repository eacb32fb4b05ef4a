"""The progress of a search: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(total: int, name: str) -> Iterator[Callable[[float], None]]:
    """Gives a function to be called after each of ``total`` candidates, with the least milliseconds so far (or infinity)."""
    if total <= 1 or not sys.stderr.isatty():
        yield lambda best: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        row = bar.add_task(f"tuning {name}", total=total)

        def advance(best: float) -> None:
            bar.update(row, advance=1, description=f"tuning {name}" + ("" if math.isinf(best) else f", best {best:.3f} ms"))

        yield advance
