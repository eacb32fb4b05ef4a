"""The truth value of comparisons in the user's own Python.

``a == b`` of two expressions is an object that TVM lets stand for the question whether both are the same node. In a rewritten
function the hooks turn it into a comparison of the kernel; but in a plain helper (``if x == 1``) or in a ``match``,
Python asks for its truth, and identity would silently choose a branch. There, a comparison of known values has its value,
and any other is an error.
"""

from __future__ import annotations

import linecache
import sys
import sysconfig
from collections.abc import Callable
from typing import Any

from tilelang.errors import RunTimeValueError
from tilelang.ir import nodes as ir
from tilelang.ir.span import frame_location, is_user_frame

_LIBRARIES = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))


_HINTS = {
    False: "decorate the helper with @T.macro, or use T.if_then_else",
    True: "match compares in Python; write if and elif",
}
"""Whether a pattern of ``match`` is compared -> what to write instead."""


def _is_case(frame: Any) -> bool:
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("case ")


def _guarded(identity: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def truth(self: Any) -> bool:
        frame = sys._getframe(1)
        if not is_user_frame(frame) or frame.f_code.co_filename.startswith(_LIBRARIES):
            return identity(self)
        known = self.asobject()
        if isinstance(known, ir.IntImm):
            return bool(known.value)
        raise RunTimeValueError(
            "a run-time comparison is used where Python needs True or False",
            frame_location(frame),
            hint=_HINTS[_is_case(frame)],
        )

    return truth


def install() -> None:
    """Gives comparisons their truth value in user code; twice is the same as once."""
    for cls in (ir.EqualOp, ir.NotEqualOp):
        if cls.__bool__.__module__ != __name__:
            cls.__bool__ = _guarded(cls.__bool__)


install()
