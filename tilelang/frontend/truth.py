"""The truth value of comparisons, and the hash of expressions, in the user's own Python.

``a == b`` of two expressions is an object that TVM lets stand for the question whether both are the same node. In a rewritten
function the hooks turn it into a comparison of the kernel; but in a plain helper (``if x == 1``) or in a ``match``,
Python asks for its truth, and identity would silently choose a branch. There, a comparison of known values has its value,
and any other is an error.

The hash of an expression is that of the node, so that a plain helper would look in vain for one in a set or a dictionary of
numbers (``{3: 5}.get(x, 9)``, ``x in {1, 2}``). That is an error, too. A cache of results (``functools.lru_cache``) may take
expressions, and memory may be a key.
"""

from __future__ import annotations

import functools
import linecache
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

from tilelang.errors import ComputedKeyError, RunTimeValueError
from tilelang.frontend.builder import active_builder
from tilelang.frontend.values import ExprLike
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


_OF_LIBRARIES: dict[int, CodeType] = {}
"""Code that is not the user's, by its id: most questions come from there. The hash of code takes its time."""


def _hash(plain: Callable[[Any], int]) -> Any:
    def value(self: Any) -> int:
        frame = sys._getframe(1)
        if id(frame.f_code) in _OF_LIBRARIES:
            return plain(self)
        if active_builder() is None or not _asks(frame) or isinstance(self, ir.Var) and ir.is_buffer_var(self):
            return plain(self)
        if isinstance(self, (ir.IntImm, ir.FloatImm)):
            return hash(self.value)
        raise ComputedKeyError(frame_location(frame))

    return value


def _asks(frame: Any) -> bool:
    """Whether a frame is of the user's code, and what it does asks for the hash: no cache of results, and no hash of a class."""
    code = frame.f_code
    if not is_user_frame(frame) or code.co_filename.startswith(_LIBRARIES):
        _OF_LIBRARIES[id(code)] = code
        return False
    if code.co_name == "__hash__":
        return False
    scopes = (frame.f_locals, frame.f_globals)
    named = (scope.get(name) for scope in scopes for name in (*code.co_names, *code.co_varnames, *code.co_freevars))
    return not any(isinstance(each, functools._lru_cache_wrapper) for each in named)


def install() -> None:
    """Gives comparisons their truth value in user code; twice is the same as once."""
    for cls in (ir.EqualOp, ir.NotEqualOp):
        if cls.__bool__.__module__ != __name__:
            cls.__bool__ = _guarded(cls.__bool__)


class _Hashes:
    """The hash of expressions, checked while any thread traces a program: the compiler, which asks for many, gets the plain one.

    Attributes:
        plain: what classes of expressions have else.
        tracing: how many programs are being traced.
    """

    def __init__(self) -> None:
        self.plain: dict[Any, Callable[[Any], int]] = {cls: cls.__hash__ for cls in (ir.ExprWithOp, ExprLike)}
        self.tracing = 0
        self._lock = threading.Lock()

    @contextmanager
    def checked(self) -> Iterator[None]:
        """While a program is traced."""
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def _count(self, step: int) -> None:
        with self._lock:
            before, self.tracing = self.tracing, self.tracing + step
            if bool(before) != bool(self.tracing):
                for cls, plain in self.plain.items():
                    cls.__hash__ = _hash(plain) if self.tracing else plain


HASHES = _Hashes()
install()
