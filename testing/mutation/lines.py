"""Which lines of the compiler a program runs."""

from __future__ import annotations

import sys
from collections.abc import Collection
from types import FrameType
from typing import Any


class Lines:
    """Watches some files, while it is entered; no other code is traced by line.

    Attributes:
        found: file and number of each line that was executed.
    """

    def __init__(self, files: Collection[str]):
        self.files = frozenset(files)
        self.found: set[tuple[str, int]] = set()

    def __enter__(self) -> Lines:
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: Any) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, event: str, _: Any) -> Any:
        return self._line if frame.f_code.co_filename in self.files else None

    def _line(self, frame: FrameType, event: str, _: Any) -> Any:
        self.found.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line
