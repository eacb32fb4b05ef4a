"""Variables that code reads: globals, closure cells and imports, and the attributes that lead on through modules.

A module is never taken as a whole: only attributes that are written out in the code count, so that a module may not go anywhere
else (into a variable, to a function) unless it is one of this package to which no name was added.
"""

from __future__ import annotations

import importlib
import sys
from enum import EnumMeta
from types import FunctionType, ModuleType
from typing import Any

from tilelang import env
from tilelang.fingerprint import addresses, ambient, attributes, genuine, libraries, library_state, own, watch
from tilelang.fingerprint.containers import members
from tilelang.fingerprint.missing import MISSING
from tilelang.fingerprint.reads import (
    ANNOTATION,
    ATTRIBUTE_READERS,
    CALLED,
    FREE,
    GLOBAL,
    IDENTITY,
    MEMBERSHIP,
    PRESENCE,
    Import,
    Read,
)
from tilelang.fingerprint.references import reference
from tilelang.fingerprint.walk import SCALARS, Describer


class Scope:
    """The variables of one function."""

    def __init__(self, function: FunctionType):
        self.globals = function.__globals__
        self.builtins = function.__builtins__
        self.cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))


def read(describer: Describer, wanted: Read, scope: Scope) -> None:
    """Feeds the value that code reads from outside of itself.

    Args:
        describer: what is fed.
        wanted: the read: a variable and the attributes that follow.
        scope: the variables of the function that reads.

    Raises:
        Unfaithful: it has no faithful fingerprint.
    """
    label = ".".join((str(wanted.name), *wanted.chain))
    describer.text(f"read {wanted.root} {label} {wanted.constant} {wanted.use}")
    with describer.at(f"`{label}`"):
        if isinstance(wanted.name, Import):
            found = _imported(describer, wanted.name, scope)
        elif wanted.root == FREE:
            found = own.cell_content(describer, scope.cells[wanted.name])
        else:
            found = _global(describer, wanted.name, scope)
        _chain(describer, found, wanted)


def is_builtin_hash(wanted: Read, scope: Scope) -> bool:
    """Whether ``wanted`` is the builtin ``hash``."""
    return wanted.name == "hash" and "hash" not in scope.globals and scope.builtins.get("hash") is hash


# -- variables --------------------------------------------------------------------------------------------------------


def _global(describer: Describer, name: str, scope: Scope) -> Any:
    if type(scope.globals) is not dict or type(scope.builtins) is not dict:
        raise describer.refuse("its variables are in a dictionary of a special kind")
    # Also where the builtin is meant: a global of that name would hide it from then on.
    content = _item(describer, scope.globals, name)
    return _item(describer, scope.builtins, name) if content is MISSING else content


def _item(describer: Describer, table: dict, name: Any) -> Any:
    content = table.get(name, MISSING)
    describer.record(watch.ITEM, table, name, content)
    return content


# -- imports ----------------------------------------------------------------------------------------------------------


def _imported(describer: Describer, wanted: Import, scope: Scope) -> Any:
    """What an import statement inside a function gives to its variable."""
    if _item(describer, scope.builtins, "__import__") is not importlib.__import__ and not _is_builtin_import(scope):
        raise describer.refuse("the import statement was replaced")
    name = _absolute(describer, wanted, scope)
    module = _loaded(describer, name if wanted.chain or wanted.level else name.partition(".")[0])
    # import a.b as c: Python loads a.b and then takes the attribute b of a.
    if wanted.chain and "." in wanted.module and wanted.chain == tuple(wanted.module.split(".")[1:]):
        module = _loaded(describer, name.partition(".")[0])
    for attribute in wanted.chain:
        module = _from(describer, module, attribute)
    return module


def _is_builtin_import(scope: Scope) -> bool:
    found = scope.builtins["__import__"]
    return genuine.is_compiled(found) and found.__name__ == "__import__"


def _absolute(describer: Describer, wanted: Import, scope: Scope) -> str:
    if not wanted.level:
        return wanted.module
    package = _item(describer, scope.globals, "__package__")
    _item(describer, scope.globals, "__spec__")
    if not isinstance(package, str):
        raise describer.refuse("a relative import outside of a package")
    base = package.rsplit(".", wanted.level - 1)[0] if wanted.level > 1 else package
    return f"{base}.{wanted.module}" if wanted.module else base


def _loaded(describer: Describer, name: str) -> ModuleType:
    if name not in sys.modules and (libraries.is_own_name(name) or name.partition(".")[0] in sys.stdlib_module_names):
        importlib.import_module(name)
    module = _item(describer, sys.modules, name)
    if not isinstance(module, ModuleType):
        raise describer.refuse(f"the module {name} is imported while the function runs")
    return module


def _from(describer: Describer, module: Any, name: str) -> Any:
    if not isinstance(module, ModuleType):
        raise describer.refuse(f"{name!r} is imported from something that is not a module")
    if name in module.__dict__ or libraries.is_own_name(module.__name__):
        return _attribute(describer, module, name)
    return _loaded(describer, f"{module.__name__}.{name}")


# -- modules ----------------------------------------------------------------------------------------------------------


