"""Functions: by code, source text, defaults, annotations, attributes, and everything that the code can read."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
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

from tilelang.fingerprint import (
    addresses,
    ambient,
    attributes,
    foreign,
    libraries,
    library_globals,
    library_state,
    modules,
    opcodes,
    output,
    own,
    source_text,
    watch,
)
from tilelang.fingerprint.annotations import annotation_reads
from tilelang.fingerprint.canonical import canonical
from tilelang.fingerprint.containers import hash_order, pairs
from tilelang.fingerprint.reads import MADE, TEXT_BUILTINS, CodeReads, code_reads
from tilelang.fingerprint.references import READERS_OF_TYPES, reference
from tilelang.fingerprint.walk import OTHERWISE, Describer, describes


@describes(FunctionType)
def function(describer: Describer, value: FunctionType) -> None:
    """Feeds a function: one of a library by name, the user's by content."""
    if labelled(describer, value):
        return
    # The code says what a call does. The source is fed too: the front end compiles it anew, and annotations of local variables
    # stand in the text only.
    own, notes = value.__dict__, value.__annotations__
    state = (value.__code__, value.__defaults__, value.__kwdefaults__, own, value.__name__, value.__qualname__, notes)
    describer.record(watch.FUNCTION, value, None, state)
    describer.text(f"function {value.__name__} {value.__qualname__}")
    with describer.at(f"{value.__qualname__}()"):
        text = source_text.block(value.__code__, value.__globals__)
        _code(describer, value.__code__, text)
        for name, part in (("defaults", value.__defaults__), ("keyword defaults", value.__kwdefaults__)):
            with describer.at(name):
                describer.value(part)
        describer.attributes(own)
        _annotations(describer, notes)
        _reads(describer, value, text)


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
    # getattr as a value, in a variable or as an argument, may be called with any name.
    if any(value is reader for reader in attributes.READERS):
        describer.computes_names = True
        ambient.numeric_locale(describer)
    if any(value is maker for maker in TEXT_BUILTINS) or label.startswith(("library string.", "library reprlib.")):
        describer.names.add(MADE)
    if any(value is reader for reader in READERS_OF_TYPES):
        describer.names.add(value.__name__)
    if value is dataclasses.fields:
        describer.values.add("__dataclass_fields__")
    if type(value) is FunctionType:
        code_and_closure(describer, value)
    elif not isinstance(value, type):
        _listed_callable(describer, value)
    if libraries.is_set_maker(value):
        hash_order(describer)
    _ambient(describer, label, value)
    return True


def _listed_callable(describer: Describer, value: Any) -> None:
    """Feeds a listed object of compiled code, and what the function of Python code behind it reads."""
    library_state.callable_state(describer, value)
    inner = getattr(value, "_implementation", None)
    if type(inner) is FunctionType:
        library_globals.globals_of(describer, inner)


def _listed_object(describer: Describer, value: Any) -> bool:
    return libraries.is_listed_object(value) and labelled(describer, value)


OTHERWISE.append(_listed_object)


def _ambient(describer: Describer, label: str, value: Any) -> None:
    """Feeds, or limits, what a library's function or class depends on besides its arguments."""
    if libraries.is_float_information(value):
        modules.torch_default_dtype(describer)
    elif label.startswith("library pathlib."):
        foreign.limit_paths(describer)
    elif label.startswith("library logging."):
        output.any_logger(describer)
    elif label.startswith(("library warnings.", "library _warnings.")):
        output.filters_of_warnings(describer)
    elif value is contextlib.suppress:
        ambient.exceptions_are_caught(describer)
    elif value is format or label.startswith("library string."):
        ambient.numeric_locale(describer)
    elif value is print:
        output.stream(describer, "stdout")
    elif label.startswith("library numpy."):
        ambient.numpy_state(describer)


def code_and_closure(describer: Describer, value: FunctionType) -> None:
    """Feeds what a library's function was made with: nothing, unless it was made by a decorator, for instance."""
    describer.record(watch.FUNCTION_CODE, value, None, (value.__code__, value.__defaults__, value.__kwdefaults__))
    if libraries.is_own_name(value.__globals__.get("__name__")):
        library_state.callable_state(describer, value)
        return
    library_state.function_state(describer, value)
    if value.__globals__ is not vars(logging):  # its handlers are fingerprinted instead
        library_globals.globals_of(describer, value)
    for name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
        with describer.at(name):
            describer.value(own.cell_content(describer, cell), False)


def _code(describer: Describer, code: CodeType, text: str | None) -> None:
    describer.text(code_text(code))
    describer.covered.append(code)
    if text is not None:
        describer.codes.append(code)
    describer.text(text or "no source")


def _annotations(describer: Describer, notes: dict[str, Any]) -> None:
    describer.record_dict(notes)
    if notes:
        describer.place(notes)
    for name, note in notes.items():
        with describer.at(f"annotation of {name}"):
            describer.text(name)
            reference(describer, note)


