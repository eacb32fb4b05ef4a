"""What an interpreter imports first that a program on the virtual device has started (its directory is in PYTHONPATH).

The device is entered when the program has imported torch: a child that does not use torch starts as fast as ever.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

_HERE = str(Path(__file__).resolve().parent)
_PACKAGES = str(Path(__file__).resolve().parents[4])
"""The directory that this package is in."""


class _AfterTorch(MetaPathFinder, Loader):
    """Imports torch as it would be, and enters the device then."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        found = importlib.util.find_spec(fullname)
        if found is not None and found.loader is not None:
            self._loader, found.loader = found.loader, self
        return found

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        if "tilelang.simulator.virtual.session" in sys.modules:  # it imports torch to enter a device of its own
            return
        if _PACKAGES not in sys.path:  # the program was started in a source tree: its children import the same one
            sys.path.insert(0, _PACKAGES)
        try:
            from tilelang.simulator.virtual import inherited
        except ModuleNotFoundError:  # another interpreter, without this package
            return
        inherited.enter()


def _next_sitecustomize() -> None:
    """What would have been imported in this module's place."""
    sys.path[:] = [entry for entry in sys.path if entry != _HERE]
    own = sys.modules.pop("sitecustomize")
    try:
        importlib.import_module("sitecustomize")
    except ModuleNotFoundError:
        sys.modules["sitecustomize"] = own


sys.meta_path.insert(0, _AfterTorch())
_next_sitecustomize()
