"""Tests whether code belongs to a library. Names are no evidence: a function's module and file name can be set.

A function counts as a library's only if its code is among what the library's own source file compiles to, and a class only if
all functions in it are.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import reprlib
import sys
from collections.abc import Iterable
from importlib.machinery import SourceFileLoader
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from tilelang.fingerprint import opcodes
from tilelang.fingerprint.canonical import canonical
from tilelang.fingerprint.reads import code_tree

HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: the class was made while the program ran
_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE
_STANDARD_LIBRARY = os.path.dirname(os.path.realpath(os.__file__))
_FROZEN = "<frozen "
_MADE = ("<string>", dataclasses.__file__, reprlib.__file__)


class Home(NamedTuple):
    """Where code says that it is from: a package (or module of the standard library) and the file."""

    package: str
    file: str

    @property
    def module(self) -> str:
        """The dotted name of the file's module within the standard library; elsewhere the package."""
        if os.path.dirname(self.file) == _STANDARD_LIBRARY:
            return os.path.basename(self.file).removesuffix(".py")
        return self.package


def home_of(code: CodeType, packages: Iterable[str]) -> Home | None:
    """The library that the file of ``code`` belongs to: the standard one or one of ``packages``; None for any other file."""
    file = code.co_filename
    # Modules that Python needs to start are compiled into it; their code has no path.
    if file.startswith(_FROZEN):
        return _frozen_home(file)
    file = _real(file)
    if file.startswith(_STANDARD_LIBRARY + os.sep):
        first, _, rest = file[len(_STANDARD_LIBRARY) + 1 :].partition(os.sep)
        if first != "site-packages":
            return Home(first.removesuffix(".py"), file)
    for package in packages:
        if any(file.startswith(folder) for folder in _folders(package)):
            return Home(package, file)
    return None


def _frozen_home(file: str) -> Home:
    name = file.removeprefix(_FROZEN).removesuffix(">")
    path = os.path.join(_STANDARD_LIBRARY, *name.split("."))
    return Home(name.partition(".")[0], f"{path}.py" if os.path.exists(f"{path}.py") else os.path.join(path, "__init__.py"))


@functools.lru_cache(maxsize=4096)
def _real(file: str) -> str:
    return os.path.realpath(file)


def _folders(package: str) -> list[str]:
    module = sys.modules.get(package)
    return [_real(folder) + os.sep for folder in getattr(module, "__path__", ())] if isinstance(module, ModuleType) else []


def is_genuine_code(code: CodeType, home: Home) -> bool:
    """Whether ``code`` is what the file of ``home`` compiles to."""
    # Code objects compare by instructions, constants, names and lines, so that a function counts as the library's only if its
    # file compiles to this very code.
    return code in _codes_of(home.file)


def is_packaged(code: CodeType) -> bool:
    """Whether code says that it is of an installed package, whichever."""
    return any(f"{os.sep}{folder}{os.sep}" in code.co_filename for folder in ("site-packages", "dist-packages"))


@functools.lru_cache(maxsize=4096)
def is_installed_code(code: CodeType) -> bool:
    """Whether ``code`` is what a file of the standard library or of an installed package compiles to."""
    home = home_of(code, ()) or (Home("", _real(code.co_filename)) if is_packaged(code) else None)
    return home is not None and is_genuine_code(code, home)


def is_installed_class(kind: type) -> bool:
    """Whether all methods of a class, and of its bases, are of the standard library or of installed packages."""
    methods = [each for base in kind.__mro__ for each in map(function_in, vars(base).values()) if each is not None]
    return bool(methods) and all(is_installed_code(each.__code__) for each in methods)


@functools.lru_cache(maxsize=256)
def _codes_of(file: str) -> frozenset[CodeType]:
    try:
        # The name of the loader's module only appears in its errors.
        whole = SourceFileLoader("library", file).get_code("library")
    except (ImportError, OSError, SyntaxError, ValueError):
        return frozenset()
    return frozenset(code_tree(whole)) if whole is not None else frozenset()


class ClassText(NamedTuple):
    """What the text of a class has: names, apart from those in its functions, and the functions."""

    names: frozenset[str]
    functions: frozenset[str]


@functools.lru_cache(maxsize=256)
def class_text(file: str, name: str) -> ClassText:
    """The text of the class ``name`` of a file; ``<module>`` is the file itself."""
    codes = [code for code in _codes_of(file) if code.co_name == name]
    inner = (each.co_name for code in codes for each in code.co_consts if isinstance(each, CodeType))
    return ClassText(frozenset(each for code in codes for each in code.co_names), frozenset(inner))


@functools.lru_cache(maxsize=256)
def constants(file: str) -> frozenset[str]:
    """The plain constants of a file, as canonical texts, those in tuples included."""
    found = [each for code in _codes_of(_real(file)) for each in code.co_consts]
    for each in found:
        found += each if isinstance(each, tuple) else ()
    return frozenset(canonical(each) for each in found if type(each) in (type(None), bool, int, float, str, bytes))


@functools.lru_cache(maxsize=256)
def aliases(file: str) -> frozenset[tuple[str, str]]:
    """(name, other name) of the assignments of one name to another at the top of a file."""
    whole = [list(opcodes.steps(code)) for code in _codes_of(file) if code.co_name == "<module>"]
    pairs = [pair for steps in whole for pair in zip(steps, steps[1:])]
    wanted = (opcodes.GLOBAL, opcodes.STORE_IN_CLASS)
    return frozenset((first.argument, second.argument) for first, second in pairs if (first.kind, second.kind) == wanted)


def is_genuine_class(kind: type, home: Home) -> bool:
    """Whether all functions in the class are from the library's file, and there is one."""
    codes = written_codes(kind)
    return bool(codes) and all(is_genuine_code(code, home) for code in codes)


def class_home(kind: type, packages: Iterable[str]) -> Home | None:
    """The library that the functions of a class say they are from; None where they do not agree, or there are none."""
    homes = {home_of(code, packages) for code in written_codes(kind)}
    return homes.pop() if len(homes) == 1 else None


def written_codes(kind: type) -> list[CodeType]:
    """The code of the functions in a class, without those that ``dataclasses`` and tvm-ffi make from its fields."""
    functions = [item for item in map(function_in, vars(kind).values()) if item is not None]
    made = _MADE if "__dataclass_fields__" in vars(kind) else ()
    if "__tvm_ffi_type_info__" in vars(kind):
        made = (*made, getattr(sys.modules.get("tvm_ffi.registry"), "__file__", ""))
    return [each.__code__ for each in functions if each.__code__.co_filename not in made]


def function_in(item: Any) -> FunctionType | None:
    """The function behind a method, static method or property; None for anything else."""
    if isinstance(item, property):
        item = item.fget
    item = getattr(item, "__func__", item) if type(item) in (staticmethod, classmethod) else item
    return item if type(item) is FunctionType else None


def is_immutable(kind: type) -> bool:
    """Whether a class comes from compiled code, also one made at run time; its attributes cannot be changed."""
    return not kind.__flags__ & HEAP_TYPE or bool(kind.__flags__ & _IMMUTABLE)


def is_compiled(value: Any) -> bool:
    """Whether ``value`` is a function, or a class, of compiled code, which Python code cannot make."""
    if isinstance(value, type):
        return is_immutable(value)
    return type(value) is BuiltinFunctionType
