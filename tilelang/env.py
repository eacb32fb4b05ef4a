"""The only reader of environment variables.

Each variable is a row of :data:`VARIABLES`: name, default, parser, whether it changes generated code (and so belongs to
the kernel key), and one line of documentation. ``env.get("TILELANG_CACHE_DIR")`` reads the environment at every call, so a
test may set a variable with ``monkeypatch.setenv``. A set ``TILELANG_*`` name that is not in the table is reported once.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from types import CodeType
from typing import Any

from tilelang.callers import users_level
from tilelang.records import Record


class Variable(Record):
    """One environment variable."""

    name: str
    default: Any
    parse: Callable[[str], Any]
    changes_code: bool
    doc: str


def flag(text: str) -> bool:
    """``1 true yes on`` are true, ``0 false no off`` and empty are false."""
    lowered = text.strip().lower()
    if lowered in ("1", "true", "yes", "on"):
        return True
    if lowered in ("", "0", "false", "no", "off"):
        return False
    raise ValueError("expected 1 or 0")


def choice(*allowed: str) -> Callable[[str], str]:
    """A parser that admits only the words ``allowed``."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError("expected " + " or ".join(allowed))
        return text

    return parse


def byte_size(text: str) -> int:
    """A number of bytes: ``500M``, ``2GiB``, ``1.5 g`` and plain digits; units are powers of 1024."""
    number = text.strip().lower().removesuffix("ib").removesuffix("b")
    shift = {"k": 10, "m": 20, "g": 30, "t": 40}.get(number[-1:], 0)
    try:
        size = int(float(number[:-1] if shift else number) * (1 << shift))
    except (ValueError, OverflowError):
        size = -1
    if size < 0:
        raise ValueError("expected a size such as 500M or 2G")
    return size


def seconds(text: str) -> float:
    """A time that is over some day."""
    try:
        time = float(text)
    except ValueError:
        time = math.nan
    if not 0 <= time < math.inf:
        raise ValueError("expected seconds, such as 2.5")
    return time


VARIABLES: dict[str, Variable] = {
    row.name: row
    for row in (
        Variable("TILELANG_CACHE_DIR", None, str, False, "Root directory of the kernel cache."),
        Variable("TILELANG_CC", None, str, True, "C compiler of the `c` target."),
        Variable("TILELANG_DISABLE_CACHE", False, flag, False, "Compile afresh; neither read nor write the cache on disk."),
        Variable(
            "TILELANG_TRACEBACK", "short", choice("short", "full"), False, "`full` shows the compiler's own frames in errors."
        ),
        Variable("TILELANG_CUDA_ARCH", None, str, True, "CUDA architecture, for example `sm_90a`, where the target names none."),
        Variable(
            "TILELANG_CUDA_COMPILER",
            None,
            choice("nvrtc", "nvcc"),
            True,
            "Device compiler: `nvrtc` (default where installed) or `nvcc`.",
        ),
        Variable("CUDA_HOME", None, str, False, "Root of a CUDA toolkit, used after NVIDIA's Python wheels."),
        Variable(
            "TILELANG_DEVICE", "auto", choice("simulator", "auto"), False, "`simulator` runs CUDA kernels on the PTX simulator."
        ),
        Variable(
            "TILELANG_VIRTUAL_DEVICE",
            None,
            str,
            False,
            "The device of `tilelang simulate` for interpreters that the program starts (JSON).",
        ),
        Variable("TILELANG_INTERPRET", False, flag, False, "`1` runs every kernel on the interpreter, on CPU tensors."),
        Variable("TILELANG_DISABLE_FILE_CACHING", False, flag, False, "Keep kernels in memory only; leave the disk alone."),
        Variable(
            "TILELANG_CACHE_SCOPE",
            "user",
            choice("user", "repo"),
            False,
            "`repo` keeps the cache in the enclosing git work tree.",
        ),
        Variable(
            "TILELANG_CACHE_MAX_SIZE", 10 << 30, byte_size, False, "Size cap of the cache, for example `500M`; `0` is no cap."
        ),
        Variable(
            "TILELANG_CACHE_LAYERS", "", str, False, "Read-only cache directories beneath the writable one, `:` between them."
        ),
        Variable("TILELANG_CACHE_URL", None, str, False, "SQLAlchemy URL of the tier that hosts share, for example PostgreSQL."),
        Variable(
            "TILELANG_CACHE_URL_TIMEOUT", 2.0, seconds, False, "Seconds that the shared tier may take before it is left out."
        ),
        Variable("TILELANG_DEFAULT_TARGET", "auto", str, False, "Target of kernels that name none."),
        Variable("TILELANG_EXECUTION_BACKEND", None, str, False, "Execution backend of kernels that name none."),
        Variable("TILELANG_VERBOSE", False, flag, False, "Print where each kernel comes from."),
        Variable("PYTHONPATH", None, str, False, "Import path, to which `tilelang simulate` adds for children of the program."),
        Variable("XDG_CACHE_HOME", None, str, False, "Base directory of user caches (XDG base directory specification)."),
    )
}


