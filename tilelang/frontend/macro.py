"""Macros: functions that may use the whole language and are traced into each program that calls them.

Scalars are passed by value, as between Python functions: assigning to a parameter leaves the caller's variable alone. A
parameter annotated ``T.Ref`` names the caller's variable or element itself. Buffers are never copied.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, overload

from tilelang.errors import CompileError, OperandError
from tilelang.frontend.source import remember
from tilelang.ignored import ignored
from tilelang.provided import provided

_DEEPEST = 64
"""Largest depth of macros that call each other; a little more would exceed Python's own limit on recursion."""


class Ref:
    """Annotation of a macro's parameter that stands for the caller's variable, element or slice: ``x: T.Ref``."""


class Macro:
    """A function whose body is traced where it is called."""

    __tilelang_fingerprint__ = ("_signature",)

    def __init__(self, function: Callable[..., Any]):
        self.function = function
        remember(function.__code__)
        self._signature: inspect.Signature | None = None
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from tilelang.frontend.builder import current
        from tilelang.frontend.hooks import HOOKS
        from tilelang.frontend.rewrite import rewrite

        builder = current(f"macro {self.function.__name__}")
        if len(builder.macro_depths) >= _DEEPEST:
            raise CompileError(
                f"macro {self.function.__name__} is {_DEEPEST} calls deep: it calls itself without end",
                hint="what ends the recursion must be known when the program is traced",
            )
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise OperandError(f"macro {self.function.__name__}{self.signature}: {error}") from None
        for name, value in bound.arguments.items():
            bound.arguments[name] = self._passed(builder, name, value)
        with builder.inlining():
            return rewrite(self.function, HOOKS)(*bound.args, **bound.kwargs)

    @property
    def signature(self) -> inspect.Signature:
        """The parameters of the function."""
        if self._signature is None:
            self._signature = inspect.signature(self.function)
        return self._signature

    def _passed(self, builder: Any, name: str, value: Any) -> Any:
        """What the macro gets for an argument: a value, or for a parameter ``T.Ref`` the memory itself.

        Args:
            builder: of the program.
            name: of the parameter; ``*args`` and ``**kwargs`` have several arguments.
            value: the argument, or those.
        """
        from tilelang.ir import nodes as ir

        kind = self.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            return tuple(_by_value(builder, name, item) for item in value)
        if kind is inspect.Parameter.VAR_KEYWORD:
            return {key: _by_value(builder, key, item) for key, item in value.items()}
        annotation = _named(self.function, self.signature.parameters[name].annotation)
        if any(annotation is each for each in (Ref, provided("Var"), ir.Var)) or _is_text(annotation):
            return _reference(builder, name, value)
        return _by_value(builder, name, value)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


def _named(function: Callable[..., Any], annotation: Any) -> Any:
    """What an annotation names, also one that is text (``from __future__ import annotations``); that text where it is unknown."""
    while isinstance(annotation, str) and annotation[:1] in ("'", '"'):
        annotation = annotation[1:-1]
    if not isinstance(annotation, str):
        return annotation
    first, *attributes = annotation.split(".")
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    try:
        found = cells[first].cell_contents if first in cells else function.__globals__[first]
        return functools.reduce(getattr, attributes, found)
    except (KeyError, ValueError, AttributeError):
        return annotation


def _is_text(annotation: Any) -> bool:
    """Whether an annotation that names nothing the function knows says that a parameter is one by reference."""
    return isinstance(annotation, str) and annotation in ("T.Ref", "T.Var")


def _by_value(builder: Any, name: str, value: Any) -> Any:
    """A scalar as it is now; buffers and what Python holds are passed as they are.

    Args:
        builder: of the program.
        name: of the parameter.
        value: the argument.
    """
    from tilelang.frontend.bindings import snapshot
    from tilelang.ir import nodes as ir

    # An element of a barrier buffer names the barrier and has no value that could be read.
    is_barrier = isinstance(value, ir.TensorLoad) and value.source.scope().endswith("barrier")
    return value if is_barrier else snapshot(builder, name, value)


def _reference(builder: Any, name: str, value: Any) -> Any:
    from tilelang.frontend.access import is_buffer
    from tilelang.frontend.bindings import snapshot
    from tilelang.frontend.values import ElementRef, LocalVar, ReadVar
    from tilelang.ir import nodes as ir
    from tilelang.ir.region import Region

    if isinstance(value, (LocalVar, Region)) or is_buffer(value):
        return value.variable if isinstance(value, ReadVar) else value
    if isinstance(value, ir.TensorLoad):
        return ElementRef(value.source, tuple(snapshot(builder, "index", index) for index in value.indices))
    raise OperandError(
        f"parameter {name} is T.Ref: it takes a T.alloc_var, an element or a slice, not {type(value).__name__}",
        hint="a value that the macro only reads needs no annotation",
    )


@overload
def macro(func: Callable[..., Any], **options: Any) -> Macro: ...
@overload
def macro(func: None = None, **options: Any) -> Callable[[Callable[..., Any]], Macro]: ...
def macro(func: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Decorator: makes a :class:`Macro` of a function. Keywords have no effect; a value warns."""
    ignored("T.macro", **options)
    if isinstance(func, (staticmethod, classmethod)):
        return type(func)(Macro(func.__func__))
    return macro if func is None else Macro(func)
