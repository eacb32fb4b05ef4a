"""Whether a line was executed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any


class Lines:
    """Watches one line of a file; no other code is traced by line."""

    def __init__(self, path: Path, line: int):
        self.file, self.line = str(path), line
        self.reached = False

    def __enter__(self) -> Lines:
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: Any) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, event: str, _: Any) -> Any:
        if self.reached or frame.f_code.co_filename != self.file:
            return None
        return self._line

    def _line(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_lineno == self.line:
            self.reached = True
        return self._line
