"""What a module gives on first use: names of other modules, a package's own modules, and the names that are refused."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from tilelang import moved
from tilelang.refusals import refused


def attributes(module: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A ``__getattr__`` for a module: names of other modules and a package's own modules, imported on use, and refused names.

    Args:
        module: its name.
        homes: module -> names that it gives, separated by spaces; ``a=b`` gives ``b`` under the name ``a``.
    """
    found: dict[str, tuple[str, str]] = {}
    for home, names in homes.items():
        for entry in names.split():
            name, _, original = entry.partition("=")
            found[name] = (home, original or name)

    def __getattr__(name: str) -> Any:
        if name in found:
            home, original = found[name]
            return getattr(importlib.import_module(home), original)
        value = refused(module, name) or moved.submodule(module, name)
        if value is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return value

    return __getattr__
