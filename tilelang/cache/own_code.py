"""Is what a module of ours holds under a name its own, or did the user put it there?"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any

from tilelang.cache import purity
from tilelang.cache.missing import MISSING


def made_on_demand(module: ModuleType, name: str, home: str) -> Any:
    """What a module of ours puts under ``name`` when it is asked for it; MISSING where it makes nothing of that name."""
    dtypes = sys.modules.get("tilelang.dtypes")
    if dtypes is not None and name in dtypes.all_names:
        return dtypes.all_names[name]
    loaded = sys.modules.get(home)
    if loaded is None or loaded is module:
        return MISSING
    value = loaded.__dict__.get(name, MISSING)
    ours = purity.is_own(getattr(value, "__module__", None) or "") and is_really_own(value)
    return value if ours else MISSING


def is_really_own(value: Any) -> bool:
    """Whether a value that says it is ours is found where it says, and was not put there by the user."""
    code = getattr(value, "__code__", None)
    if code is not None:
        package = sys.modules.get(purity.top(value.__module__))
        folders = [os.path.realpath(folder) for folder in getattr(package, "__path__", ())]
        return any(os.path.realpath(code.co_filename).startswith(folder + os.sep) for folder in folders)
    return True
