"""The output of a program: streams, loggers and warnings.

Output does not affect the code, unless a stream, handler, formatter or filter raises an exception or changes its arguments. Those
of the standard library and of installed packages do neither; those of the program are fingerprinted, as far as they can be read.
"""

from __future__ import annotations

import io
import logging
import sys
import warnings
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from tilelang.fingerprint import genuine, library_globals, library_state, watch
from tilelang.fingerprint.missing import MISSING
from tilelang.fingerprint.walk import Describer, describes, type_name

_TELLING = frozenset(
    "debug info warning warn error critical exception log name level disabled isEnabledFor getEffectiveLevel".split()
)
_LOGGER_LIMITS = frozenset(dir(logging.getLogger())) - _TELLING - frozenset(dir(object))
_STREAMS = (type(None), io.TextIOWrapper, io.StringIO, io.BufferedWriter, io.BufferedRandom, io.BytesIO, io.FileIO)
_CLASSES = (
    logging.Logger, logging.LogRecord, logging.Handler, logging.StreamHandler, logging.FileHandler, logging.Formatter,
)  # fmt: skip

_PARTS = (logging.Handler, logging.Formatter, logging.LogRecord, logging.Logger)

# -- streams ----------------------------------------------------------------------------------------------------------


def stream(describer: Describer, name: str) -> None:
    """Feeds ``sys.stdout`` or ``sys.stderr``: whether it takes a text may depend on its encoding."""
    if describer.is_first(f"stream {name}"):
        value = vars(sys)[name]
        describer.record(watch.ITEM, vars(sys), name, value)
        with describer.at(f"sys.{name}"):
            _expect_stream(describer, value)
        describer.record_probe(lambda: _encoding(value), _encoding(value))
        describer.text(f"{name} {_encoding(value)}")


def _expect_stream(describer: Describer, value: Any) -> None:
    while value is not None:
        kind = type(value)
        if kind not in _STREAMS and not genuine.is_installed_class(kind) or _own_methods(value):
            raise describer.refuse(f"a stream of the class {type_name(value)}, which may do anything when it is written to")
        # A text stream writes to a buffer, which writes to a file: each may be of the program's own class.
        value = next((getattr(value, part) for part in ("buffer", "raw") if hasattr(kind, part)), None)


def _encoding(value: Any) -> tuple:
    return tuple(getattr(value, name, None) for name in ("encoding", "errors", "closed"))


# -- loggers ----------------------------------------------------------------------------------------------------------


@describes(logging.Logger, logging.RootLogger)
def _logger(describer: Describer, value: logging.Logger) -> None:
    """A logger: its level, which ``isEnabledFor`` reads, and everything that gets its messages."""
    state = _logger_state(value)
    describer.record_probe(lambda: _logger_state(value), state)
    describer.text(f"logger {value.name} {state}")
    describer.limit(f"the logger {value.name!r}", _LOGGER_LIMITS | (value.__dict__.keys() - _TELLING))
    with describer.at(f"the logger {value.name!r}"):
        _receivers_of(describer, lambda: _above(value))


def any_logger(describer: Describer) -> None:
    """Notes that loggers are looked up while the code runs: which ones is not known before, so that their levels must not be
    read, and everything that gets a message of any of them counts."""
    describer.limit("a logger", _LOGGER_LIMITS | frozenset("level disabled isEnabledFor getEffectiveLevel".split()))
    if describer.is_first("loggers"):
        with describer.at("a logger"):
            _receivers_of(describer, _all_loggers)


def _logger_state(value: logging.Logger) -> tuple:
    return value.name, value.level, value.getEffectiveLevel(), value.disabled, value.manager.disable, sorted(value.__dict__)


def _all_loggers() -> list[logging.Logger]:
    return [logging.root, *(each for each in list(logging.root.manager.loggerDict.values()) if isinstance(each, logging.Logger))]


def _above(logger: logging.Logger) -> list[logging.Logger]:
    """A logger and those that its messages propagate to."""
    found = [logger]
    while found[-1].propagate and found[-1].parent is not None:
        found.append(found[-1].parent)
    return found