def _chain(describer: Describer, value: Any, wanted: Read) -> None:
    """Follows the attributes from ``value`` through modules, and feeds where they end."""
    chain = list(wanted.chain)
    while chain and isinstance(value, ModuleType):
        module, name = value, chain.pop(0)
        value = _attribute(describer, module, name)
        if libraries.is_own_name(module.__name__) and own.is_pristine(describer, module, name, value):
            if chain and value is not MISSING:
                library_state.attribute_of_ours(describer, value, chain[0])
            return
    if wanted.use == PRESENCE:
        if value is MISSING:
            raise describer.refuse("it is imported while the function runs")
    elif value is MISSING:
        describer.text("missing")
    elif isinstance(value, ModuleType) and wanted.use == CALLED and own.is_callable(value):
        own.called(describer, value)
    elif isinstance(value, ModuleType):
        _whole_module(describer, value)
    elif env.is_reader(value):
        ambient.environment(describer, value, chain, wanted.constant)
    elif wanted.use == MEMBERSHIP and not chain and type(value) in (set, frozenset):
        members(describer, value)
    elif wanted.use == ANNOTATION:
        reference(describer, value)
    elif wanted.use == IDENTITY and not _is_single(value, chain):
        raise describer.refuse("`is` compares it, and equal values count as the same")
    elif wanted.root == GLOBAL and wanted.name in ATTRIBUTE_READERS and any(value is reader for reader in attributes.READERS):
        describer.text(f"the builtin {wanted.name}")  # what it is asked for is among the names that the code reads
    elif wanted.root == GLOBAL and not chain and value is _NAMED_IN_CODE.get(str(wanted.name), MISSING):
        describer.text(f"the builtin {wanted.name}")  # whether it makes a text is among the names that the code reads
    else:
        describer.value(value, False)
        given = _given(value, chain, wanted.use)
        if given is not None:
            describer.shows_address(given)


_NAMED_IN_CODE = {each.__name__: each for each in (str, repr, ascii)}
_ASKED_ONLY = (MEMBERSHIP, IDENTITY)


def _given(value: Any, chain: list[str], use: str) -> Any:
    """The object that code is given, or that makes the one it is given, where it reads ``chain`` from ``value``; or None."""
    is_called = use == CALLED
    if chain:
        return addresses.given(value, chain[0], is_called and len(chain) == 1)
    return None if use in _ASKED_ONLY or is_called and not isinstance(value, type) else value


def _is_single(value: Any, chain: list[str]) -> bool:
    """Whether no other object is described as the attribute at the end of a chain is."""
    if chain and isinstance(value, EnumMeta) and chain[0] in value._member_map_:
        return True
    while chain and type(value) is type:
        value = next((base.__dict__[chain[0]] for base in value.__mro__ if chain[0] in base.__dict__), None)
        chain = chain[1:]
    return not chain and (value is None or type(value) not in (*SCALARS, tuple, frozenset, range, slice))


def _attribute(describer: Describer, module: ModuleType, name: str) -> Any:
    describer.record(watch.TYPE, module, None, type(module))
    if type(module) is not ModuleType and not libraries.is_large_name(module.__name__):
        raise describer.refuse(f"the module {module.__name__} is of a special kind")
    describer.place(module.__dict__)
    own.load_submodule(module, name)
    content = _item(describer, module.__dict__, name)
    if content is MISSING and own.original(module, name) != name:
        content = _item(describer, module.__dict__, own.original(module, name))
    if content is MISSING and not libraries.is_own_name(module.__name__):
        describer.record(watch.ITEM, module.__dict__, "__getattr__", module.__dict__.get("__getattr__", MISSING))
        if "__getattr__" in module.__dict__ or hasattr(module, name):
            raise describer.refuse(f"the module {module.__name__} makes its attribute {name!r} at every access")
    return content


def _whole_module(describer: Describer, module: ModuleType) -> None:
    """Feeds a module of ours that is passed around: every name in it must be its own, or counts by content."""
    # `T` is passed to helpers in many programs, so this one module may go anywhere: each of its names is checked then.
    if module.__name__ != "tilelang.language" or sys.modules.get(module.__name__) is not module:
        raise describer.refuse(f"the module {module.__name__} is used as a whole, so that any part of it may be read")
    describer.record_dict(module.__dict__)
    describer.text(f"module {module.__name__}")
    written = genuine.class_text(module.__file__ or "", "<module>").names
    for name, value in module.__dict__.items():
        home = own.home_of_name(module, name)
        is_submodule = isinstance(value, ModuleType) and own.is_submodule(module, name, value)
        if is_submodule or attributes.is_special(name) or home is not None and value is own.made_on_demand(module, name, home):
            continue
        if name not in written:
            with describer.at(f"`{name}`"):
                describer.value(value)
        elif own.is_ours(value):
            describer.text(f"{name} {library_state.identity(value)}")


def torch_default_dtype(describer: Describer) -> None:
    """Feeds torch's default dtype, which ``torch.finfo()`` without arguments uses."""
    torch = sys.modules["torch"]
    describer.record_probe(torch.get_default_dtype, torch.get_default_dtype())
    describer.text(f"default {torch.get_default_dtype()}")
