"""Python's builtins inside kernels: unchanged for ordinary values, run-time counterparts for expressions."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Mapping
from typing import Any

from tilelang.errors import OperandError
from tilelang.frontend.builder import current, is_tracing
from tilelang.frontend.containers import with_known_keys
from tilelang.frontend.conversion import dtype_of
from tilelang.frontend.copies import with_values
from tilelang.frontend.loops import LoopSpec, range_bounds
from tilelang.frontend.operators import and_, constant, floor_divide, modulo, or_
from tilelang.frontend.texts import Text, text_of
from tilelang.frontend.tiles import elementwise
from tilelang.frontend.values import Tile, Unusable, as_expr, as_operand, is_symbolic, is_typed_constant
from tilelang.language import casts, debug, math
from tilelang.language.calls import is_tile


def _is_run_time(value: Any) -> bool:
    """Whether a value is an expression, or a slice, whose elements are."""
    return is_symbolic(value) or isinstance(value, Tile)


def _either(name: str, extended: Callable[..., Any], concerns: Callable[[Any], bool] = _is_run_time) -> Callable[..., Any]:
    """Python's builtin ``name``, or ``extended`` where it ``concerns`` an argument: an expression or a slice."""
    python = getattr(builtins, name)

    @functools.wraps(python, assigned=("__name__", "__doc__"))
    def function(*args: Any, **kwargs: Any) -> Any:
        if not kwargs and any(concerns(arg) for arg in args):
            return extended(*args)
        return python(*args, **kwargs)

    return function


def _number(name: str, extended: Callable[[Any], Any]) -> Callable[..., Any]:
    """``int``, ``float`` or ``bool``: of a typed constant (``T.float32(2.5)``) Python's, of an expression ``extended``."""
    python = getattr(builtins, name)

    @functools.wraps(python, assigned=("__name__", "__doc__"))
    def function(*args: Any, **kwargs: Any) -> Any:
        if not kwargs and any(map(_is_run_time, args)):
            return extended(*args)
        return python(*map(constant, args), **kwargs)

    return function


def _int(value: Any) -> Any:
    """``int``: an int32, but of a wider integer itself, and of a float64 an int64."""
    if isinstance(value, Tile):
        return elementwise(_int, value)
    kind = dtype_of(as_expr(value))
    if kind.is_integer and kind.bits >= 32:
        return as_operand(value)
    return casts.cast(value, "int64" if kind.base == "float64" else "int32")


def _float(value: Any) -> Any:
    """``float``: a float32, but of a float64 itself."""
    if isinstance(value, Tile):
        return elementwise(_float, value)
    return as_operand(value) if dtype_of(as_expr(value)).base == "float64" else casts.cast(value, "float32")


def _is_typed(value: Any) -> bool:
    """Whether a value is run-time or a typed constant (``T.int8(-3)``), which Python's arithmetic does not know."""
    return _is_run_time(value) or is_typed_constant(value)


def _extremum(name: str) -> Callable[..., Any]:
    """``min`` or ``max`` of several arguments or of the items of one iterable."""
    python, extended = getattr(builtins, name), getattr(math, name)

    @functools.wraps(python, assigned=("__name__", "__doc__"))
    def function(*args: Any, key: Any = None, **kwargs: Any) -> Any:
        items = args if len(args) > 1 else list(*args)
        is_extended = key is None and len(items) > 1 and any(map(_is_run_time, items))
        return extended(*items) if is_extended else python(items, key=key, **kwargs)

    return function


def _quantifier(name: str, stop: bool) -> Callable[..., Any]:
    """``any`` or ``all``: the items combine as ``or`` and ``and`` do."""
    python = getattr(builtins, name)

    @functools.wraps(python, assigned=("__name__", "__doc__"))
    def function(iterable: Any) -> Any:
        items = list(iterable)
        if not any(is_symbolic(item) for item in items):
            return python(items)
        terms = [functools.partial(lambda item: item, item) for item in items]
        return or_(*terms) if stop else and_(*terms)

    return function


def _sum(iterable: Any, /, start: Any = 0) -> Any:
    """The sum of the items; a start of 0 is left out, so that it does not change their type."""
    items = list(iterable)
    if items and isinstance(start, int) and start == 0:
        start, *items = items
    for item in items:
        start = start + item
    return start


