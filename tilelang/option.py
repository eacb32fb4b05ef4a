"""Options of this process, set in code: where the cache is, and what is written into its entries.

tilelang.option.cache_dir("./cache")     # entries in ./cache/kernels/<key>/, sources readable there
tilelang.option.debug.dump_ir(True)      # ir/<nn>_<pass>.txt in every entry that is compiled from now on
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

from tilelang.cache.places import location
from tilelang.unknown import unknown_attribute


def cache_dir(path: str | os.PathLike | None) -> None:
    """Keeps kernels in ``path`` from now on, above ``TILELANG_CACHE_DIR``; None goes back to the environment's choice."""
    location.choose(None if path is None else Path(os.path.abspath(os.path.expanduser(path))))


def get_cache_dir() -> Path:
    """The directory of the kernel cache that is used at present; it need not exist yet."""
    return location.default_root()


class _Debug:
    """Options for looking at the compiler."""

    def __init__(self) -> None:
        self._dump_ir = False

    def dump_ir(self, enabled: bool | None = None) -> bool:
        """Writes the program after every pass into the entries that are compiled from now on (``ir/<nn>_<pass>.txt``).

        Args:
            enabled: the new state; None leaves it.

        Returns:
            bool: the state.
        """
        if enabled is not None:
            self._dump_ir = bool(enabled)
        return self._dump_ir


debug = _Debug()


def __getattr__(name: str) -> NoReturn:
    raise unknown_attribute(f"tilelang.option has no {name}", name, globals())


option = sys.modules[__name__]
"""This module: ``from tilelang import option`` and ``tilelang.option`` are the same."""
