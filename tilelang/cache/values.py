"""Fingerprints of Python values by content, and the watch that notices when one may have changed.

A function counts by its code and source text, its defaults, and everything that its code can read, helpers of helpers
included; a class by its bases and attributes; an instance by its class and state; a plain value by type and bits. What
cannot be told faithfully raises :class:`Unfaithful`, and the caller compiles without the shortcut.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import dataclasses
import enum
import functools
import gc
import hashlib
import os
import reprlib
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
from tilelang.cache import foreign, own_code, purity, source_text, watch
from tilelang.cache.canonical import NotCanonical, canonical
from tilelang.cache.code_text import code_text
from tilelang.cache.missing import MISSING
from tilelang.cache.reads import FREE, GLOBAL, Read, annotation_reads, code_reads

MAX_VALUES = 50_000
PROTOCOL = "__tilelang_fingerprint__"
"""A method of objects that wrap user code: returns a tuple of the values that stand for the object."""

_SCALARS = (type(None), bool, int, float, complex, str, bytes)
_BASES = (int, float, complex, str, bytes, tuple, list, dict)  # builtins that a user's class may extend
_STATELESS_BASES = frozenset(
    (
        "abc.ABC",
        "typing.Generic",
        "typing.Protocol",
        "typing_extensions.Protocol",
        "enum.Enum",
        "enum.IntEnum",
    )
    + (
        "enum.Flag",
        "enum.IntFlag",
        "enum.StrEnum",
        "enum.ReprEnum",
        "types.SimpleNamespace",
        "builtins.object",
    )
)
_CLASS_BOOKKEEPING = frozenset(
    "__module__ __qualname__ __doc__ __dict__ __weakref__ __annotations__ __annotations_cache__ __annotate_func__ "
    "__firstlineno__ __static_attributes__ __dataclass_fields__ __dataclass_params__ __abstractmethods__ _abc_impl "
    "__parameters__ __orig_bases__ __match_args__ __slots__ _member_map_ _value2member_map_ _hashable_values_ "
    "_unhashable_values_ _unhashable_values_map_ __type_params__ __subclasshook__ __class_getitem__ "
    "__conditional_annotations__".split()
)


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
            describe = Describer._type if isinstance(value, type) else Describer._object
        if kind is not tuple and kind is not frozenset and self._seen(value):
            return
        describe(self, value)

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
        if self._by_name(function, module, function.__qualname__):
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

    def _by_name(self, value: Any, module: str, name: str) -> bool:
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
            if not self._by_name(value, module, value.__name__):
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

    # -- classes and instances --------------------------------------------------------------------------------------

    def _type(self, kind: type) -> None:
        module = kind.__module__
        if not isinstance(module, str):
            raise self.refuse(f"{kind!r} is a class of compiled code")
        name = kind.__qualname__
        if module == "builtins" or f"{module}.{name}" in _STATELESS_BASES:
            self.text(f"library {module}.{name}")
            return
        if self._by_name(kind, module, name):
            return
        self.text(f"class {name}")
        self.record(watch.MRO, kind, None, kind.__mro__)
        with self.at(f"class {name}"):
            self.value(type(kind))
            for base in kind.__mro__[1:]:
                self.value(base)
            self._namespace(kind)

    def _namespace(self, kind: type) -> None:
        (namespace,) = (found for found in gc.get_referents(kind.__dict__) if type(found) is dict)
        self.record(watch.DICT, namespace, tuple(namespace), tuple(namespace.values()))
        slots = {name for name, item in namespace.items() if type(item).__name__ == "member_descriptor"}
        fields = namespace.get("__dataclass_fields__", {})
        for spec in fields.values():
            self.text(f"field {spec.name} {spec.init} {spec.compare} {spec.hash} {spec.repr} {spec.kw_only}")
            for default in (spec.default, spec.default_factory):
                self.value(None if default is dataclasses.MISSING else (default,))
        for name, item in namespace.items():
            if fields and _is_generated(item):
                self._generated(item)
            elif name not in _CLASS_BOOKKEEPING and name not in slots:
                self.text(f"attribute {name}")
                with self.at(f"attribute {name!r}"):
                    self.value(item)

    def _generated(self, method: FunctionType) -> None:
        # What dataclass wrote follows from the fields; its defaults can be replaced afterwards.
        state = (method.__code__, method.__defaults__, method.__kwdefaults__)
        self.record(watch.FUNCTION, method, None, state)
        self.value(method.__defaults__)
        self.value(method.__kwdefaults__)

    def _object(self, value: Any) -> None:
        kind = type(value)
        special = foreign.describer_of(kind)
        if special is not None:
            special(self, value)
            return
        self.record(watch.TYPE, value, None, kind)
        stand_in = getattr(kind, PROTOCOL, None)
        if stand_in is not None:
            self.text(f"stand-in {kind.__module__}.{kind.__qualname__}")
            if hasattr(value, "__dict__"):
                self.record(watch.DICT, value.__dict__, tuple(value.__dict__), tuple(value.__dict__.values()))
            self.value(stand_in(value))
            return
        if isinstance(value, enum.Enum):
            self.text(f"member {value.name}")
            self.record(watch.DICT, value.__dict__, tuple(value.__dict__), tuple(value.__dict__.values()))
            self.value(value._value_)
            self.value(kind)
            return
        self._instance(value, kind)

    def _instance(self, value: Any, kind: type) -> None:
        for base in kind.__mro__[:-1]:
            if base not in _BASES and not _is_python_class(base):
                raise self.refuse(f"an object of type {kind.__module__}.{kind.__qualname__}, whose state cannot be read")
        self.text("instance")
        self.value(kind)
        for base in _BASES:
            if isinstance(value, base):
                self._extended(value, base)
        if hasattr(value, "__dict__"):
            self._mapping(value.__dict__)
        for name in _slot_names(kind):
            content = getattr(value, name, None)
            self.record(watch.CALL, functools.partial(_slot_is, value, name, content), None, True)
            with self.at(f"attribute {name!r}"):
                self.value(content)

    def _extended(self, value: Any, base: type) -> None:
        plain = base(value) if base is not str else str.__str__(value)
        if base in (list, dict):
            self.record(watch.CALL, functools.partial(_same_items, value, base, plain), None, True)
        if base is tuple:
            self._sequence(tuple(value))
        elif base in (list, dict):
            with self.at(base.__name__):
                _DESCRIBERS[base](self, plain)
            self._alive.append(plain)
        else:
            self.text(canonical(base.__new__(base, plain)) if base is not str else canonical(plain))


def _same_items(value: Any, base: type, plain: Any) -> bool:
    now = base(value)
    if base is dict:
        return list(now) == list(plain) and all(a is b for a, b in zip(now.values(), plain.values(), strict=True))
    return len(now) == len(plain) and all(a is b for a, b in zip(now, plain, strict=True))


def _slot_is(value: Any, name: str, content: Any) -> bool:
    return getattr(value, name, None) is content


def _slot_names(kind: type) -> list[str]:
    names = []
    for base in reversed(kind.__mro__):
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__"):
                names.append(f"_{base.__name__.lstrip('_')}{name}" if name.startswith("__") and name[-2:] != "__" else name)
    return names


def _is_python_class(kind: type) -> bool:
    if f"{kind.__module__}.{kind.__qualname__}" in _STATELESS_BASES:
        return True
    if purity.is_own(kind.__module__):
        # Python classes of ours keep their state in attributes; TVM's objects keep it in C++.
        return purity.top(kind.__module__) == "tilelang"
    return not purity.is_library(kind.__module__) and bool(kind.__flags__ & 1 << 9)  # a heap type


def _is_generated(item: Any) -> bool:
    """Whether a method was written by ``dataclass``; what it does follows from the fields."""
    code = getattr(item, "__code__", None)
    return code is not None and (code.co_filename == "<string>" or code.co_filename in _DATACLASS_FILES)


def _range(describer: Describer, value: range) -> None:
    describer.text(f"range {value.start} {value.stop} {value.step}")


def _code_alone(describer: Describer, value: CodeType) -> None:
    describer.text(code_text(value))


def _constant_object(describer: Describer, value: Any) -> None:
    describer.text(repr(value))


def _namespace_object(describer: Describer, value: SimpleNamespace) -> None:
    describer.text("SimpleNamespace")
    describer._mapping(value.__dict__)


_DATACLASS_FILES = frozenset((dataclasses.__file__, reprlib.__file__))

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
