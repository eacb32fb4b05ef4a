"""tilelang: a compiler for tile programs.

One Python function over tiles becomes native CPU code or CUDA C++; see ``docs/`` for the way of a kernel through the
package. Names are resolved when they are first used (PEP 562): importing the package loads neither the compiler nor torch.
"""

from __future__ import annotations

import importlib
from typing import Any

from tilelang import moved as _moved
from tilelang import tvm_names as _tvm_names

__version__ = "0.1.0"

_MODULES: dict[str, str] = {
    # module -> the names that it gives
    "tilelang.jit": "compile lower par_compile lazy_jit JITKernel",
    "tilelang.cache": "cached clear_cache enable_cache disable_cache is_cache_enabled",
    "tilelang.autotuner": "autotune AutoTuner",
    "tilelang.profiler": "Profiler do_bench TensorSupplyType",
    "tilelang.transform.config": "PassConfigKey",
    "tilelang.log": "set_log_level",
    "tilelang.simulator": "simulator",
    "tilelang.interpreter.session": "interpret",
    "tilelang.option": "option",
    "tilelang.math": "cdiv next_power_of_2",
    "tilelang.tvm_names": "tvm DataType",
    "tilelang.layout": "Layout Fragment",
    "tilelang.engine.callback": "register_cuda_postproc register_c_postproc",
    "tilelang.utils.deprecated": "deprecated",
}

_HOME: dict[str, str] = {name: module for module, names in _MODULES.items() for name in names.split()}

_SUBMODULES = (
    "autotuner", "cache", "carver", "dtypes", "engine", "env", "errors", "execution", "interpreter", "jit", "language", "layout",
    "math", "profiler",
    "testing", "tools", "transform", "utils",
)  # fmt: skip

__all__ = ["__version__", *_HOME, *_SUBMODULES]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    else:
        value = _moved.submodule(__name__, name) or _elsewhere(name)
    globals()[name] = value
    return value


def _elsewhere(name: str) -> Any:
    """A name that only the reference package has: an error when it is used; any other name is one at once."""
    from tilelang.refusals import refused
    from tilelang.unknown import unknown_attribute

    value = refused(__name__, name)
    if value is None:
        raise unknown_attribute(f"tilelang has no {name!r}", name, __all__)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


_tvm_names.install()
_moved.install()
