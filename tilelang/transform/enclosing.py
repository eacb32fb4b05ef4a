"""Pass configurations of an enclosing ``with tvm.transform.PassContext(config={"tl.…": …})``: ``tilelang.lower`` follows them.

TVM refuses configurations that it does not know. This package's are taken out of a context's before TVM sees them, and are in
force while it is the innermost one.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import ModuleType
from typing import Any

_configs: dict[int, dict[str, Any]] = {}
"""Of contexts that have any, by their ``id``: a context's constructor replaces what an earlier object of that ``id`` left."""


class _Scopes(threading.local):
    """The contexts that a thread has entered, the innermost last."""

    def __init__(self) -> None:
        self.entered: list[dict[str, Any]] = []


_scopes = _Scopes()


def observe(home: ModuleType) -> None:
    """Has the pass contexts of TVM, whose module is ``home``, give their configurations to this package."""
    context = home.PassContext
    construct, enter, leave = context.__init__, context.__enter__, context.__exit__

    def __init__(
        self: Any,
        opt_level: int = 2,
        required_pass: Any = None,
        disabled_pass: Any = None,
        instruments: Any = None,
        config: Any = None,
    ) -> None:
        ours, theirs = _split(config or {})
        construct(self, opt_level, required_pass, disabled_pass, instruments, theirs)
        _configs.pop(id(self), None)
        if ours:
            _configs[id(self)] = ours

    def __enter__(self: Any) -> Any:
        entered = enter(self)
        _scopes.entered.append(_configs.get(id(self), {}))
        return entered

    def __exit__(self: Any, *error: Any) -> Any:
        _scopes.entered.pop()
        return leave(self, *error)

    context.__init__, context.__enter__, context.__exit__ = __init__, __enter__, __exit__


def _split(config: Mapping[Any, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The configurations of this package, and TVM's."""
    from tilelang.transform.config import known_names

    named = {str(getattr(key, "value", key)): value for key, value in config.items()}
    ours = {name: value for name, value in named.items() if name.startswith("tl.") or name in known_names()}
    return ours, {name: value for name, value in named.items() if name not in ours}


def configs() -> Mapping[str, Any]:
    """Those in force in this thread."""
    return _scopes.entered[-1] if _scopes.entered else {}
