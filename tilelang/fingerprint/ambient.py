"""State of the process that code can read although it is in none of its values: the environment, Python's limits, the locale of
numbers, and numpy's settings for errors and printing."""

from __future__ import annotations

import _locale
import functools
import os
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

from tilelang import env
from tilelang.fingerprint import genuine, output, watch
from tilelang.fingerprint.missing import MISSING
from tilelang.fingerprint.walk import Describer

_GENUINE_ENVIRON, _ = env.table_and_reader()


def environment(describer: Describer, value: Any, chain: list[str], constant: str | None) -> None:
    """Feeds the environment variable that is read by name.

    Args:
        describer: what is fed.
        value: ``os.environ``, or ``os.getenv``.
        chain: the attributes of it that are read.
        constant: the variable's name; None where it is not written out, which makes the whole environment count.
    """
    _expect_the_environment(describer)
    table = env.raw_table()
    if constant is None or chain not in ([], ["get"]):
        describer.only_here("an environment variable is read whose name is not written out there")
        describer.record_dict(table)
        describer.text(f"environment {sorted(table.items())!r}")
        describer.environment.add("*")
        return
    key = env.raw_key(constant)
    describer.record(watch.ITEM, table, key, table.get(key, MISSING))
    describer.text(f"environment {constant}={table.get(key)!r}")
    describer.environment.add(constant)


def _expect_the_environment(describer: Describer) -> None:
    table, reader = env.table_and_reader()
    home = genuine.home_of(reader.__code__, ()) if type(reader) is FunctionType else None
    if table is not _GENUINE_ENVIRON or home is None or not genuine.is_genuine_code(reader.__code__, home):
        raise describer.refuse("os.environ or os.getenv was replaced")
    # The program may replace either later, so both are watched.
    for name, expected in (("environ", table), ("getenv", reader)):
        describer.record(watch.ITEM, os.__dict__, name, expected)
    describer.record_dict(table.__dict__)


def numpy_state(describer: Describer) -> None:
    """Feeds numpy's settings for arithmetic errors and for printing."""
    if describer.is_first("numpy"):
        found = _numpy_state()
        describer.record_probe(_numpy_state, found)
        errors, call, printing = found
        formatters = printing["formatter"] or {}
        describer.record_dict(formatters)
        for part in (errors, {**printing, "formatter": list(formatters)}):
            describer.value(part)
        for function in (call, *formatters.values()):
            describer.value(function, is_given=False)
        output.filters_of_warnings(describer)


def _numpy_state() -> tuple:
    numpy = sys.modules["numpy"]
    return numpy.geterr(), numpy.geterrcall(), numpy.get_printoptions()


def numeric_locale(describer: Describer) -> None:
    """Feeds the locale of numbers, as something is formatted that may ask for its separators: ``f"{x:n}"``."""
    if describer.is_first("locale"):
        describer.record_probe(_numeric_locale, _numeric_locale())
        describer.text(f"locale {_numeric_locale()}")


_numeric_locale = functools.partial(_locale.setlocale, _locale.LC_NUMERIC)
"""Compiled code alone, as it is asked for by every call: 0.25 µs."""


def exceptions_are_caught(describer: Describer) -> None:
    """Feeds the interpreter's limits, and the warnings that it raises, as code handles exceptions: one may then decide what it
    gives."""
    output.errors_of_warnings(describer)
    if describer.is_first("limits"):
        describer.record_probe(_limits, _limits())
        describer.text(f"limits {_limits()}")


def _limits() -> tuple[int, int]:
    """The limit of recursion, and that of digits of a number as text."""
    return sys.getrecursionlimit(), _digits()


_digits: Callable[[], int] = getattr(sys, "get_int_max_str_digits", lambda: 0)