def _reads(describer: Describer, value: FunctionType, text: str | None) -> None:
    try:
        found = code_reads(value.__code__)
        noted = annotation_reads(text, value.__code__)
    except opcodes.UnknownInstruction as error:
        raise describer.refuse(str(error)) from None
    is_of_text = describer.method_of_text(value)
    for each in (found, *noted):
        _names(describer, each, is_of_text)
    if found.compares_self:
        describer.method_of_equality(value)
    scope = modules.Scope(value)
    for read in dict.fromkeys(read for each in (found, *noted) for read in each.reads):
        if not (value.__code__.co_name == "__hash__" and modules.is_builtin_hash(read, scope)):
            # The result of `__hash__` is visible only to `hash`, which is refused, and in the order of sets.
            modules.read(describer, read, scope)


def _names(describer: Describer, found: CodeReads, is_of_text: bool) -> None:
    for name in sorted(found.names - addresses.OF_TEXT if is_of_text else found.names):
        reads_name(describer, name)
    describer.values |= found.values
    describer.texts |= found.texts
    describer.catches |= found.catches
    if found.makes_sets:
        hash_order(describer)
    if found.computes_names:
        describer.computes_names = True
        ambient.numeric_locale(describer)
    if found.catches:
        ambient.exceptions_are_caught(describer)
    if found.compares_identity and not describer.trusting:
        raise describer.refuse("`is` compares values of which equal ones count as the same")


def reads_name(describer: Describer, name: str) -> None:
    """Notes that an attribute is read.

    Raises:
        Unfaithful: it shows more than the value that it is an attribute of.
    """
    if attributes.is_hidden(name) and not describer.trusting:
        raise describer.refuse(f"the attribute {name!r} is read, which is not part of a value")
    describer.names.add(name)
    if name in attributes.SEPARATING:
        ambient.numeric_locale(describer)


# -- code -----------------------------------------------------------------------------------------------------------


def code_text(code: CodeType) -> str:
    """Code as a text without paths and line numbers."""
    parts = [
        # Names and constants are compared beside the instructions, which hold only their numbers.
        code.co_code.hex(),
        repr((code.co_name, getattr(code, "co_qualname", ""))),
        repr((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)),
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


@describes(CellType)
def _cell(describer: Describer, value: CellType) -> None:
    describer.value(own.cell_content(describer, value))


# -- functions of other kinds -----------------------------------------------------------------------------------------


@describes(BuiltinFunctionType)
def _builtin(describer: Describer, value: BuiltinFunctionType) -> None:
    # [].append of a list is a builtin function too, whose object is the list.
    owner = value.__self__
    if owner is None or isinstance(owner, ModuleType):
        labelled(describer, value)
        return
    describer.text(f"method {value.__name__}")
    reads_name(describer, value.__name__)
    describer.value(owner)


@describes(MethodType)
def _method(describer: Describer, value: MethodType) -> None:
    describer.text("bound method")
    reads_name(describer, getattr(value.__func__, "__name__", ""))
    describer.value(value.__func__)
    describer.value(value.__self__)


@describes(MethodWrapperType)
def _method_wrapper(describer: Describer, value: Any) -> None:
    describer.text(f"method wrapper {value.__name__}")
    reads_name(describer, value.__name__)
    describer.value(value.__self__)


@describes(MethodDescriptorType, WrapperDescriptorType, ClassMethodDescriptorType, GetSetDescriptorType, MemberDescriptorType)
def _descriptor(describer: Describer, value: Any) -> None:
    describer.text(f"descriptor {value.__name__}")
    reads_name(describer, value.__name__)
    describer.value(value.__objclass__)


@describes(functools.partial)
def _partial(describer: Describer, value: functools.partial) -> None:
    describer.text("partial")
    state = (value.func, value.args, value.keywords)
    describer.record_probe(lambda: value.func is state[0] and value.args is state[1] and value.keywords is state[2], True)
    describer.record(watch.OWN_DICT, value, None, value.__dict__)
    for part in state:
        describer.value(part)
    describer.attributes(value.__dict__)


@describes(property)
def _property(describer: Describer, value: property) -> None:
    describer.text("property")
    parts = (value.fget, value.fset, value.fdel)
    describer.record_probe(lambda: _are((value.fget, value.fset, value.fdel), parts), True)
    for part in parts:
        describer.value(part, False)


@describes(staticmethod, classmethod)
def _wrapper(describer: Describer, value: Any) -> None:
    describer.text(type(value).__name__)
    function, own = value.__func__, value.__dict__
    describer.record_probe(lambda: value.__func__ is function, True)
    describer.record_dict(own)
    describer.value(function, False)
    pairs(describer, "attributes", {name: item for name, item in own.items() if name not in OF_FUNCTION})


def _are(now: tuple, then: tuple) -> bool:
    return all(a is b for a, b in zip(now, then, strict=True))


OF_FUNCTION = frozenset("__module__ __doc__ __annotations__ __annotate__ __wrapped__ __type_params__".split())
"""What ``functools.update_wrapper``, and a static or class method, repeats of its function."""


_OF_CACHED_PROPERTY = frozenset("func attrname lock __doc__ __module__".split())


@describes(functools.cached_property)
def _cached_property(describer: Describer, value: functools.cached_property) -> None:
    describer.text(f"cached property {value.attrname}")
    func, own = value.func, vars(value)
    describer.record_probe(lambda: value.func is func, True)
    describer.record_dict(own)
    describer.value(func, False)
    pairs(describer, "attributes", {name: item for name, item in own.items() if name not in _OF_CACHED_PROPERTY})
