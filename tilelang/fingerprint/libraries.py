"""Which code outside the user's program is known to depend on its arguments alone, and how it is recognised.

Library code counts by name and version instead of by content, so it must be listed here. It is recognised by what it *is*:
compiled functions by identity, Python functions by their code (:mod:`~tilelang.fingerprint.genuine`). What the user's program
put in the place of a library's function is the user's, whatever it calls itself.
"""

from __future__ import annotations

import builtins
import functools
import pathlib
import re
import sys
import typing
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from tilelang.fingerprint import genuine

TRUSTED_MODULES = frozenset(
    "abc bisect cmath collections contextlib copy dataclasses enum fractions functools heapq itertools math numbers operator"
    " re reprlib string struct textwrap types typing warnings"
    " _abc _bisect _collections _collections_abc _functools _heapq _operator _struct _sre _typing _warnings".split()
)
"""Modules of the standard library whose functions depend on their arguments alone, or only tell the user something."""

UNTRUSTED_IN_THEM = frozenset(
    # These read what their arguments do not show: annotations, referrers, attributes under any name, which of two equals it is.
    "get_type_hints get_annotations attrgetter methodcaller singledispatch singledispatchmethod total_ordering"
    " get_dump _get_dump get_cache_token get_overloads chdir is_ is_not".split()
)
IMPURE_BUILTINS = frozenset(
    "breakpoint compile delattr dir eval exec globals hash help id input locals memoryview open __import__".split()
)
SET_MAKERS = frozenset("set frozenset".split())
TRUSTED_NAMES = {
    # module -> names of it that depend on their arguments alone
    "posixpath": frozenset("basename commonpath commonprefix dirname isabs join normpath split splitext".split()),
    "posix": frozenset(("fspath",)),
    "argparse": frozenset(("Namespace",)),
    "logging": frozenset("getLogger debug info warning error critical exception log".split()),
    "torch": frozenset("finfo iinfo Size dtype".split()),
    "numpy": frozenset(
        "abs absolute all any arange argmax argmin argsort array asarray bool_ ceil clip concatenate cumprod cumsum"
        " diff divide dtype exp exp2 eye finfo float16 float32 float64 floor full gcd iinfo int16 int32"
        " int64 int8 integer floating generic isnan lcm linspace log log10 log2 max maximum mean min minimum mod multiply"
        " ndarray ndindex number ones power prod product remainder reshape round sign sort sqrt stack subtract sum tile"
        " transpose uint16 uint32 uint64 uint8 unique where zeros".split()
    ),
}
LARGE = frozenset("torch numpy scipy triton jax pandas transformers cutlass cuda".split())
"""Packages that are too large to be searched: what is not listed above has no fingerprint."""

OWN_PACKAGES = frozenset(("tilelang", "tvm", "tvm_ffi"))
"""Packages that the compiler's own fingerprint covers."""

OWN_TRUSTED = (
    "tilelang.cuda.intrinsics", "tilelang.dtypes", "tilelang.errors", "tilelang.frontend", "tilelang.ir", "tilelang.jit.function",
    "tilelang.language", "tilelang.layout", "tilelang.math", "tilelang.policy", "tilelang.records", "tilelang.refusals",
    "tilelang.tileop", "tilelang.tvm_names", "tilelang.transform.config",
    "tvm.arith", "tvm.ir.expr", "tvm.ir.prim", "tvm.ir.type", "tvm.tirx.buffer", "tvm.tirx.expr", "tvm.tirx.op", "tvm.tirx.stmt",
    "tvm.runtime.object_generic", "tvm.tirx.type", "tvm_ffi._dtype",
)  # fmt: skip
"""Parts of them that depend on their arguments and the options of the compilation alone."""
OWN_UNTRUSTED = ("tilelang.language.foreign",)

COMPILED_CLASSES = (typing.Generic, functools.partial, type(functools.cache(len)), re.Pattern, re.Match)
"""Listed classes of compiled code that are heap types in some versions of Python."""
_PATHS = (
    pathlib.PurePath, pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.Path, pathlib.PosixPath, pathlib.WindowsPath,
)  # fmt: skip
_PYTHON = ""
_LIBRARIES = (*sorted(OWN_PACKAGES), *sorted(LARGE))


class Untrusted(Exception):
    """Library code that is not listed; the message names it."""


