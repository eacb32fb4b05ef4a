"""Variables that a library's functions read in their own and in other modules, and that a program may have replaced.

Library code counts by name and version. That holds for the values of its variables too, as long as they are what the library has
put there: the text of a plain value, the code of a function, and what the functions and classes found there read in turn.
"""

from __future__ import annotations

import builtins
import functools
import re
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tilelang.fingerprint import attributes, genuine, library_state, watch
from tilelang.fingerprint.missing import MISSING
from tilelang.fingerprint.reads import code_tree
from tilelang.fingerprint.registrations import is_table_of_functions, registered_functions
from tilelang.fingerprint.walk import Describer

_BUILTINS = builtins.__dict__


def globals_of(describer: Describer, function: FunctionType) -> None:
    """Feeds the variables that a library's function can read, those of the functions that it leads to included.

    Raises:
        Unfaithful: one of them was replaced by something that has no faithful fingerprint.
    """
    pending = [function]
    while pending:
        function = pending.pop()
        if describer.is_first(f"code {id(function.__code__)}"):
            for table, name in _variables(function):
                pending += _variable(describer, table, name)


def variables_of(describer: Describer, module: ModuleType, names: tuple[str, ...]) -> None:
    """Feeds some variables of a library's module, with all that they lead to.

    Args:
        describer: what is fed.
        module: the library's.
        names: of its variables.
    """
    for name in names:
        for function in _variable(describer, module.__dict__, name):
            globals_of(describer, function)


def globals_of_class(describer: Describer, kind: type) -> None:
    """Feeds the variables that the methods of a library's class can read.

    Raises:
        Unfaithful: as :func:`globals_of`.
    """
    for function in _methods(describer, kind):
        globals_of(describer, function)


def _variables(function: FunctionType) -> Iterator[tuple[dict[str, Any], str]]:
    """(table, name) of all variables whose names are in the function's code: its globals, and those of modules among them.

    An attribute that is called like a variable is taken for one, which costs a comparison and misses nothing.
    """
    names, tables = _names(function.__code__), [function.__globals__]
    for table in tables:
        for name in names:
            if name in table or table is function.__globals__ and name in _BUILTINS:
                yield table, name
            item = table.get(name)
            if type(item) is ModuleType and not any(item.__dict__ is each for each in tables):
                tables.append(item.__dict__)


@functools.lru_cache(maxsize=4096)
def _names(code: CodeType) -> tuple[str, ...]:
    names = {name for part in code_tree(code) for name in part.co_names}
    return tuple(sorted(name for name in names if not attributes.is_special(name)))


def _variable(describer: Describer, table: dict[str, Any], name: str) -> list[FunctionType]:
    """Feeds one variable; gives the functions of a library that are reached by it."""
    if not describer.is_first(f"variable {id(table)} {name}"):
        return []
    item = table.get(name, MISSING)
    describer.record(watch.ITEM, table, name, item)
    # A global may begin to hide a builtin, so the missing entry is watched as well.
    if item is MISSING:
        describer.record(watch.ITEM, _BUILTINS, name, _BUILTINS[name])
        item = _BUILTINS[name]
    with describer.at(f"`{table.get('__name__')}.{name}`"):
        if type(item) is dict and table is re.__dict__:
            _expect_patterns(describer, item)
        return _item(describer, name, item)


def _expect_patterns(describer: Describer, cache: dict[Any, Any]) -> None:
    """Notices that a program has put another pattern into the cache of ``re``."""

    def are_their_own() -> bool:
        found = [(key, value) for key, value in list(cache.items()) if type(value) is re.Pattern]
        return all(type(key) is tuple and value.pattern in key for key, value in found)

    if not are_their_own():
        raise describer.refuse("a pattern in it is not that of its key")
    describer.record_probe(are_their_own, True)


def _item(describer: Describer, name: str, item: Any) -> list[FunctionType]:
    describer.text(name)
    if type(item) is FunctionType:
        return _function(describer, item)
    if not isinstance(item, type):
        describer.text(library_state.brief(item))
        if is_table_of_functions(item):
            registered_functions(describer, item)
        elif type(item) not in (dict, list, set) and library_state.is_made_by_program(item):
            describer.value(item, False)
        return []
    describer.text(f"class {item.__module__}.{item.__qualname__}")
    return _methods(describer, item)


def _function(describer: Describer, function: FunctionType) -> list[FunctionType]:
    """A function in a variable of a library: it is the library's, or another installed package's, unless its code is in no file
    of theirs."""
    code = function.__code__
    home = sys.modules.get(str(function.__globals__.get("__name__")))
    if home is None or home.__dict__ is not function.__globals__ or not genuine.is_installed_code(code):
        describer.value(function, False)
        return []
    describer.record(watch.FUNCTION_CODE, function, None, (code, function.__defaults__, function.__kwdefaults__))
    describer.text(f"{code.co_name} {library_state.brief_defaults(function)}")
    return [function]


def _methods(describer: Describer, kind: type) -> list[FunctionType]:
    found = []
    for base in kind.__mro__:
        if not genuine.is_immutable(base) and describer.is_first(f"class {id(base)}"):
            library_state.own_namespace(describer, base)
            for each in map(genuine.function_in, vars(base).values()):
                found += [] if each is None else _function(describer, each)
    return found
