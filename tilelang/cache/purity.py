"""Which code outside the user's program is known to give the same result whenever it is called.

Code that is not the user's counts by name and version instead of by content, so it must be listed here; a call of
anything else (a clock, a random number, a device query) turns the source-key shortcut off for the function that calls it.
"""

from __future__ import annotations

import functools
import sys
from types import ModuleType

PURE_MODULES = frozenset(
    "abc bisect cmath collections collections.abc contextlib copy dataclasses enum fractions functools heapq itertools "
    "logging math numbers operator re string struct textwrap types typing typing_extensions warnings "
    "_bisect _collections _collections_abc _functools _heapq _operator _struct _abc".split()
)
"""Modules of the standard library whose functions depend on their arguments alone, or only tell the user something."""

IMPURE_BUILTINS = frozenset(
    "breakpoint compile dir eval exec globals hash id input locals memoryview open vars __import__".split()
)

PURE_NAMES = {
    # package -> names of it, and of its submodules, that depend on their arguments alone
    "torch": frozenset("finfo iinfo Size dtype".split()),
    "numpy": frozenset(
        "abs all any arange argmax argmin argsort array asarray bool_ ceil ceil_divide clip concatenate cumprod cumsum "
        "diff divide dtype e empty_like exp exp2 eye finfo float16 float32 float64 floor full gcd iinfo inf int16 int32 "
        "int64 int8 integer floating isnan lcm linspace log log10 log2 max maximum mean min minimum mod multiply nan "
        "ndarray ndindex number ones pi power prod product reshape round sign sort sqrt stack subtract sum tile "
        "transpose uint16 uint32 uint64 uint8 unique where zeros".split()
    ),
}

OWN_PACKAGES = frozenset(("tilelang", "tvm", "tvm_ffi"))
"""Packages that the compiler's fingerprint covers."""

IMPURE_OWN = tuple(
    "tilelang.env tilelang.option tilelang.cache tilelang.autotuner tilelang.profiler tilelang.simulator tilelang.testing "
    "tilelang.target tilelang.contrib tilelang.tools tilelang.execution tilelang.carver tilelang.language.foreign "
    "tvm.runtime tvm.contrib tvm.rpc tvm.support tvm_ffi.device tvm_ffi.module".split()
)
"""Parts of them that depend on the machine, the environment or the time."""

UNSEARCHED = frozenset("torch numpy scipy triton jax pandas transformers cutlass cuda".split())
"""Large packages whose functions count by the lists above only."""


def top(module: str) -> str:
    """The package of a dotted module name; nothing, where it is no name: some classes of Cython have a descriptor there."""
    return module.partition(".")[0] if isinstance(module, str) else ""


def is_own(module: str) -> bool:
    """Whether the compiler's fingerprint covers ``module``."""
    return top(module) in OWN_PACKAGES


def is_impure_own(module: str) -> bool:
    """Whether a module of ours depends on more than its arguments."""
    return any(module == name or module.startswith(name + ".") for name in IMPURE_OWN)


def is_library(module: str) -> bool:
    """Whether ``module`` counts by name: the standard library, a large package, or one without Python source."""
    if module == "__main__":
        return False
    if top(module) in UNSEARCHED or top(module) in sys.stdlib_module_names:
        return True
    loaded = sys.modules.get(module)
    return isinstance(loaded, ModuleType) and not _has_python_source(loaded)


def is_pure(module: str, name: str) -> bool:
    """Whether the library function or class ``module.name`` is listed as pure."""
    if module == "builtins":
        return name not in IMPURE_BUILTINS
    return module in PURE_MODULES or name.partition(".")[0] in PURE_NAMES.get(top(module), ())


@functools.cache
def version(package: str) -> str:
    """The version of a listed package, or of Python."""
    return str(getattr(sys.modules.get(package), "__version__", "")) or sys.version.split()[0]


def _has_python_source(module: ModuleType) -> bool:
    return str(getattr(module, "__file__", None) or "").endswith(".py") or _is_made(module)


def _is_made(module: ModuleType) -> bool:
    """Whether a program made the module itself (``types.ModuleType``): it has no file and no loader."""
    return getattr(module, "__file__", None) is None and getattr(module, "__loader__", None) is None
