"""Answers that hold for a state of some files, kept between processes: a small JSON file of state -> answer."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from tilelang.cache.places import plain_files

_ROWS = 64
_MAX_BYTES = 1 << 20


def recall(file: Path | None, state: str) -> Any:
    """The answer for ``state``, or None."""
    return None if file is None else _rows(file).get(state)


def remember(file: Path | None, state: str, answer: Any) -> None:
    """Keeps an answer between processes; the oldest answers are dropped.

    Args:
        file: where; None, and a file that cannot be written, keep nothing.
        state: digest of what the answer depends on.
        answer: a value that JSON can hold.
    """
    if file is None:
        return
    rows = _rows(file)
    # Put at the end again, as the newest: rows are cut at the front.
    rows.pop(state, None)
    rows[state] = answer
    draft = file.with_name(f"{file.name}.{os.getpid()}.{os.urandom(2).hex()}")
    try:
        plain_files.write_new(draft, json.dumps(dict(list(rows.items())[-_ROWS:])))
        draft.replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()


def _rows(file: Path) -> dict[str, Any]:
    try:
        rows: dict[str, Any] | list[Any] | None = json.loads(plain_files.read(file, _MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return rows if isinstance(rows, dict) else {}