def library_label(value: Any) -> str | None:
    """The text that identifies a function or class of a library; None for the user's own, which is fingerprinted by content.

    Raises:
        Untrusted: it is a library's, and not listed.
    """
    if type(value) is FunctionType:
        return _function_label(value)
    if genuine.is_compiled(value) or any(value is kind for kind in COMPILED_CLASSES):
        return _compiled_label(value)
    if isinstance(value, type):
        return _class_label(value)
    return _other_label(value)


def _function_label(value: FunctionType) -> str | None:
    home = genuine.home_of(value.__code__, _LIBRARIES)
    if home is None or not genuine.is_genuine_code(value.__code__, home):
        return None
    name = f"{value.__code__.co_name}:{value.__code__.co_firstlineno}"
    return _labelled(home, value.__code__.co_name, name, value)


def _class_label(value: type) -> str | None:
    if any(value is kind for kind in _PATHS):
        return f"library pathlib.{value.__qualname__} {version(_PYTHON)}"  # what touches files is refused by name
    home = genuine.class_home(value, _LIBRARIES)
    if home is None:
        return f"own {value.__module__}.{value.__qualname__}" if _is_composed(value) else None
    if not genuine.is_genuine_class(value, home) or not _is_found_at_home(value, home):
        return None
    return _labelled(home, value.__qualname__, value.__qualname__, value)


def _is_composed(kind: type) -> bool:
    """Whether a class of a trusted module of ours has functions of several of our files, as TVM's expressions do, or none."""
    home = sys.modules.get(kind.__module__) if is_own_name(kind.__module__) and is_trusted_own(kind.__module__) else None
    return home is not None and vars(home).get(kind.__qualname__) is kind and all(map(_is_own_code, genuine.written_codes(kind)))


def _is_own_code(code: CodeType) -> bool:
    home = genuine.home_of(code, OWN_PACKAGES)
    return home is not None and home.package in OWN_PACKAGES and genuine.is_genuine_code(code, home)


def _is_found_at_home(kind: type, home: genuine.Home) -> bool:
    """Whether a class is the one that its library has; a class of the user may consist of a library's functions too."""
    if home.package in LARGE:
        return _name_of(kind) is not None
    names = (own_module(home),) if home.package in OWN_PACKAGES else (home.module, home.package)
    modules = [sys.modules[name] for name in names if name in sys.modules]
    return any(vars(module).get(kind.__qualname__) is kind for module in modules)


def _labelled(home: genuine.Home, name: str, label: str, value: Any) -> str:
    listed = name not in UNTRUSTED_IN_THEM and home.module in TRUSTED_MODULES or name in TRUSTED_NAMES.get(home.module, ())
    if home.package in OWN_PACKAGES:
        module = own_module(home)
        if not is_trusted_own(module):
            raise Untrusted(f"{module}.{name} depends on more than its arguments")
        return f"own {module}.{label}"
    if not listed and _name_of(value) is None:
        raise Untrusted(f"{home.module}.{name} is not known to give the same result at every call")
    return f"library {home.module}.{label} {version(home.package)}"


def _compiled_label(value: Any) -> str:
    if any(value is kind for kind in COMPILED_CLASSES):
        return f"library {value.__module__}.{value.__qualname__} {version(_PYTHON)}"
    found = _name_of(value)
    if found is not None:
        return f"library {found} {version(found.partition('.')[0])}"
    if isinstance(value, type):
        raise Untrusted(f"{value!r} is a class of compiled code that is not listed")
    module, name = value.__self__, value.__name__
    home = module.__name__ if isinstance(module, ModuleType) else ""
    if sys.modules.get(home) is not module or not _is_listed_builtin(home, name):
        raise Untrusted(f"{home or 'a compiled function'}.{name} is not known to give the same result at every call")
    return f"library {home}.{name} {version(home)}"


def _is_listed_builtin(module: str, name: str) -> bool:
    if module == "builtins":
        return name not in IMPURE_BUILTINS
    return module in TRUSTED_MODULES and name not in UNTRUSTED_IN_THEM or name in TRUSTED_NAMES.get(module, ())


def _other_label(value: Any) -> str | None:
    """Callable objects of compiled code that are neither functions nor classes: numpy's functions, for instance."""
    found = _name_of(value)
    return None if found is None else f"library {found} {version(found.partition('.')[0])}"


class _Named(NamedTuple):
    """An object and the listed names under which a library has it; whether it is the library's own is asked on look-up."""

    value: Any
    names: list[tuple[str, str]]  # (module, name)


_identities: dict[int, _Named] = {}
_loaded: list[int] = []


