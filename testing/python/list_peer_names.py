"""Lists the public names of an installed reference package, for ``peer_names.json``:

python testing/python/list_peer_names.py > testing/python/peer_names.json      # with the interpreter that has tilelang 0.1.15

Public is what a module's ``__all__`` says; without one, whatever it or another module of the package defines under a name without
underscore. Only modules that programs import are listed.
"""

import importlib
import json
import sys
import types

MODULES = (
    "tilelang", "tilelang.autotuner", "tilelang.autotuner.capture", "tilelang.autotuner.param", "tilelang.cache",
    "tilelang.carver", "tilelang.contrib.nvcc", "tilelang.cuda.intrinsics", "tilelang.dtypes", "tilelang.engine",
    "tilelang.engine.callback", "tilelang.engine.param", "tilelang.env", "tilelang.jit", "tilelang.language", "tilelang.layout",
    "tilelang.math", "tilelang.profiler", "tilelang.profiler.bench", "tilelang.tools", "tilelang.transform", "tilelang.utils",
    "tilelang.utils.device", "tilelang.utils.tensor",
)  # fmt: skip


def public(module):
    """The public names of a module."""
    listed = getattr(module, "__all__", None)
    return sorted(set(listed)) if listed is not None else sorted(filter(lambda name: is_own(module, name), vars(module)))


def is_own(module, name):
    """Whether a name is the package's own, not one that its source only imports."""
    value = getattr(module, name)
    if name.startswith("_") or name == "TYPE_CHECKING" or isinstance(value, types.ModuleType):
        return False
    home = getattr(value, "__module__", None)
    return home is None or home.startswith("tilelang")


if __name__ == "__main__":
    json.dump({name: public(importlib.import_module(name)) for name in MODULES}, sys.stdout, indent=1, sort_keys=True)
    print()
