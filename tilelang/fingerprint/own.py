"""Names in tilelang's own modules: whether they hold what the files of the package put there, so that the name is enough.

What a module of ours makes on demand must not be made for a fingerprint: that would load the compiler. A name that is not there
yet, and one that holds what the module would put there, are the same.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import CellType, FunctionType, ModuleType
from typing import Any

from tilelang import moved
from tilelang.fingerprint import genuine, libraries, library_state, watch
from tilelang.fingerprint.missing import MISSING
from tilelang.fingerprint.walk import Describer

_DTYPES = "tilelang.dtypes"
_NODES = "tilelang.ir.nodes"
_CONTEXT_MANAGER = contextlib.contextmanager(lambda: iter(())).__code__
"""What runs when a function that ``contextlib.contextmanager`` decorates is called."""


def load_submodule(module: ModuleType, name: str) -> None:
    """Loads ``tilelang.<name>`` where only an access would, so that a read means the same before and after it."""
    is_missing = libraries.is_own_name(module.__name__) and name not in module.__dict__
    if is_missing and home_of_name(module, original(module, name)) is None:
        moved.submodule(module.__name__, name)


def is_submodule(module: ModuleType, name: str, value: ModuleType) -> bool:
    """Whether an attribute of one of tilelang's modules is a module because that one, or a path that was moved, was imported.

    Args:
        module: one of ours.
        name: of the attribute.
        value: what it holds.
    """
    return sys.modules.get(f"{module.__name__}.{name}") is value or moved.is_bound(module, name, value)


def is_pristine(describer: Describer, module: ModuleType, name: str, value: Any) -> bool:
    """Feeds an attribute of one of tilelang's modules by name, unless it was replaced by another value.

    Args:
        describer: what is fed.
        module: one of ours.
        name: of the attribute.
        value: what it holds; MISSING where the module makes it on demand and was not asked yet.

    Returns:
        Whether it was fed.

    Raises:
        Unfaithful: there is no such name, it depends on more than its arguments, or a program changed what makes it.
    """
    if isinstance(value, ModuleType):
        return False
    name = original(module, name)
    home = home_of_name(module, name)
    # Not asked for yet: what the module would make is what counts, without making it.
    if value is MISSING:
        maker = module.__dict__.get("__getattr__")
        if home is None or not libraries.is_own_function(maker):
            raise describer.refuse(f"{module.__name__} has no {name!r}")
        value = _made_later(describer, name, home)
    elif home is None or value is not made_on_demand(module, name, home):
        return False
    if not libraries.is_trusted_own(home):
        raise describer.refuse(f"{home}.{name} depends on more than its arguments")
    if value is not MISSING:
        _expect_as_written(describer, home, name, value)
    describer.text(f"own {module.__name__}.{name}")
    return True


def original(module: ModuleType, name: str) -> str:
    """The name that an older name of a module of ours stands for; any other name itself."""
    aliases = module.__dict__.get("_ALIASES") if libraries.is_own_name(module.__name__) else None
    return aliases.get(name, name) if isinstance(aliases, dict) else name


def home_of_name(module: ModuleType, name: str) -> str | None:
    """The module that a module of ours takes a name from when it is asked for it."""
    table = module.__dict__.get("_HOME")
    if isinstance(table, dict) and name in table:
        return table[name]
    if module.__name__ != "tilelang.language":
        return None
    nodes = module.__dict__.get("_NODES")
    if isinstance(nodes, frozenset) and name in nodes:
        return _NODES
    return _DTYPES if name in sys.modules[_DTYPES].__dict__["all_names"] else None


def made_on_demand(module: ModuleType, name: str, home: str) -> Any:
    """What a module of ours would put under a name.

    Args:
        module: that is asked for the name.
        name: the name.
        home: the module that it takes it from.

    Returns:
        The value; MISSING where that is not loaded, or not ours.
    """
    dtypes = sys.modules[_DTYPES].__dict__["all_names"]
    if home == _DTYPES and name in dtypes:
        return dtypes[name]
    loaded = sys.modules.get(home)
    value = MISSING if loaded is None or loaded is module else loaded.__dict__.get(name, MISSING)
    return value if is_ours(value) else MISSING


def _made_later(describer: Describer, name: str, home: str) -> Any:
    """What will be found under a name that was not asked for yet; MISSING where its module is not loaded either."""
    loaded = sys.modules.get(home)
    if loaded is None:
        return MISSING
    table = loaded.__dict__["all_names"] if home == _DTYPES else loaded.__dict__
    found = table.get(name, MISSING)
    describer.record(watch.ITEM, table, name, found)
    if found is not MISSING and not is_ours(found):
        raise describer.refuse(f"{home}.{name} was replaced")
    return found


def is_ours(value: Any) -> bool:
    """Whether a function or class is found to be ours by its code, or a value is of a class of ours."""
    if type(value) is FunctionType and value.__code__ is _CONTEXT_MANAGER and value.__globals__ is vars(contextlib):
        value = value.__closure__[0].cell_contents  # pyright: ignore[reportOptionalSubscript]
    if not isinstance(value, (FunctionType, type)):
        value = type(value)
    try:
        label = libraries.library_label(value)
    except libraries.Untrusted:
        return False
    return label is not None and label.startswith("own ")


def cell_content(describer: Describer, cell: CellType) -> Any:
    """What a closure cell holds, which is watched; MISSING where it is empty."""
    try:
        content = cell.cell_contents
    except ValueError:
        content = MISSING
    describer.record(watch.CELL, cell, None, content)
    return content


# -- modules that are called ------------------------------------------------------------------------------------------

_CALLED = {"tilelang.jit": ("tilelang.jit.function", "jit")}
"""Module -> home and name of the function that runs when the module is called."""


def is_callable(module: ModuleType) -> bool:
    """Whether a module is one of ours that is a decorator too."""
    home = genuine.class_home(type(module), libraries.OWN_PACKAGES)
    return (
        module.__name__ in _CALLED
        and sys.modules.get(module.__name__) is module
        and home is not None
        and libraries.own_module(home) == module.__name__
        and genuine.is_genuine_class(type(module), home)
    )


def called(describer: Describer, module: ModuleType) -> None:
    """Feeds a module of ours that is called and not used otherwise."""
    (home, name), kind = _CALLED[module.__name__], type(module)
    function = module.__dict__.get(name, MISSING)
    describer.record(watch.TYPE, module, None, kind)
    describer.record(watch.ITEM, module.__dict__, name, function)
    if function is not sys.modules[home].__dict__.get(name):
        raise describer.refuse(f"{module.__name__}.{name} was replaced")
    _expect_as_written(describer, module.__name__, kind.__name__, kind)
    _expect_as_written(describer, home, name, function)
    describer.text(f"called {module.__name__}")


# -- as written -------------------------------------------------------------------------------------------------------


def _expect_as_written(describer: Describer, home: str, name: str, value: Any) -> None:
    """Notices what a program has changed in a function or class of ours, now or later in this process.

    Raises:
        Unfaithful: it has other defaults or methods than in its file, or is another one under this name.
    """
    if isinstance(value, str) and value != sys.modules[home].canonical(name):
        raise describer.refuse(f"{home}.{name} was replaced")
    if isinstance(value, (FunctionType, type)) and not _has_its_name(home, name, value.__name__):
        raise describer.refuse(f"{home}.{name} was replaced by {value.__name__}")
    for function in _functions(value):
        for cell in function.__closure__ or ():
            cell_content(describer, cell)
        describer.record(watch.FUNCTION_CODE, function, None, (function.__code__, function.__defaults__, function.__kwdefaults__))
        if not library_state.is_as_written(function):
            raise describer.refuse(f"{home}.{name} is not the function of its file, or has other defaults")
    for kind in _classes(value):
        namespace = library_state.namespace_of(kind)
        describer.record_dict(namespace)
        changed = next((each for each, item in namespace.items() if library_state.is_put_there(kind, each, item)), None)
        if changed is not None:
            raise describer.refuse(f"{kind.__module__}.{kind.__qualname__}.{changed} was replaced")


def _has_its_name(home: str, name: str, own_name: str) -> bool:
    return name == own_name or (own_name, name) in genuine.aliases(getattr(sys.modules.get(home), "__file__", None) or "")


def _functions(value: Any) -> Iterator[FunctionType]:
    """A function and those that its decorators call."""
    if type(value) is FunctionType:
        yield value
        for cell in value.__closure__ or ():
            yield from _functions(cell.cell_contents)


def _classes(value: Any) -> tuple[type, ...]:
    """The classes of this package that a class, or the class of a value, consists of."""
    if isinstance(value, FunctionType):
        return ()
    kind = value if isinstance(value, type) else type(value)
    return tuple(base for base in kind.__mro__ if base.__module__.startswith("tilelang.") and not genuine.is_immutable(base))