def _name_of(value: Any) -> str | None:
    """The name of a listed object of compiled code, found by identity; the table is extended when a package was loaded."""
    modules = [name for name in ("builtins", "collections", "itertools", "types", *TRUSTED_NAMES) if name in sys.modules]
    # Modules are loaded and never unloaded, so their number tells whether one is new.
    if _loaded != [len(modules)]:
        _loaded[:] = [len(modules)]
        _identities.clear()
        for module in modules:
            found = vars(sys.modules[module])
            # Sorted: an object of two names (numpy.abs, numpy.absolute) has the same label in every process.
            for name in sorted(TRUSTED_NAMES.get(module, found.keys()) & found.keys()):
                _identities.setdefault(id(found[name]), _Named(found[name], [])).names.append((module, name))
    # The table has whatever stands under a listed name, also what a program has put there; whether it is the library's own is
    # asked now.
    named = _identities.get(id(value))
    return None if named is None else next((".".join(name) for name in named.names if _is_listed_object(*name, value)), None)


def _is_listed_object(module: str, name: str, value: Any) -> bool:
    if module in ("builtins", "collections", "itertools", "types"):
        return genuine.is_compiled(value) and isinstance(value, type) and name not in IMPURE_BUILTINS
    return _is_of_package(module, name, value)


def _is_of_package(package: str, name: str, value: Any) -> bool:
    """Whether the object under a listed name is compiled code of the package, and not the user's in its place."""
    kind = type(value)
    if isinstance(value, type):
        return (
            genuine.is_compiled(value)
            and value.__name__ in (name, name.rstrip("_"))
            or bool((home := genuine.class_home(value, (package,))) and genuine.is_genuine_class(value, home))
        )
    if kind is FunctionType:
        home = genuine.home_of(value.__code__, (package,))
        return home is not None and genuine.is_genuine_code(value.__code__, home)
    if kind is BuiltinFunctionType:
        owner = value.__self__
        return value.__name__ == name and (owner is None or getattr(owner, "__name__", "").partition(".")[0] == package)
    if kind.__name__ == "ufunc" and genuine.is_compiled(kind):
        return any("O" not in types for types in value.types)  # numpy.frompyfunc makes one for objects alone
    inner = getattr(value, "_implementation", None)
    return genuine.is_compiled(kind) and (type(inner) is not FunctionType or _is_of_package(package, name, inner))


def is_own_function(value: Any) -> bool:
    """Whether a function is one of ours, listed or not."""
    return type(value) is FunctionType and _is_own_code(value.__code__)


def is_listed_object(value: Any) -> bool:
    """Whether ``value`` is a listed object of compiled code, one of numpy's functions for instance."""
    return _name_of(value) is not None


def own_module(home: genuine.Home) -> str:
    """The dotted name of a module of ours, from its file."""
    folder = f"/{home.package}/"
    inside = home.file[home.file.rindex(folder) + 1 :].removesuffix(".py").removesuffix("/__init__")
    return inside.replace("/", ".")


def is_trusted_own(module: str) -> bool:
    """Whether a module of ours depends on its arguments and the compilation's options alone."""
    return _within(module, OWN_TRUSTED) and not _within(module, OWN_UNTRUSTED)


def _within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in packages)


def is_own_name(module: Any) -> bool:
    """Whether a dotted module name is one of ours; a name is no proof, and only says where to look."""
    return isinstance(module, str) and module.partition(".")[0] in OWN_PACKAGES


def is_large_package(module: str) -> bool:
    """Whether a dotted module name is in one of the packages that are too large to be searched."""
    return module.partition(".")[0] in LARGE


def is_large_name(module: Any) -> bool:
    """Whether a dotted module name is that of a package which is not searched; used only to refuse, since a name is no proof."""
    if not isinstance(module, str) or module == "__main__":
        return False
    first = module.partition(".")[0]
    return is_large_package(first) or first in sys.stdlib_module_names


@functools.cache
def version(package: str) -> str:
    """The version of a listed package, or of Python."""
    found = vars(sys.modules[package]).get("__version__") if package in sys.modules else None
    return found if isinstance(found, str) else sys.version.split()[0]


def is_set_maker(value: Any) -> bool:
    """Whether calling ``value`` makes a set."""
    return value is builtins.set or value is builtins.frozenset


def is_float_information(value: Any) -> bool:
    """Whether ``value`` is ``torch.finfo``, which without an argument tells of the default dtype."""
    torch = sys.modules.get("torch")
    return torch is not None and value is vars(torch).get("finfo")
