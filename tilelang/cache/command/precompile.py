"""Compiling a list of calls ahead of time, for example while a container image is built.

The list is JSON: ``[{"function": "package.module:factory", "args": [1024, 1024], "kwargs": {"dtype": "float16"}}, …]``. A
string argument that names a torch dtype may be written ``"torch.float16"``.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tilelang.errors import CacheError

Progress = Callable[[Iterable[Any]], Iterable[Any]]


@dataclass(frozen=True)
class Compiled:
    """One call of a list: what was called, how long it took, and what went wrong (empty: nothing)."""

    function: str
    arguments: str
    seconds: float
    error: str


def run(file: Path, progress: Progress = iter) -> list[Compiled]:
    """Makes every call of the list ``file``; one that fails does not stop the others.

    Raises:
        CacheError: the file is not such a list.
    """
    try:
        calls = json.loads(file.read_text())
        listed = cast("list[Any]", calls if isinstance(calls, list) else [calls])
        checked = [_checked(call) for call in listed]
    except ValueError as error:
        raise CacheError(
            f"{file} is not a precompile list: {error}",
            hint='[{"function": "package.module:factory", "args": [1024], "kwargs": {}}]',
        ) from error
    sys.path.insert(0, str(file.parent.absolute()))
    try:
        return [_compile(*call) for call in progress(checked)]
    finally:
        sys.path.remove(str(file.parent.absolute()))


_FIELDS: dict[str, type] = {"function": str, "args": list, "kwargs": dict}


def _checked(call: Any) -> tuple[str, list[Any], dict[str, Any]]:
    """The function's name and the arguments of a call of the list.

    Raises:
        ValueError: a field is missing, unknown, or of another type.
    """
    if not isinstance(call, dict) or "function" not in call:
        raise ValueError(f'{json.dumps(call)} names no "function"')
    fields = cast("dict[str, Any]", call)
    for name, value in fields.items():
        if not isinstance(value, _FIELDS.get(name, ())):
            raise ValueError(f'{json.dumps(fields)} has "{name}": {json.dumps(value)}')
    return fields["function"], fields.get("args", []), fields.get("kwargs", {})


def _compile(name: str, args: list[Any], kwargs: dict[str, Any]) -> Compiled:
    started = time.perf_counter()
    error = ""
    try:
        function = _find(name)
        compile = getattr(function, "compile", function)
        made = compile(*map(_value, args), **{key: _value(value) for key, value in kwargs.items()})
        if not hasattr(made, "cache_key"):
            raise TypeError(f"{name} gave {type(made).__name__}, not a kernel")  # noqa: TRY301 - this call's error like any other
    except Exception as problem:  # whatever a user's module raises belongs to this call alone
        error = f"{type(problem).__name__}: {problem}"
    shown = ", ".join([*map(repr, args), *(f"{key}={value!r}" for key, value in kwargs.items())])
    return Compiled(name, shown, time.perf_counter() - started, error)


def _find(name: str) -> Callable[..., Any]:
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _value(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("torch."):
        return getattr(importlib.import_module("torch"), value.removeprefix("torch."))
    return value
