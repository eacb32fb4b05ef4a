"""Source spans: from the user's running frame to the IR, and from the IR to an error's location."""

from __future__ import annotations

import os
import sys
import sysconfig
import warnings
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from tilelang.errors import Location, PerformanceWarning

_OWN_PACKAGES = frozenset({"tilelang", "tvm", "tvm_ffi", "torch"})
_STANDARD_LIBRARY = (os.path.join(sysconfig.get_path("stdlib"), ""), "<frozen ")
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_NATIVE_SOURCES = (".h", ".cc", ".cpp", "<unknown>")
"""Ends of the file names of the frames that TVM adds to tracebacks for its C++ functions."""


@lru_cache(maxsize=256)
def _positions(code: CodeType) -> tuple[tuple[int | None, ...], ...]:
    """Source position of each instruction; empty before Python 3.11, which has lines only."""
    positions = getattr(code, "co_positions", None)
    return tuple(positions()) if positions is not None else ()


def is_user_frame(frame: FrameType) -> bool:
    """Whether a frame runs the user's code, and not this package's or a library's under it."""
    package = frame.f_globals.get("__name__", "").partition(".")[0]
    file = frame.f_code.co_filename
    return package not in _OWN_PACKAGES and not file.endswith(_NATIVE_SOURCES) and not _is_of_python(file)


@lru_cache(maxsize=1024)
def _is_of_python(file: str) -> bool:
    """Whether a file is of Python's own library, below which packages of users may be installed."""
    return file.startswith(_STANDARD_LIBRARY) and not any(folder in file for folder in _INSTALLED)


def frame_location(frame: FrameType, last_instruction: int | None = None, line: int | None = None) -> Location:
    """The source position that a frame executes.

    Args:
        frame: a frame of the user's code.
        last_instruction: offset in its byte code; where the frame is now by default.
        line: used where Python keeps no columns (before 3.11).
    """
    code = frame.f_code
    positions = _positions(code)
    index = (frame.f_lasti if last_instruction is None else last_instruction) // 2
    first, last, column, end = positions[index] if 0 <= index < len(positions) else (None,) * 4
    if first is None:
        return Location(code.co_filename, line or frame.f_lineno)
    start = 0 if column is None else column + 1
    return Location(code.co_filename, first, start, 0 if last != first or column is None or end is None else end + 1)


def user_location() -> Location | None:
    """The source location of the innermost user frame, or None outside of user code."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_user_frame(frame):
            return frame_location(frame)
        frame = frame.f_back
    return None


def traceback_location(error: BaseException) -> Location | None:
    """The innermost user position of an exception's traceback."""
    found = None
    entry = error.__traceback__
    while entry is not None:
        if is_user_frame(entry.tb_frame):
            found = frame_location(entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
        entry = entry.tb_next
    return found


def span_of(location: Location | None) -> Any:
    """The IR span of a location."""
    if location is None:
        return None
    from tilelang.ir import nodes as ir

    return ir.Span(_source_name(location.file), location.line, location.line, location.column, location.end_column)


@lru_cache(maxsize=64)
def _source_name(file: str) -> Any:
    from tilelang.ir import nodes as ir

    return ir.SourceName(file)


def location_of(span: Any) -> Location | None:
    """The location that a span names; None where a statement has no span."""
    if span is None:
        return None
    return Location(str(span.source_name.name), int(span.line), int(span.column), int(span.end_column))


def portable(file: str) -> str:
    """The path of a program's file relative to a folder of ``sys.path``, where ``linecache`` looks for it.

    Cache entries are copied to other machines and must not name folders of the one that made them.
    """
    folders = {os.path.join(os.path.abspath(folder), "") for folder in sys.path}
    inside = [file.removeprefix(folder) for folder in folders if file.startswith(folder)]
    return min(inside, key=len, default=os.path.basename(file))


_WARNED: dict[str, dict] = {}
"""For each file, the registry by which the ``warnings`` module shows a warning once."""


def warn_slow(message: str, span: Any) -> None:
    """Warns at the user's line that a statement becomes slow code."""
    warn_at(message, PerformanceWarning, span)


def warn_at(message: str, category: type[Warning], span: Any) -> None:
    """Warns at the user's line: once for each line and reason, as Python's filters have it.

    Args:
        message: what is said.
        category: the class of the warning, by which users filter it.
        span: of the statement.
    """
    place = location_of(span) or Location("<program>", 1)
    warnings.warn_explicit(message, category, place.file, place.line, registry=_WARNED.setdefault(place.file, {}))
