"""``with tilelang.interpret() as run:``: every kernel that is made inside runs on the interpreter.

with tilelang.interpret() as run:
    run.watch("C_local", lambda at: print(at.block, at["C_local"]))
    c = matmul(256, 256, 256)(a, b)
run.findings
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tilelang import env

if TYPE_CHECKING:
    from tilelang.interpreter.findings import Finding


@dataclass(slots=True)
class Session:
    """The settings of interpreter runs, and their findings.

    Attributes:
        checks: look for findings.
        strict: a call whose program has findings raises :class:`~tilelang.errors.InterpreterError`.
        findings: of all calls so far.
        watches: ``(what, callback)``; see :meth:`watch`.
    """

    checks: bool = True
    strict: bool = True
    findings: list[Finding] = field(default_factory=list)
    watches: list[tuple[Any, Callable[[Any], Any]]] = field(default_factory=list)
    _silent: set[str | int] = field(default_factory=set)

    def watch(self, what: str | int, callback: Callable[[Any], Any]) -> None:
        """Calls ``callback(at)`` whenever a statement of interest is about to run.

        Args:
            what: a line of the source, or the name of a buffer or variable: every statement that mentions it.
            callback: gets a :class:`~tilelang.interpreter.watch.Moment`: the block, the iteration, tiles as tensors. It may call
                ``breakpoint()``.
        """
        if not callable(callback):
            raise TypeError(f"run.watch takes a function of the moment, got {type(callback).__name__}")
        if not isinstance(what, (str, int)):
            raise TypeError(f"run.watch takes a name or the number of a line, got {what!r}")

        def called(at: Any) -> None:
            self._silent.discard(what)
            callback(at)

        self._silent.add(what)
        self.watches.append((what, called))

    def warn_of_silent_watches(self) -> None:
        """Warns of watches whose callback nothing has called: a name or line that no statement which ran has."""
        for what in sorted(self._silent, key=str):
            warnings.warn(f"run.watch({what!r}, ...) was never called: no statement that ran mentions it", stacklevel=4)


_current: ContextVar[Session | None] = ContextVar("tilelang_interpreter_session", default=None)


def current() -> Session:
    """The session of the enclosing ``with``; outside of one a new, strict session."""
    return _current.get() or Session()


@contextlib.contextmanager
def interpret(checks: bool = True, strict: bool = True) -> Iterator[Session]:
    """Inside of the ``with`` block kernels of every target are built for the interpreter and run on CPU tensors.

    Args:
        checks: look for what gives a program no meaning.
        strict: raise :class:`~tilelang.errors.InterpreterError` at the end of a call that has findings; else they are only in the
            session's ``findings``.
    """
    session = Session(checks, strict)
    token = _current.set(session)
    try:
        with env.overridden("TILELANG_INTERPRET", "1"):
            yield session
        session.warn_of_silent_watches()
    finally:
        _current.reset(token)
