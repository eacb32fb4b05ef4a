"""Readable names: ``<root>/scripts/<name>/<hash>/programs/<n>`` is a link to an entry.

Kernels are grouped by program name and, below it, by a hash: of the target for kernels with the program's own schedule, of
the task for kernels that a search compiled. A group of a search has a ``summary.txt`` and, where sizes are dispatched, a
``dispatch_table.txt`` beside its programs. Links are conveniences: nothing is ever looked up through them.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path

from tilelang.fingerprint.canonical import digest

FOLDER = "scripts"
SUMMARY = "summary.txt"
DISPATCH_TABLE = "dispatch_table.txt"
_HASH_DIGITS = 16
_TRIES = 100


def group_of(name: str, target: str) -> str:
    """The group of kernels that no search made."""
    return digest("own schedule", name, target)[:_HASH_DIGITS]


def folder(root: Path, name: str, group: str) -> Path:
    """The directory of a group.

    Args:
        root: the cache's directory.
        name: of the program; characters that a directory's name may not have are replaced.
        group: a hexadecimal digest, of which the first digits count.
    """
    # A name is the user's; as a directory it may hold letters, digits and little else.
    safe = re.sub(r"[^A-Za-z0-9_.-]", "_", name).lstrip(".")[:80] or "_"
    return root / FOLDER / safe / group[:_HASH_DIGITS]


def link(root: Path, name: str, group: str, key: str) -> Path | None:
    """Links an entry into a group under the next number.

    Args:
        root, name, group: as for :func:`folder`.
        key: of the entry.

    Returns:
        The link; None where the directory cannot be written to.
    """
    programs = folder(root, name, group) / "programs"
    target = Path("..", "..", "..", "..", "kernels", key)
    try:
        programs.mkdir(mode=0o700, parents=True, exist_ok=True)
        number = _first_free(programs)
        for attempt in range(number, number + _TRIES):
            with contextlib.suppress(FileExistsError):
                (programs / str(attempt)).symlink_to(target)
                return programs / str(attempt)
    except OSError:
        return None
    return None


def _first_free(programs: Path) -> int:
    """A number that is not taken, by bisection: a group may have a great many programs."""

    def taken(number: int) -> bool:
        return os.path.lexists(programs / str(number))

    low, high = -1, 0
    while taken(high):
        low, high = high, 2 * high + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if taken(middle) else (low, middle)
    return high


def links(root: Path, name: str, group: str) -> dict[str, str]:
    """Number -> kernel key of a group.

    Args:
        root, name, group: as for :func:`folder`.
    """
    programs = folder(root, name, group) / "programs"
    try:
        return {number: os.path.basename(os.readlink(programs / number)) for number in sorted(os.listdir(programs), key=int)}
    except (OSError, ValueError):
        return {}


def write(root: Path, name: str, group: str, file: str, text: str) -> Path | None:
    """Writes a text file of a group, in one step.

    Args:
        root, name, group: as for :func:`folder`.
        file: ``summary.txt`` or ``dispatch_table.txt``.
        text: its content.

    Returns:
        The file; None where the directory cannot be written to.
    """
    place = folder(root, name, group)
    draft = place / f".{file}.{os.getpid()}"
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft.write_text(text)
        draft.replace(place / file)
    except OSError:
        return None
    return place / file


def sweep(root: Path) -> int:
    """Removes links to entries that are gone, and groups without a program; returns how many."""
    removed = 0
    for programs in list((root / FOLDER).glob("*/*/programs")):
        with contextlib.suppress(OSError):  # another process may sweep at the same time
            removed += _sweep_group(programs)
    return removed


def _sweep_group(programs: Path) -> int:
    dangling = [entry for entry in programs.iterdir() if not entry.exists()]
    for entry in dangling:
        entry.unlink(missing_ok=True)
    if not any(programs.iterdir()):
        shutil.rmtree(programs.parent, ignore_errors=True)
    return len(dangling)
