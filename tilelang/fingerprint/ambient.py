"""State of the process that code can read without its being in any of its values: the environment, levels of loggers, which
warnings are errors, and what numpy does on errors and when it prints."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from types import FunctionType
from typing import Any

from tilelang import env
from tilelang.fingerprint import genuine, watch
from tilelang.fingerprint.missing import MISSING
from tilelang.fingerprint.walk import Describer, describes

_TELLING = frozenset(
    "debug info warning warn error critical exception log name level disabled isEnabledFor getEffectiveLevel".split()
)
_LOGGER_LIMITS = frozenset(dir(logging.getLogger())) - _TELLING - frozenset(dir(object))
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
    for name, expected in (("environ", table), ("getenv", reader)):
        describer.record(watch.ITEM, os.__dict__, name, expected)
    describer.record_dict(table.__dict__)


@describes(logging.Logger, logging.RootLogger)
def _logger(describer: Describer, value: logging.Logger) -> None:
    """A logger: its output does not reach the code, but its level does, which ``isEnabledFor`` reads."""
    state = _logger_state(value)
    describer.record_probe(lambda: _logger_state(value), state)
    describer.text(f"logger {value.name} {state}")
    describer.limit(f"the logger {value.name!r}", _LOGGER_LIMITS)


def limit_loggers(describer: Describer) -> None:
    """Notes that loggers are looked up while the code runs, whose levels are not known before."""
    describer.limit("a logger", _LOGGER_LIMITS | frozenset("level disabled isEnabledFor getEffectiveLevel".split()))


def _logger_state(value: logging.Logger) -> tuple:
    return value.name, value.level, value.getEffectiveLevel(), value.disabled, value.manager.disable, sorted(value.__dict__)


def filters_of_warnings(describer: Describer) -> None:
    """Feeds which warnings are raised, and what shows them; what was warned of depends on earlier calls, and is limited."""
    describer.limit("the warnings that were shown", frozenset(("record=",)))
    if describer.is_first("warnings"):
        describer.record_probe(_filters, _filters())
        describer.record(watch.ITEM, vars(warnings), "showwarning", warnings.showwarning)
        describer.text(f"warnings {_filters()}")
        describer.value(warnings.showwarning)


def _filters() -> list[tuple]:
    """The filters of warnings, if one of them makes errors."""
    found = warnings.filters
    if not any(action == "error" for action, *_ in found):
        return []
    return [(action, *map(_pattern, (text, module)), str(kind), line) for action, text, kind, module, line in found]


def _pattern(pattern: Any) -> Any:
    return getattr(pattern, "pattern", pattern)


def numpy_state(describer: Describer) -> None:
    """Feeds what numpy does on errors of arithmetic, warnings among them, and how it prints."""
    if describer.is_first("numpy"):
        describer.record_probe(_numpy_state, _numpy_state())
        describer.text(f"numpy {_numpy_state()!r}")
        filters_of_warnings(describer)


def _numpy_state() -> tuple:
    numpy = sys.modules["numpy"]
    return numpy.geterr(), numpy.get_printoptions()
