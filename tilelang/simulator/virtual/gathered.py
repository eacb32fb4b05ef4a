"""Reports of the launches of all processes of a program: each process but the first leaves its own in a directory."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


def gathering(folder: str, collect: Callable[[Any], None] | None) -> Callable[[Any], None]:
    """A function that takes the reports of this process and of those that it forks.

    Args:
        folder: an existing directory, the same for all processes; what ends after it is gone leaves nothing.
        collect: takes this process's reports; None leaves them in the directory, too.
    """
    own = os.getpid() if collect is not None else None

    def take(report: Any) -> None:
        if collect is not None and os.getpid() == own:
            collect(report)
        elif Path(folder).is_dir():
            with open(Path(folder, str(os.getpid())), "ab") as file:
                pickle.dump(report, file)

    return take


def gathered(folder: str) -> Iterator[list[Any]]:
    """The reports in a directory, a list for each process.

    Args:
        folder: see :func:`gathering`.
    """
    for path in sorted(Path(folder).iterdir()):
        reports = []
        with open(path, "rb") as file:
            while True:
                try:
                    reports.append(pickle.load(file))
                except (EOFError, pickle.UnpicklingError):  # the latter of a process that was ended while it wrote
                    break
        yield reports