INCLUDE_PATHS = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")
"""Variables of C compilers with directories of headers."""

_HOST_TOOLS = (*INCLUDE_PATHS, "COMPILER_PATH", "GCC_EXEC_PREFIX", "LIBRARY_PATH", "SOURCE_DATE_EPOCH", "CCC_OVERRIDE_OPTIONS")
_DEVICE_TOOLS = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "CUDA_HOME", "CUDA_PATH")
FLAG_VARIABLES = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
"""Variables with flags for a compiler."""

TOOLS: Mapping[str, tuple[str, ...]] = {"c": _HOST_TOOLS, "cuda": (*_HOST_TOOLS, *_DEVICE_TOOLS)}
"""Kind of target -> variables that its tools read and that change what they make."""


def of_tools(kind: str) -> dict[str, str]:
    """The set variables that the tools of a kind of target read, by name; part of the kernel key."""
    return {name: os.environ[name] for name in TOOLS.get(kind, ()) if name in os.environ}


def get(name: str) -> Any:
    """The parsed value of a variable, or its default where it is unset or empty, or malformed (with a warning)."""
    variable = VARIABLES[name]
    text = os.environ.get(name)
    if not text:
        return variable.default
    try:
        return variable.parse(text)
    except ValueError as error:
        _warn_ignored(name, text, str(error))
        return variable.default


@functools.cache
def _warn_ignored(name: str, text: str, reason: str) -> None:
    """Warns, once in a process, of a value that cannot be read."""
    warnings.warn(f"{name}={text!r} is ignored: {reason}", stacklevel=users_level())


def on_simulator() -> bool:
    """Whether the simulator stands in for a GPU."""
    return get("TILELANG_DEVICE") == "simulator"


class Settings:
    """The variables as attributes: reading parses, assigning sets the environment (None unsets it).

    Raises:
        AttributeError: no such variable.
    """

    def __getattr__(self, name: str) -> Any:
        if name not in VARIABLES:
            from tilelang.unknown import unknown_attribute  # only a mistake needs it

            raise unknown_attribute(f"no environment variable {name}", name, VARIABLES)
        return get(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self.__getattr__(name)
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = str(int(value) if isinstance(value, bool) else value)

    def is_cache_enabled(self) -> bool:
        """Whether kernels are looked up and kept."""
        return not self.TILELANG_DISABLE_CACHE

    def enable_cache(self) -> None:
        """Keeps kernels from now on."""
        self.TILELANG_DISABLE_CACHE = None

    def disable_cache(self) -> None:
        """Compiles afresh from now on."""
        self.TILELANG_DISABLE_CACHE = True


Environment = Settings
env = Settings()
enable_cache, disable_cache, is_cache_enabled = env.enable_cache, env.disable_cache, env.is_cache_enabled


@contextlib.contextmanager
def overridden(name: str, text: str) -> Iterator[None]:
    """Sets a variable inside of a ``with`` block."""
    before = os.environ.get(VARIABLES[name].name)
    os.environ[name] = text
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def code_changing() -> dict[str, str]:
    """The set variables that change generated code, by name; part of every kernel key."""
    names = (name for name, variable in VARIABLES.items() if variable.changes_code)
    return {name: os.environ[name] for name in names if name in os.environ}


def is_reader(value: Any) -> bool:
    """Whether ``value`` is what user code reads environment variables with."""
    return value is os.environ or value is os.getenv


def table_and_reader() -> tuple[Any, Any]:
    """``os.environ`` and ``os.getenv`` as they are now."""
    return os.environ, os.getenv


def lookup_code() -> CodeType:
    """The code that every look-up in ``os.environ`` runs."""
    return type(os.environ).__getitem__.__code__


def raw_table() -> dict[bytes, bytes]:
    """The table that ``os.environ`` decodes: name -> value, for checks by identity that must take nanoseconds."""
    return os.environ._data  # pyright: ignore[reportAttributeAccessIssue]


def raw_key(name: str) -> bytes:
    """The key of :func:`raw_table` for a variable."""
    return os.environ.encodekey(name)  # pyright: ignore[reportReturnType]


def code_changing_keys(kind: str = "") -> list[bytes]:
    """Keys of :func:`raw_table` for the variables that change generated code, with those of the tools of a kind of target."""
    own = (name for name, variable in VARIABLES.items() if variable.changes_code)
    return [raw_key(name) for name in (*own, *TOOLS.get(kind, ()))]


@functools.cache
def warn_unknown() -> None:
    """Warns, once in a process, of each ``TILELANG_*`` variable that nothing reads, with the nearest known name."""
    for name in os.environ:
        if name.startswith("TILELANG_") and name not in VARIABLES:
            near = difflib.get_close_matches(name, VARIABLES, n=1)
            suggestion = f"; did you mean {near[0]}?" if near else ""
            warnings.warn(f"unknown environment variable {name}{suggestion}", stacklevel=users_level())


def __getattr__(name: str) -> Any:
    """``tilelang.env.CUDA_HOME`` is the variable's value, as of :data:`env`."""
    if name not in VARIABLES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return get(name)
