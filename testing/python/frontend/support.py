"""Checks of error messages, shared by the tests of the front end."""

from __future__ import annotations

import linecache
from contextlib import contextmanager

import pytest

from tilelang.errors import CompileError

MARK = "# <- error"


@contextmanager
def error_at_mark(kind: type = CompileError, match: str | None = None, mark: str = MARK):
    """Expects an error of ``kind`` located at the source line that ends with the mark, with a caret and in few lines."""
    with pytest.raises(kind, match=match) as caught:
        yield caught
    error = caught.value
    assert error.location is not None, str(error)
    line = linecache.getline(error.location.file, error.location.line).rstrip("\n")
    assert line.endswith(mark), f"the error points at {error.location.line}: {line!r}\n{error}"
    text = str(error)
    assert "^" in text and error.location.file in text
    assert len(text.splitlines()) < 12, text