def _receivers_of(describer: Describer, loggers: Callable[[], Iterable[logging.Logger]]) -> None:
    """Feeds everything that gets the messages of loggers: filters, handlers, the handlers' filters, formatters and streams."""
    found = _listeners(loggers())
    describer.record_probe(lambda: _are(_listeners(loggers()), found), True)
    if describer.is_first("logging"):
        _module(describer)
    for each in found:
        _listener(describer, each)


def _module(describer: Describer) -> None:
    """Feeds what a program has changed in the module ``logging``."""
    describer.record_dict(logging.__dict__)
    for name, value in vars(logging).items():
        if isinstance(value, (FunctionType, type)) and not _is_genuine(value):
            with describer.at(f"`logging.{name}`"):
                describer.value(value)
    for kind in _CLASSES:
        library_state.own_namespace(describer, kind)


def _is_genuine(value: Any) -> bool:
    if isinstance(value, FunctionType):
        return genuine.is_installed_code(value.__code__)
    return genuine.is_immutable(value) or genuine.is_installed_class(value)


def _listeners(loggers: Iterable[logging.Logger]) -> list[Any]:
    found: list[Any] = [logging.getLogRecordFactory(), logging.lastResort]
    for logger in loggers:
        found += [type(logger), *logger.filters, *logger.handlers]
    for handler in [each for each in found if isinstance(each, logging.Handler)]:
        found += [handler.formatter, *handler.filters, getattr(handler, "stream", None)]
    return found


def _are(now: list[Any], then: list[Any]) -> bool:
    return len(now) == len(then) and all(a is b for a, b in zip(now, then))


def _listener(describer: Describer, value: Any) -> None:
    kind = value if isinstance(value, type) else type(value)
    if hasattr(kind, "write"):
        _expect_stream(describer, value)
    elif issubclass(kind, _PARTS) and genuine.is_installed_class(kind):
        if value is not kind and _own_methods(value):
            raise describer.refuse(f"a handler with {min(_own_methods(value))!r} of its own")
    elif isinstance(value, logging.Handler):
        raise describer.refuse(f"a handler of the class {type_name(value)}, which may do anything with a message")
    else:
        describer.value(value)


def _own_methods(value: Any) -> set[str]:
    """The methods that an object overrides in its own dictionary."""
    return {name for name in getattr(value, "__dict__", ()) if callable(getattr(type(value), name, None))}


# -- warnings ---------------------------------------------------------------------------------------------------------


def filters_of_warnings(describer: Describer) -> None:
    """Feeds which warnings are raised, and what shows them; what was warned of depends on earlier calls, and is limited."""
    describer.limit("the warnings that were shown", frozenset(("record=",)))
    errors_of_warnings(describer)
    if describer.is_first("warnings"):
        library_globals.variables_of(describer, warnings, ("showwarning", "formatwarning", "_showwarnmsg"))
        stream(describer, "stderr")
        if getattr(warnings.showwarning, "__globals__", None) is logging.__dict__:  # logging.captureWarnings
            any_logger(describer)


def errors_of_warnings(describer: Describer) -> None:
    """Feeds which warnings are raised as exceptions: those of the interpreter, too."""
    if describer.is_first("errors of warnings"):
        for name in ("filters", "defaultaction"):
            describer.record(watch.ITEM, warnings.__dict__, name, warnings.__dict__.get(name, MISSING))
        describer.record(watch.LIST, warnings.filters, None, tuple(warnings.filters))
        describer.text(f"warnings {_filters()}")


def _filters() -> list[tuple]:
    """The filters of warnings and what is done where none fits, if one of them makes errors."""
    otherwise = getattr(warnings, "defaultaction", "default")
    found = [*warnings.filters, (otherwise, None, Warning, None, 0)]
    if not any(action == "error" for action, *_ in found):
        return []
    return [(action, *map(_pattern, (text, module)), str(kind), line) for action, text, kind, module, line in found]


def _pattern(pattern: Any) -> Any:
    return getattr(pattern, "pattern", pattern)