def _is_shown(value: Any) -> bool:
    """Whether the kernel, and not Python, can show a value."""
    return _is_run_time(value) or is_tile(value) or isinstance(value, Text)


def _print(*args: Any, **kwargs: Any) -> None:
    """``print``: by the running kernel for run-time values and buffers, while it is compiled for Python values."""
    if kwargs or not is_tracing() or not any(map(_is_shown, args)):
        builtins.print(*args, **kwargs)
        return
    debug.print_in_order(args)


def _range(*bounds: Any) -> Any:
    """``range``: a run-time loop where a bound is a run-time value."""
    if any(is_symbolic(bound) for bound in bounds):
        return LoopSpec("SERIAL", (range_bounds(*bounds),))
    return builtins.range(*(int(getattr(bound, "value", bound)) for bound in bounds))


_MISSING = object()


def _hasattr(holder: Any, name: str) -> bool:
    """``hasattr`` of an attribute that is there on every path of the kernel, or on none."""
    return _getattr(holder, name, _MISSING) is not _MISSING


def _getattr(holder: Any, name: str, *default: Any) -> Any:
    """``getattr``; a run-time loop that asks in vain, and makes the attribute later, is refused at its end."""
    value = getattr(holder, name, _MISSING) if default else getattr(holder, name)
    if value is _MISSING and is_tracing():
        current().asked.append((holder, name))
    if isinstance(value, Unusable):
        as_operand(value)
    return default[0] if value is _MISSING else value


def _keyed(name: str) -> Callable[..., Any]:
    """``set``, ``frozenset`` or ``dict`` of items or keys that are known."""
    python = getattr(builtins, name)

    @functools.wraps(python, assigned=("__name__", "__doc__"))
    def function(*args: Any, **kwargs: Any) -> Any:
        return with_values(with_known_keys(python(*args, **kwargs)))

    return function


def _copied(name: str) -> Callable[..., Any]:
    """``list`` or ``tuple``, a copy with the values of the variables in it."""
    python = getattr(builtins, name)

    @functools.wraps(python, assigned=("__name__", "__doc__"))
    def function(*args: Any) -> Any:
        return with_values(python(*args))

    return function


def _next(iterator: Any, *default: Any) -> Any:
    """``next``: what advances an iterator from before a run-time loop or condition does so once, which is refused at its end."""
    current().advanced.append(iterator)
    return builtins.next(iterator, *default)


def _round(value: Any, digits: Any = None) -> Any:
    if digits not in (None, 0):
        raise OperandError("round(x, digits) of a run-time value", hint="T.nearbyint(x * 100) / 100 keeps two digits")
    return math.nearbyint(value)


_EXTENDED: Mapping[str, Callable[..., Any]] = {
    "min": _extremum("min"),
    "max": _extremum("max"),
    "abs": _either("abs", math.abs, _is_typed),
    "round": _either("round", _round, _is_typed),
    "pow": _either("pow", math.pow),
    "divmod": _either("divmod", lambda left, right: (floor_divide(left, right), modulo(left, right))),
    "int": _number("int", _int),
    "float": _number("float", _float),
    "bool": _number("bool", math.condition),
    "hasattr": _hasattr,
    "getattr": _getattr,
    "str": _either("str", text_of, _is_shown),
    "repr": _either("repr", text_of, _is_shown),
    "format": _either("format", text_of, _is_shown),
    "set": _keyed("set"),
    "frozenset": _keyed("frozenset"),
    "dict": _keyed("dict"),
    "list": _copied("list"),
    "tuple": _copied("tuple"),
    "sum": _sum,
    "print": _print,
    "range": _range,
    "next": _next,
    "any": _quantifier("any", stop=True),
    "all": _quantifier("all", stop=False),
}
"""The replacement of each builtin that a kernel may use on run-time values."""


def extended_builtin(name: str) -> Callable[..., Any]:
    """The replacement of a builtin."""
    return _EXTENDED[name]


def public_function(name: str) -> Callable[..., Any] | None:
    """The language's function of a name; None where it has none."""
    import tilelang.language

    return getattr(tilelang.language, name, None)
