"""Locks and forks: a child has one thread, so that a lock which another thread held at the fork would never be given back."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from importlib import _bootstrap  # pyright: ignore[reportAttributeAccessIssue] - no public name
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class Lock:
    """A mutex that a fork releases in the child, for critical sections that leave consistent state at every step."""

    __slots__ = ("__weakref__", "held")

    def __init__(self) -> None:
        self.held = threading.Lock()
        _locks.add(self)

    def __enter__(self) -> Lock:
        self.held.acquire()
        return self

    def __exit__(self, *_: Any) -> None:
        self.held.release()


class computed(Generic[Value]):
    """An attribute that is computed at its first use. ``functools.cached_property`` holds a lock of the class meanwhile, before
    Python 3.12, which a child would wait on for ever; here two threads may compute the same value."""

    def __init__(self, function: Callable[[Any], Value]):
        self.function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> computed[Value]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self.name] = self.function(instance)
        return value


_locks: weakref.WeakSet[Lock] = weakref.WeakSet()

native = threading.RLock()
"""Held while state that is not ours may be half changed (SQLite's, a module on its first import); a fork waits for it."""


_OURS = frozenset(("tilelang", "tvm", "tvm_ffi"))
_LONGEST_IMPORT = 20.0
"""Seconds that a fork waits for another thread's imports at most."""


def _acquire_all() -> None:
    """Waits until no other thread imports one of our modules: in the child that import, and all that need it, would never end."""
    end = time.monotonic() + _LONGEST_IMPORT
    native.acquire()
    while _is_importing() and time.monotonic() < end:
        native.release()  # which that thread may need before its import can end
        time.sleep(0.001)
        native.acquire()


def _is_importing() -> bool:
    # Python has a lock for each module that is being imported; a fork leaves those of other threads locked for ever.
    found = [reference() for reference in list(getattr(_bootstrap, "_module_locks", {}).values())]
    owned = [lock for lock in found if getattr(lock, "owner", None) not in (None, threading.get_ident())]
    return any(lock.name.partition(".")[0] in _OURS for lock in owned)


def _free_all() -> None:
    # A new lock for each object: the old one may be held by a thread that does not exist here, and a lock can only be released by
    # giving it back.
    for lock in list(_locks):
        lock.held = threading.Lock()
    native.release()


os.register_at_fork(before=_acquire_all, after_in_parent=native.release, after_in_child=_free_all)
