"""Fingerprints of Python values by content, and the watch that notices when one may have changed.

A function counts by its code and source text, its defaults, and everything that its code can read, helpers of helpers
included; a class by its bases and attributes; an instance by its class and state; a plain value by type and bits. What
cannot be told faithfully raises :class:`Unfaithful`, and the caller compiles without the shortcut.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import Any

from tilelang import env
from tilelang.cache import instances, own_code, purity, source_text, watch
from tilelang.cache.canonical import NotCanonical, canonical
from tilelang.cache.code_text import code_text
from tilelang.cache.missing import MISSING
from tilelang.cache.reads import FREE, GLOBAL, Read, annotation_reads, code_reads

MAX_VALUES = 50_000

_SCALARS = (type(None), bool, int, float, complex, str, bytes)


class Unfaithful(Exception):
    """A value that no fingerprint tells from all others; the message says what and where."""


class Describer:
    """Walks values, feeding a digest and collecting watch records.

    Args:
        pure_only: refuse library code that is not listed as pure: what is described runs while a kernel is traced. False for
            functions whose results decide no code (a tuning reference): there, name and version are enough.
    """

    def __init__(self, pure_only: bool = True) -> None:
        self._pure_only = pure_only
        self._state = hashlib.sha256()
        self._order: dict[int, int] = {}
        self._alive: list[Any] = []  # what was seen, so that no identity is used twice
        self._where: list[str] = []
        self._count = 0
        self.records: list[tuple[int, Any, Any, Any]] = []
        self.codes: list[CodeType] = []

    def digest(self) -> str:
        """SHA-256 of everything so far."""
        return self._state.hexdigest()

    # -- values -----------------------------------------------------------------------------------------------------

    def value(self, value: Any) -> None:
        """Feeds ``value`` with its type and everything that it holds or can read.

        Raises:
            Unfaithful: something in it has no faithful fingerprint.
        """
        self._count += 1
        if self._count > MAX_VALUES:
            raise self.refuse(f"more than {MAX_VALUES} values can be read")
        kind = type(value)
        if kind in _SCALARS:
            self.text(canonical(value))
            return
        describe = _DESCRIBERS.get(kind)
        if describe is None:
            describe = instances.describe_class if isinstance(value, type) else instances.describe_object
        if kind is not tuple and kind is not frozenset and self._seen(value):
            return
        describe(self, value)

    def contents(self, value: Any) -> None:
        """Feeds a tuple, list or dict, also one that was met before; it is kept alive."""
        self._alive.append(value)
        _DESCRIBERS[type(value)](self, value)

    def text(self, text: str) -> None:
        """Feeds a text."""
        raw = text.encode("utf-8", "surrogatepass")
        self._state.update(b"%d:" % len(raw))
        self._state.update(raw)

    def _seen(self, value: Any) -> bool:
        """Whether ``value`` was met before; then only its position is fed, which also ends cycles."""
        known = self._order.get(id(value))
        if known is not None:
            self.text(f"again {known}")
            return True
        self._order[id(value)] = len(self._order)
        self._alive.append(value)
        return False

    def refuse(self, problem: str) -> Unfaithful:
        """The error that says what is wrong, and where the walk is."""
        return Unfaithful(f"{' of '.join(reversed(self._where))}: {problem}" if self._where else problem)

    @contextlib.contextmanager
    def at(self, place: str) -> Iterator[None]:
        """Names the place that the body walks."""
        self._where.append(place)
        yield
        self._where.pop()

    def record(self, kind: int, container: Any, key: Any, expected: Any) -> None:
        """Adds a watch record."""
        self.records.append((kind, container, key, expected))

    # -- containers -------------------------------------------------------------------------------------------------

    def _sequence(self, value: tuple | list) -> None:
        if type(value) is list:
            self.record(watch.LIST, value, None, tuple(value))
        self.text(f"{type(value).__name__} {len(value)}")
        for position, item in enumerate(value):
            with self.at(f"item {position}"):
                self.value(item)

    def _mapping(self, value: dict) -> None:
        self.record(watch.DICT, value, tuple(value), tuple(value.values()))
        self.text(f"dict {len(value)}")
        for key, item in value.items():
            with self.at(f"item {key!r}"):
                self.value(key)
                self.value(item)

    def _set(self, value: set | frozenset) -> None:
        try:
            text = canonical(value)
        except NotCanonical as error:
            raise self.refuse(f"a set with an item that has no order ({error})") from None
        self.record(watch.CALL, functools.partial(canonical, value), None, text)
        self.text(text)

    def _bytearray(self, value: bytearray) -> None:
        self.record(watch.CALL, functools.partial(bytes, value), None, bytes(value))
        self.text(canonical(value))

    # -- code -------------------------------------------------------------------------------------------------------

    def function(self, function: FunctionType) -> None:
        """Feeds a function: code, text, defaults and everything that it reads."""
        module = function.__module__ or ""
        if self.by_name(function, module, function.__qualname__):
            return
        code = function.__code__
        self.record(watch.FUNCTION, function, None, (code, function.__defaults__, function.__kwdefaults__))
        self.text("function")
        with self.at(f"{function.__qualname__}()"):
            self._code(code)
            for name, default in (
                ("defaults", function.__defaults__),
                ("keyword defaults", function.__kwdefaults__),
            ):
                with self.at(name):
                    self.value(default)
            if function.__dict__:
                self._mapping(function.__dict__)
            cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
            for read in (*code_reads(code), *self._annotation_reads(code)):
                self._read(read, function.__globals__, cells)

    def _code(self, code: CodeType) -> None:
        self.text(code_text(code))
        text = source_text.block(code)
        if text is not None:
            self.codes.append(code)
        self.text(text or "no source")

    def _annotation_reads(self, code: CodeType) -> tuple[Read, ...]:
        text = source_text.block(code)
        if text is None or ":" not in text:
            return ()
        try:
            return annotation_reads(ast.parse(text), code)
        except SyntaxError as error:
            raise self.refuse(f"its source cannot be parsed ({error.msg})") from None

    def _read(self, read: Read, variables: dict[str, Any], cells: Mapping[str, CellType]) -> None:
        label = ".".join((read.name, *read.chain))
        self.text(f"read {read.root} {label} {read.constant}")
        with self.at(f"`{label}`"):
            if read.root == FREE:
                self._chain(self._cell(cells[read.name]), read)
            elif read.root == GLOBAL:
                self._chain(self._global(read.name, variables), read)
            else:
                self._chain(sys.modules.get(read.name, MISSING), read)

    def _cell(self, cell: CellType) -> Any:
        try:
            content = cell.cell_contents
        except ValueError:
            content = MISSING
        self.record(watch.CELL, cell, None, content)
        return content

    def _global(self, name: str, variables: dict[str, Any]) -> Any:
        content = variables.get(name, MISSING)
        self.record(watch.ITEM, variables, name, content)
        if content is MISSING:
            content = builtins.__dict__.get(name, MISSING)
            self.record(watch.ITEM, builtins.__dict__, name, content)
        return content

    def _chain(self, value: Any, read: Read) -> None:
        """Follows ``read.chain`` from ``value`` through modules and functions, and feeds where it ends."""
        chain = list(read.chain)
        while chain and isinstance(value, ModuleType) and value is not os:
            module, name = value, chain.pop(0)
            value = self._module_attribute(module, name)
            if purity.is_own(module.__name__) and not isinstance(value, ModuleType):
                if self._pristine(module, name, value):
                    return
        if value is os or env.is_reader(value):
            self._environment(value, chain, read.constant)
        elif value is MISSING:
            self.text("missing")
        elif isinstance(value, ModuleType):
            self._whole_module(value)
        else:
            self.value(value)
            if chain and isinstance(value, FunctionType):
                self.record(watch.ITEM, value.__dict__, chain[0], value.__dict__.get(chain[0], MISSING))
                self.value(value.__dict__.get(chain[0]))

    def _module_attribute(self, module: ModuleType, name: str) -> Any:
        content = module.__dict__.get(name, MISSING)
        if content is MISSING and not purity.is_own(module.__name__):
            # A module may make its attributes on demand; having been asked once it has them.
            content = getattr(module, name, MISSING)
            if module.__dict__.get(name, MISSING) is not content:
                raise self.refuse(f"module {module.__name__} makes its attribute {name!r} at every access")
        self.record(watch.ITEM, module.__dict__, name, content)
        return content

    def _pristine(self, module: ModuleType, name: str, value: Any) -> bool:
        """Feeds an attribute of a module of ours by name, unless somebody put another value there.

        What a module of ours makes on demand must not be made here: that would load the compiler. A name that is not there
        yet, and one that holds what the module would put there, are the same.
        """
        home = module.__dict__.get("_HOME", {}).get(name, module.__name__)
        if purity.is_impure_own(home):
            raise self.refuse(f"{home}.{name} depends on more than its arguments")
        if value is not MISSING and value is not own_code.made_on_demand(module, name, home):
            return False
        self.text(f"own {module.__name__}.{name}")
        return True

    def _whole_module(self, module: ModuleType) -> None:
        name = module.__name__
        own = purity.is_own(name) and not purity.is_impure_own(name) and name != "tilelang"
        if not own and name not in purity.PURE_MODULES:
            raise self.refuse(f"the module {name} is used as a whole, so that any part of it may be read")
        self.text(f"module {name}")

    def _environment(self, value: Any, chain: list[str], constant: str | None) -> None:
        if value is os and chain[:1] == ["environ"] and chain[1:] in ([], ["get"]):
            chain = []
        elif value is os and chain == ["getenv"] or value is not os and chain == ["get"]:
            chain = []
        elif value is os:
            raise self.refuse(f"os.{'.'.join(chain) or '*'} depends on the machine")
        if chain or constant is None:
            raise self.refuse("an environment variable is read whose name is not written out there")
        table, key = env.raw_table(), env.raw_key(constant)
        self.record(watch.ITEM, table, key, table.get(key, MISSING))
        self.text(f"environment {constant}={table.get(key)!r}")

    def by_name(self, value: Any, module: str, name: str) -> bool:
        """Feeds code of ours or of a listed library by name; False for the user's own code."""
        if purity.is_own(module):
            if not own_code.is_really_own(value):
                return False
            if purity.is_impure_own(module):
                raise self.refuse(f"{module}.{name} depends on more than its arguments")
            self.text(f"own {module}.{name}")
            return True
        if not purity.is_library(module):
            return False
        if self._pure_only and not purity.is_pure(module, name):
            raise self.refuse(f"{module}.{name} is not known to give the same result at every call")
        package = purity.top(module)
        self.text(f"library {module}.{name} {purity.version(package)}")
        return True

    def _builtin(self, value: BuiltinFunctionType) -> None:
        owner = value.__self__
        if owner is None or isinstance(owner, ModuleType):
            module = value.__module__ or (owner.__name__ if owner is not None else "")
            if not self.by_name(value, module, value.__name__):
                raise self.refuse(f"{module}.{value.__name__} is compiled code that is not listed as pure")
            return
        self.text(f"method {value.__name__}")
        self.value(owner)

    def _method(self, value: MethodType) -> None:
        self.text("bound method")
        self.value(value.__func__)
        self.value(value.__self__)

    def _slot(self, value: Any) -> None:
        self.text(f"slot {value.__objclass__.__module__}.{value.__objclass__.__qualname__}.{value.__name__}")

    def _partial(self, value: functools.partial) -> None:
        self.text("partial")
        state = (value.func, value.args, value.keywords)
        self.record(watch.CALL, lambda: value.func is state[0] and value.args is state[1], None, True)
        for part in state:
            self.value(part)

    def _property(self, value: property) -> None:
        self.text("property")
        for part in (value.fget, value.fset, value.fdel):
            self.value(part)

    def _wrapper(self, value: staticmethod | classmethod) -> None:
        self.text(type(value).__name__)
        self.value(value.__func__)

    def _cached_function(self, value: Any) -> None:
        raise self.refuse("a function with a cache of its own may return what it computed before a change")


