"""What cases change outside of their own package, put back after each."""

from __future__ import annotations

import builtins
import codecs
import collections
import contextlib
import copy
import copyreg
import decimal
import fractions
import gc
import heapq
import logging
import math
import os
import random
import re
import reprlib
import signal
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Iterator, MutableMapping

import tilelang.dtypes
import tilelang.math

_MODULES = (
    builtins, math, tilelang.dtypes, tilelang.math, os, logging, warnings, textwrap, re, heapq, fractions, collections, threading,
    time,
)  # fmt: skip
_CLASSES = (fractions.Fraction, collections.UserDict, logging.Logger)
_FUNCTIONS = (tilelang.math.cdiv, textwrap.dedent, textwrap.wrap, heapq.merge)
_TABLES = (copyreg.dispatch_table, copy._deepcopy_dispatch)  # pyright: ignore[reportAttributeAccessIssue]
_LISTS: tuple[list, ...] = (sys.meta_path, sys.path)
_HANDLERS = ("namereplace", "backslashreplace")
_IN_FUNCTIONS = ("__code__", "__defaults__", "__kwdefaults__")


@contextlib.contextmanager
def preserved() -> Iterator[None]:
    """Afterwards the process is what it was before."""
    tables = [(module.__dict__, dict(module.__dict__)) for module in _MODULES]
    tables += [(table, dict(table)) for table in _TABLES]
    lists = [(each, list(each)) for each in _LISTS]
    handlers = [(name, codecs.lookup_error(name)) for name in _HANDLERS]
    arguments, thread, threshold = sys.argv, threading.current_thread().name, gc.get_threshold()
    tables += [(function.__dict__, dict(function.__dict__)) for function in _FUNCTIONS]
    classes = [(kind, dict(vars(kind))) for kind in _CLASSES]
    functions = [(function, name, getattr(function, name)) for function in _FUNCTIONS for name in _IN_FUNCTIONS]
    environ, variables, place, filters = os.environ, dict(os.environ), os.getcwd(), list(warnings.filters)
    streams = sys.stdout, sys.stderr
    try:
        yield
    finally:
        sys.settrace(None)
        sys.argv, threading.current_thread().name = arguments, thread
        gc.set_threshold(*threshold)
        for each, items in lists:
            each[:] = items
        for name, handler in handlers:
            codecs.register_error(name, handler)
        for table, before in tables:
            _restore_table(table, before)
        for kind, before in classes:
            _restore_class(kind, before)
        for function, name, value in functions:
            setattr(function, name, value)
        _restore_table(environ, variables)
        os.chdir(place)
        sys.stdout, sys.stderr = streams
        warnings.filters[:] = filters  # pyright: ignore[reportIndexIssue]
        _restore_rest()


def _restore_table(table: MutableMapping, before: dict) -> None:
    for name in set(table) - set(before):
        del table[name]
    table.update(before)


def _restore_class(kind: type, before: dict) -> None:
    for name in set(vars(kind)) - set(before):
        delattr(kind, name)
    for name, value in before.items():
        if vars(kind)[name] is not value:
            setattr(kind, name, value)


def _restore_rest() -> None:
    decimal.getcontext().prec = 28
    logging.disable(logging.NOTSET)
    logging.addLevelName(20, "INFO")
    sys.setrecursionlimit(1000)
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(sys.int_info.default_max_str_digits)
    random.seed(1)
    reprlib.aRepr.maxlist = 6
    sys.setswitchinterval(0.005)
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    warnings.defaultaction = "default"  # pyright: ignore[reportAttributeAccessIssue]
    re.purge()
    logging.captureWarnings(False)
    for name in [name for name in logging.root.manager.loggerDict if name.startswith(("case", "py.warnings"))]:
        del logging.root.manager.loggerDict[name]
