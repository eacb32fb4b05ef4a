"""The target of an enclosing ``with tvm.target.Target(...):``.

Every call of a jit function asks for it, thus at no cost where there is none: TVM is not loaded for the question, and it is not
asked before some target has been entered in this process.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

entered = False
"""Whether any target may ever have been entered; never becomes False again, so that scopes of other threads do not matter."""


def observe(home: ModuleType) -> None:
    """Has the targets of TVM, whose module is ``home``, report that they are entered."""
    global entered
    enter = home.Target.__enter__

    def __enter__(target: Any) -> Any:
        global entered
        entered = True
        return enter(target)

    home.Target.__enter__ = __enter__
    entered = home.Target.current(allow_none=True) is not None


def current() -> Any:
    """TVM's target in force in this thread, or None."""
    return sys.modules["tvm.target"].Target.current(allow_none=True) if entered else None


def text() -> str | None:
    """The canonical text of the target in force, by which targets are compared."""
    target = current()
    return None if target is None else str(target)


def is_open(target: Any) -> bool:
    """Whether a target as users give it leaves the choice to the enclosing one."""
    return target is None or (isinstance(target, str) and target == "auto")


def in_force(target: Any) -> Any:
    """``target``, or where it leaves the choice open that of the enclosing ``with``, if there is one."""
    if not is_open(target):
        return target
    enclosing = current()
    return target if enclosing is None else enclosing