def _range(describer: Describer, value: range) -> None:
    describer.text(f"range {value.start} {value.stop} {value.step}")


def _code_alone(describer: Describer, value: CodeType) -> None:
    describer.text(code_text(value))


def _constant_object(describer: Describer, value: Any) -> None:
    describer.text(repr(value))


def _namespace_object(describer: Describer, value: SimpleNamespace) -> None:
    describer.text("SimpleNamespace")
    describer._mapping(value.__dict__)


_DESCRIBERS: dict[type, Callable[[Describer, Any], None]] = {
    tuple: Describer._sequence,
    list: Describer._sequence,
    dict: Describer._mapping,
    set: Describer._set,
    frozenset: Describer._set,
    bytearray: Describer._bytearray,
    range: _range,
    FunctionType: Describer.function,
    BuiltinFunctionType: Describer._builtin,
    MethodType: Describer._method,
    MethodDescriptorType: Describer._slot,
    WrapperDescriptorType: Describer._slot,
    CodeType: _code_alone,
    ModuleType: Describer._whole_module,
    functools.partial: Describer._partial,
    functools._lru_cache_wrapper: Describer._cached_function,
    property: Describer._property,
    staticmethod: Describer._wrapper,
    classmethod: Describer._wrapper,
    SimpleNamespace: _namespace_object,
    type(...): _constant_object,
    type(NotImplemented): _constant_object,
}
