"""Functions: by code, source text, defaults, annotations, attributes, and everything that the code can read."""

from __future__ import annotations

import ast
import functools
import weakref
from types import (
    BuiltinFunctionType,
    CellType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

from tilelang.fingerprint import ambient, foreign, libraries, modules, opcodes, source_text, watch
from tilelang.fingerprint.annotations import annotation_reads
from tilelang.fingerprint.canonical import canonical
from tilelang.fingerprint.containers import hash_order
from tilelang.fingerprint.reads import CodeReads, Read, code_reads, code_tree
from tilelang.fingerprint.walk import OTHERWISE, Describer, describes

_SAFE_SPECIAL_NAMES = frozenset(
    name for kind in (int, float, complex, str, tuple, list, dict, set, type(len)) for name in dir(kind)
) - frozenset("__doc__ __hash__ __sizeof__ __reduce__ __reduce_ex__ __getstate__ __text_signature__ __self__ __module__".split())
_SAFE_NAMES = _SAFE_SPECIAL_NAMES | frozenset(
    "__name__ __qualname__ __class__ __dict__ __post_init__ __enter__ __exit__ __next__ __members__ __call__ __version__ __file__"
    " __fspath__ __args__ __origin__ __mro__ __bases__ __isabstractmethod__ __missing__ __annotations__ __func__"
    " __dataclass_fields__".split()
)
"""Attributes with two underscores whose values are part of what is described."""


@describes(FunctionType)
def function(describer: Describer, value: FunctionType) -> None:
    """Feeds a function: one of a library by name, the user's by content."""
    if labelled(describer, value):
        return
    attributes, notes = value.__dict__, value.__annotations__
    state = (value.__code__, value.__defaults__, value.__kwdefaults__, attributes, value.__name__, value.__qualname__, notes)
    describer.record(watch.FUNCTION, value, None, state)
    describer.text(f"function {value.__name__} {value.__qualname__}")
    with describer.at(f"{value.__qualname__}()"):
        _code(describer, value.__code__)
        for name, part in (
            ("defaults", value.__defaults__), ("keyword defaults", value.__kwdefaults__), ("attributes", attributes),
        ):  # fmt: skip
            with describer.at(name):
                describer.value(part)
        _annotations(describer, notes)
        _reads(describer, value)


def labelled(describer: Describer, value: Any) -> bool:
    """Feeds code of a library by name; False for the user's own."""
    try:
        label = libraries.library_label(value)
    except libraries.Untrusted as error:
        if not describer.trusting:
            raise describer.refuse(str(error)) from None
        label = f"trusted {error}"
    if label is None:
        return False
    describer.text(label)
    if type(value) is FunctionType:
        code_and_closure(describer, value)
    if libraries.is_set_maker(value):
        hash_order(describer)
    _ambient(describer, label, value)
    return True


def _listed_object(describer: Describer, value: Any) -> bool:
    return libraries.is_listed_object(value) and labelled(describer, value)


OTHERWISE.append(_listed_object)


def _ambient(describer: Describer, label: str, value: Any) -> None:
    """Feeds, or limits, what a library's function or class depends on besides its arguments."""
    if libraries.is_float_information(value):
        modules.torch_default_dtype(describer)
    elif label.startswith("library pathlib."):
        foreign.limit_paths(describer)
    elif label.startswith("library logging.getLogger"):
        ambient.limit_loggers(describer)


def code_and_closure(describer: Describer, value: FunctionType) -> None:
    """Feeds what a library's function was made with: nothing, unless it was made by a decorator, for instance."""
    describer.record(watch.FUNCTION_CODE, value, None, (value.__code__, value.__defaults__, value.__kwdefaults__))
    if libraries.is_own_name(value.__globals__.get("__name__")):
        return
    for name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
        with describer.at(name):
            describer.value(modules.cell_content(describer, cell))


def _code(describer: Describer, code: CodeType) -> None:
    describer.text(code_text(code))
    describer.covered.append(code)
    text = source_text.block(code)
    if text is not None:
        describer.codes.append(code)
    describer.text(text or "no source")


def _annotations(describer: Describer, notes: dict[str, Any]) -> None:
    describer.record_dict(notes)
    for name, note in notes.items():
        with describer.at(f"annotation of {name}"):
            describer.text(name)
            modules.reference(describer, note)


def _reads(describer: Describer, value: FunctionType) -> None:
    try:
        found = code_reads(value.__code__)
    except opcodes.UnknownInstruction as error:
        raise describer.refuse(str(error)) from None
    _names(describer, found)
    scope = modules.Scope(value)
    for read in (*found.reads, *_annotation_reads(describer, value.__code__)):
        if not (value.__code__.co_name == "__hash__" and modules.is_builtin_hash(read, scope)):
            # The result of `__hash__` is visible only to `hash`, which is refused, and in the order of sets.
            modules.read(describer, read, scope)


def _names(describer: Describer, found: CodeReads) -> None:
    hidden = sorted(name for name in found.names if _is_special(name) and name not in _SAFE_NAMES)
    if hidden and not describer.trusting:
        raise describer.refuse(f"the attribute {hidden[0]!r} is read, which is not part of a value")
    describer.names |= found.names
    describer.texts |= found.texts
    if found.makes_sets:
        hash_order(describer)
    if found.computes_names:
        describer.computes_names = True
        if any(_is_special(text) for text in found.texts):
            raise describer.refuse("attributes are read under names that are not written out there")


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _annotation_reads(describer: Describer, code: CodeType) -> tuple[Read, ...]:
    text = source_text.block(code)
    if text is None or ":" not in text:
        return ()
    try:
        return annotation_reads(ast.parse(text), code)
    except SyntaxError as error:
        raise describer.refuse(f"its source cannot be parsed ({error.msg})") from None


# -- code -----------------------------------------------------------------------------------------------------------


def code_text(code: CodeType) -> str:
    """Code as a text without paths and line numbers."""
    parts = [
        code.co_code.hex(),
        repr((code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)),
        repr((code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)),
        getattr(code, "co_exceptiontable", b"").hex(),
    ]
    for constant in code.co_consts:
        parts.append(code_text(constant) if isinstance(constant, CodeType) else _constant_text(constant))
    return "\0".join(parts)


def _constant_text(constant: Any) -> str:
    if constant is ...:
        return "ellipsis"
    if isinstance(constant, slice):  # from Python 3.14
        return f"slice{canonical((constant.start, constant.stop, constant.step))}"
    return canonical(constant)


@describes(CodeType)
def _code_alone(describer: Describer, value: CodeType) -> None:
    describer.covered.extend(code_tree(value))
    describer.text(code_text(value))


@describes(CellType)
def _cell(describer: Describer, value: CellType) -> None:
    describer.value(modules.cell_content(describer, value))


# -- functions of other kinds -----------------------------------------------------------------------------------------


@describes(BuiltinFunctionType)
def _builtin(describer: Describer, value: BuiltinFunctionType) -> None:
    owner = value.__self__
    if owner is None or isinstance(owner, ModuleType):
        labelled(describer, value)
        return
    describer.text(f"method {value.__name__}")
    describer.value(owner)


@describes(MethodType)
def _method(describer: Describer, value: MethodType) -> None:
    describer.text("bound method")
    describer.value(value.__func__)
    describer.value(value.__self__)


@describes(MethodWrapperType)
def _method_wrapper(describer: Describer, value: Any) -> None:
    describer.text(f"method wrapper {value.__name__}")
    describer.value(value.__self__)


@describes(MethodDescriptorType, WrapperDescriptorType, ClassMethodDescriptorType, GetSetDescriptorType, MemberDescriptorType)
def _descriptor(describer: Describer, value: Any) -> None:
    describer.text(f"descriptor {value.__name__}")
    describer.value(value.__objclass__)


@describes(functools.partial)
def _partial(describer: Describer, value: functools.partial) -> None:
    describer.text("partial")
    state = (value.func, value.args, value.keywords)
    describer.record_probe(lambda: value.func is state[0] and value.args is state[1] and value.keywords is state[2], True)
    describer.record(watch.OWN_DICT, value, None, value.__dict__)
    for part in (*state, value.__dict__):
        describer.value(part)


@describes(property)
def _property(describer: Describer, value: property) -> None:
    describer.text("property")
    for part in (value.fget, value.fset, value.fdel):
        describer.value(part)


@describes(staticmethod, classmethod)
def _wrapper(describer: Describer, value: Any) -> None:
    describer.text(type(value).__name__)
    describer.value(value.__func__)


@describes(functools.cached_property)
def _cached_property(describer: Describer, value: functools.cached_property) -> None:
    describer.text(f"cached property {value.attrname}")
    func = value.func
    describer.record_probe(lambda: value.func is func, True)
    describer.value(func)


# -- functions with a cache ---------------------------------------------------------------------------------------------

_known_results: weakref.WeakKeyDictionary[Any, tuple[str, int]] = weakref.WeakKeyDictionary()
"""Cached function -> digest of the function that computed all that it holds, and how often it had computed."""


@describes(type(functools.cache(len)))
def _cached_function(describer: Describer, value: Any) -> None:
    if id(value) in describer.in_progress:
        describer.text("again")
        return
    inner = value.__wrapped__
    alone = Describer(describer.trusting)
    alone.in_progress = describer.in_progress | {id(value)}
    with describer.at(f"the cached {getattr(inner, '__qualname__', 'function')}()"):
        alone.value(inner)
        computed, known = value.cache_info(), _known_results.get(value)
        if computed.currsize and known != (alone.digest(), computed.misses):
            raise describer.refuse("it holds results that may be from before a change")
        describer.text(f"cached {computed.maxsize}")
        describer.record_probe(lambda: value.cache_info().misses, computed.misses)
        describer.record(watch.OWN_DICT, value, None, value.__dict__)
        describer.value(value.__dict__)
        describer.value(inner)
    describer.cached.append((value, alone.digest()))


def results_are_current(cached: list[tuple[Any, str]]) -> None:
    """Notes that whatever these cached functions hold was computed by the functions with these digests."""
    for function, digest in cached:
        _known_results[function] = (digest, function.cache_info().misses)
